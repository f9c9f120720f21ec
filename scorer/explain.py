"""Explain: turn a ranking into words and JSON. Runs once an answer, over the few machines that the answer shows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schemas.resources import RESOURCES
from scorer import plugins
from scorer.machines import Machines

if TYPE_CHECKING:
    from scorer.rank import Ranking


@dataclass(frozen=True)
class Refusal:
    """So many machines for one reason; each machine counts once, for the first filter that refused it."""

    filter: str
    reason: str
    machines: int


def refusals(ranking: Ranking) -> list[Refusal]:
    """Return the refused machines by filter and reason, most first."""
    if ranking.feasible_count == len(ranking.machines):
        return []
    left = np.ones(len(ranking.machines), np.bool_)
    found: Counter[tuple[str, str]] = Counter()
    for verdict in ranking.verdicts:
        each = verdict.filter
        refused = left & ~verdict.allowed
        if not refused.any():
            continue
        left &= verdict.allowed
        for reason, mask in plugins.reasons(each, ranking.request, verdict.machines, verdict.allowed).items():
            count = int(np.count_nonzero(refused & mask))
            refused = refused & ~mask
            if count:
                found[each.name, reason] += count
        if rest := int(np.count_nonzero(refused)):
            found[each.name, each.reason] += rest
    order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Refusal(name, reason, count) for (name, reason), count in order]


def summary(ranking: Ranking) -> str:
    """Return one line a person can read: ``0/5 feasible: 3 cpu over threshold, 2 stale``."""
    line = f"{ranking.feasible_count}/{len(ranking.machines)} feasible"
    why = ", ".join(f"{each.machines} {each.reason}" for each in ranking.refusals)
    return f"{line}: {why}" if why else line


def warnings(ranking: Ranking) -> list[str]:
    """Return what the reader should know about the data behind the answer."""
    machines, found = ranking.machines, []
    if machines.fleet.requests_alone:
        found.append(f"no machine has data younger than {ranking.profile.stale_s:g} s: ranked by requests alone")
    elif rows := [int(row) for row in ranking.best(1)]:
        row = rows[0]
        if machines.warming[row]:
            found.append(f"{machines.name(row)} is warming: {machines.coverage[row]:.0%} of its window is covered")
        if not machines.has_data[row]:
            found.append(f"{machines.name(row)} has no data")
        elif machines.age_s[row] > ranking.profile.stale_s:
            found.append(f"{machines.name(row)} has data {machines.age_s[row]:.0f} s old")
    if warming := int(np.count_nonzero(machines.warming & machines.has_data)):
        found.append(f"{warming} of {len(machines)} machines are warming")
    stale = int(np.count_nonzero(machines.has_data & ~(machines.age_s <= ranking.profile.stale_s)))
    if stale:
        found.append(f"{stale} of {len(machines)} machines have data older than {ranking.profile.stale_s:g} s")
    return found


def answer(ranking: Ranking, top: int, explain_all: bool) -> dict[str, Any]:
    """Return the whole answer.

    ``machine`` is the chosen one or None; ``candidates`` the best ``top`` with their terms, the chosen one first;
    ``refusals`` and ``summary`` say why the others are not there; ``machines`` (with ``explain_all``) holds every
    filter's and score's verdict for each machine.
    """
    best = [int(row) for row in ranking.best(top)]
    request = ranking.machines
    result: dict[str, Any] = {
        "machine": request.name(best[0]) if best else None,
        "score": round(float(ranking.total[best[0]]), 6) if best else None,
        "profile": ranking.profile.name,
        "summary": ranking.summary,
        "feasible": ranking.feasible_count,
        "fleet": len(ranking.machines),
        "request": {name: float(v) for name, v in zip(RESOURCES, request.amounts, strict=True)},
        "expected": {name: float(v) for name, v in zip(RESOURCES, request.expected, strict=True)},
        "candidates": [candidate(ranking, row) for row in best],
        "refusals": [{"filter": r.filter, "reason": r.reason, "machines": r.machines} for r in ranking.refusals],
        "warnings": warnings(ranking),
    }
    if explain_all:
        rows = [int(row) for row in ranking.order]
        rows += [int(row) for row in np.flatnonzero(~ranking.feasible)]
        result["machines"] = [full(ranking, row) for row in rows]
    return result


def candidate(ranking: Ranking, row: int) -> dict[str, Any]:
    """Return one machine with its terms."""
    machines = ranking.machines
    scores = {}
    risk = None
    for term in ranking.terms:
        details = plugins.detail(term.weighted.score, ranking.request, term.machines, row)
        scores[term.weighted.score.name] = {
            "value": _number(term.value[row]),
            "raw": _number(term.raw[row]),
            "weight": term.weighted.weight,
            **details,
        }
        risk = details.get("risk", risk)
    return {
        "machine": machines.name(row),
        "score": _number(ranking.total[row]) if ranking.feasible[row] else None,
        "risk": risk,
        "scores": scores,
        "resources": _resources(machines, row),
        "window_s": _number(machines.window_s[row]),
        "coverage": _number(machines.coverage[row]),
        "warming": bool(machines.warming[row]),
        "age_s": _number(machines.age_s[row]),
        "instances": int(machines.count[row]),
    }


def full(ranking: Ranking, row: int) -> dict[str, Any]:
    """Return one machine with its terms and every filter's verdict."""
    verdicts = []
    for each in ranking.verdicts:
        said: dict[str, Any] = {"filter": each.filter.name, "allowed": bool(each.allowed[row])}
        if not each.allowed[row]:
            found = plugins.reasons(each.filter, ranking.request, each.machines, each.allowed)
            said["reason"] = next((reason for reason, mask in found.items() if mask[row]), each.filter.reason)
        details = plugins.detail(each.filter, ranking.request, each.machines, row)
        if details:
            said["compared"] = dict(details)
        verdicts.append(said)
    return {**candidate(ranking, row), "feasible": bool(ranking.feasible[row]), "filters": verdicts}


def _resources(machines: Machines, row: int) -> dict[str, Any]:
    shown = {
        "mean": machines.measured_mean, "std": machines.std, "credit": machines.credit,
        "promised": machines.requested, "allocatable": machines.allocatable,
    }  # fmt: skip
    return {
        name: {
            **{what: _number(column[resource, row]) for what, column in shown.items()},
            "request": float(machines.amounts[resource]),
            "utilization": _number(machines.utilization[resource, row]),
        }
        for resource, name in enumerate(RESOURCES)
    }


def _number(value: Any) -> float | None:
    """Return a plain number, None where it is not finite."""
    return float(value) if np.isfinite(value) else None
