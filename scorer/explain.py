"""Explain: turn a ranking into words and JSON. Runs once an answer, over the few machines that the answer shows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from schemas.resources import RESOURCES
from scorer import plugins
from scorer.snapshot import Bools, Floats

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
    left: Bools | None = None
    found: Counter[tuple[str, str]] = Counter()
    for verdict in ranking.verdicts:
        each = verdict.filter
        rows = np.flatnonzero(~verdict.allowed if left is None else left & ~verdict.allowed)
        if not rows.size:
            continue
        left = verdict.allowed if left is None else left & verdict.allowed
        why = plugins.reasons(each, ranking.request, verdict.machines.take(rows), verdict.allowed[rows])
        refused = np.ones(rows.size, np.bool_)
        for reason, mask in why.items():
            count = int(np.count_nonzero(refused & mask))
            refused &= ~mask
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
    machines, stale_s = ranking.machines, ranking.profile.stale_s
    found = []
    if machines.fleet.requests_alone:
        found.append(f"no machine has data younger than {stale_s:g} s: ranked by requests alone")
    elif rows := [int(row) for row in ranking.best(1)]:
        chosen, name = machines.take(np.array(rows)), machines.name(rows[0])
        if not chosen.has_data[0]:
            found.append(f"{name} has no data")
        elif chosen.age_s[0] > stale_s:
            found.append(f"{name} has data {chosen.age_s[0]:.0f} s old")
        elif chosen.warming[0]:
            found.append(f"{name} is warming: {chosen.coverage[0]:.0%} of its window is covered")
    if warming := machines.fleet.warming_count:
        found.append(f"{warming} of {len(machines)} machines are warming")
    if stale := machines.fleet.stale_count(machines.now_s - stale_s):
        found.append(f"{stale} of {len(machines)} machines have data older than {stale_s:g} s")
    return found


def answer(ranking: Ranking, top: int, explain_all: bool) -> dict[str, Any]:
    """Return the whole answer.

    ``machine`` is the chosen one or None; ``candidates`` the best ``top`` with their terms, the chosen one first;
    ``refusals`` and ``summary`` say why the others are not there; ``machines`` (with ``explain_all``) holds every
    filter's and score's verdict for each machine.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _answer(ranking, top, explain_all)


def _answer(ranking: Ranking, top: int, explain_all: bool) -> dict[str, Any]:
    best = [int(row) for row in ranking.best(top)]
    machines = ranking.machines
    candidates = described(ranking, best)
    result: dict[str, Any] = {
        "machine": candidates[0]["machine"] if best else None,
        "score": candidates[0]["score"] if best else None,
        "profile": ranking.profile.name,
        "summary": ranking.summary,
        "feasible": ranking.feasible_count,
        "fleet": len(machines),
        "request": dict(zip(RESOURCES, machines.amounts.tolist(), strict=True)),
        "expected": dict(zip(RESOURCES, machines.expected.tolist(), strict=True)),
        "candidates": candidates,
        "refusals": [{"filter": r.filter, "reason": r.reason, "machines": r.machines} for r in ranking.refusals],
        "warnings": warnings(ranking),
    }
    if explain_all:
        rows = [int(row) for row in ranking.order] + [int(row) for row in np.flatnonzero(~ranking.feasible)]
        verdicts = _verdicts(ranking, rows)
        result["machines"] = [
            {**each, "feasible": bool(ranking.feasible[row]), "filters": verdict}
            for each, row, verdict in zip(described(ranking, rows), rows, verdicts, strict=True)
        ]
    return result


def described(ranking: Ranking, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return these machines with their terms, JSON-ready."""
    if not rows:
        return []
    index = np.array(rows, np.int64)
    machines = ranking.machines.take(index)
    seen = {id(term.machines.fleet): term.machines.take(index) for term in ranking.terms}
    shown = {
        "mean": machines.measured_mean, "std": machines.std, "credit": machines.credit,
        "promised": machines.requested, "allocatable": machines.allocatable, "utilization": machines.utilization,
        "request": np.broadcast_to(machines.amounts[:, None], machines.requested.shape),
    }  # fmt: skip
    resources = _plain(np.array(list(shown.values())).transpose(2, 1, 0))
    facts = _plain(np.array([machines.window_s, machines.coverage, machines.age_s]).T)
    totals = _plain(ranking.total[index])
    feasible, warming = ranking.feasible[index].tolist(), machines.warming.tolist()
    raws = [_plain(term.raw[index]) for term in ranking.terms]
    found = []
    for position, row in enumerate(rows):
        scores = {}
        risk = None
        for term, raw in zip(ranking.terms, raws, strict=True):
            details = plugins.detail(term.weighted.score, ranking.request, seen[id(term.machines.fleet)], position)
            scores[term.weighted.score.name] = {
                "value": _number(term.value(row)),
                "raw": raw[position],
                "weight": term.weighted.weight,
                **details,
            }
            risk = details.get("risk", risk)
        window_s, coverage, age_s = facts[position]
        found.append({
            "machine": machines.name(position),
            "score": totals[position] if feasible[position] else None,
            "risk": risk,
            "scores": scores,
            "resources": {
                name: dict(zip(shown, values, strict=True))
                for name, values in zip(RESOURCES, resources[position], strict=True)
            },
            "window_s": window_s,
            "coverage": coverage,
            "warming": warming[position],
            "age_s": age_s,
            "instances": int(machines.count[position]),
        })  # fmt: skip
    return found


def _verdicts(ranking: Ranking, rows: Sequence[int]) -> list[list[dict[str, Any]]]:
    """Return every filter's verdict on these machines, with the numbers it compared."""
    index = np.array(rows, np.int64)
    found: list[list[dict[str, Any]]] = [[] for _ in rows]
    for each in ranking.verdicts:
        machines = each.machines.take(index)
        allowed = each.allowed[index]
        why = {} if allowed.all() else plugins.reasons(each.filter, ranking.request, machines, allowed)
        for position in range(len(rows)):
            said: dict[str, Any] = {"filter": each.filter.name, "allowed": bool(allowed[position])}
            if not allowed[position]:
                said["reason"] = next((reason for reason, mask in why.items() if mask[position]), each.filter.reason)
            details = plugins.detail(each.filter, ranking.request, machines, position)
            if details:
                said["compared"] = dict(details)
            found[position].append(said)
    return found


def _number(value: Any) -> float | None:
    """Return a plain number, None where it is not finite."""
    number = float(value)
    return number if math.isfinite(number) else None


def _plain(values: Floats) -> Any:
    """Return an array as lists of plain numbers, None where they are not finite."""
    if np.isfinite(values).all():
        return values.tolist()
    plain = values.astype(object)
    plain[~np.isfinite(values)] = None
    return plain.tolist()
