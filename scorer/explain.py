"""Explain: turn a ranking into words and JSON. Runs once an answer, over the few machines that the answer shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from schemas.request import Request
from schemas.resources import RESOURCES
from scorer import plugins
from scorer.snapshot import Bools, Floats

if TYPE_CHECKING:
    from scorer.ledger_view import LedgerView
    from scorer.profile import Profile
    from scorer.rank import Ranking


@dataclass(frozen=True)
class Refusal:
    """So many machines for one reason; each machine counts once, for the first filter that refused it."""

    filter: str
    reason: str
    machines: int


def refusals(ranking: Ranking) -> list[Refusal]:
    """Return the refused machines by filter and reason, most first.

    From one decision to the next it is mostly the same machines for the same reasons: what was found last is taken
    again while the request, the second and the refused are the same and nothing was placed on them.
    """
    if ranking.feasible_count == len(ranking.machines):
        return []
    fleet, request = ranking.machines.fleet, msgspec.structs.replace(ranking.request, id="")
    told = (request, int(ranking.machines.now_s), ranking.feasible.tobytes())
    last: _Told | None = fleet.fixed.get("refusals")
    again = last is not None and last.profile is ranking.profile and last.ledger is fleet.ledger and last.told == told
    if last is None or not again or _touched(ranking, last.position):
        last = _Told(ranking.profile, told, fleet.ledger, 0, _refusals(ranking))
    fleet.fixed["refusals"] = last._replace(position=fleet.ledger.position)
    return last.found


class _Told(NamedTuple):
    """The refusals of the last decision."""

    profile: Profile
    told: tuple[Request, int, bytes]
    """Request, second and feasible machines they were given for."""
    ledger: LedgerView
    position: int
    """The ledger's, then."""
    found: list[Refusal]


def _touched(ranking: Ranking, position: int) -> bool:
    """Return whether anything was placed on a refused machine since; or a filter looks beyond the one machine."""
    changed = ranking.machines.fleet.ledger.changed_since(position)
    if changed is None or any(plugins.looks_at_fleet(verdict.filter) for verdict in ranking.verdicts):
        return True
    return bool(changed) and not bool(ranking.feasible[changed].all())


def _refusals(ranking: Ranking) -> list[Refusal]:
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


def warnings(ranking: Ranking, row: int | None) -> list[str]:
    """Return what the reader should know about the data behind the answer that chooses this machine (None: none)."""
    machines, stale_s = ranking.machines, ranking.profile.stale_s
    fleet = machines.fleet
    found = []
    if fleet.requests_alone:
        found.append(f"no machine has data younger than {stale_s:g} s: ranked by requests alone")
    elif row is not None:
        age_s = machines.now_s - float(fleet.snapshot.seen_at[row])
        if not fleet.snapshot.has_data[row]:
            found.append(f"{machines.name(row)} has no data")
        elif age_s > stale_s:
            found.append(f"{machines.name(row)} has data {age_s:.0f} s old")
        elif fleet.view.warming[row]:
            covered = float(fleet.view.coverage[row])
            found.append(f"{machines.name(row)} is warming: {covered:.0%} of its window is covered")
    if warming := fleet.warming_count:
        found.append(f"{warming} of {len(machines)} machines are warming")
    if stale := fleet.stale_count(machines.now_s - stale_s):
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
    best = ranking.best(top).tolist()
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
        "warnings": warnings(ranking, best[0] if best else None),
    }
    if explain_all:
        rows = [int(row) for row in ranking.order] + [int(row) for row in np.flatnonzero(~ranking.feasible)]
        verdicts = _verdicts(ranking, rows)
        result["machines"] = [
            {**each, "feasible": bool(ranking.feasible[row]), "filters": verdict}
            for each, row, verdict in zip(described(ranking, rows), rows, verdicts, strict=True)
        ]
    return result


_SHOWN = ("mean", "std", "credit", "promised", "allocatable", "utilization", "request")


def described(ranking: Ranking, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Return these machines with their terms, JSON-ready."""
    if not rows:
        return []
    index = np.array(rows, np.int64)
    machines = ranking.machines.take(index)
    fleet, view, snapshot = machines.fleet, machines.fleet.view, machines.fleet.snapshot
    by_resource = (view.mean, fleet.std, fleet.credit, fleet.requested, fleet.allocatable, fleet.utilization)
    resources = _plain(np.concatenate([column.take(index, axis=1) for column in by_resource]).T)
    single = (view.window_s, view.coverage, snapshot.seen_at, fleet.count, ranking.total)
    facts = np.array([column.take(index) for column in (*single, *(term.raw for term in ranking.terms))])
    facts[2] = machines.now_s - facts[2]
    facts_of = _plain(facts.T)
    feasible, warming = ranking.feasible.take(index).tolist(), view.warming.take(index).tolist()
    seen = {id(term.machines.fleet): term.machines for term in ranking.terms}
    seen = {key: machines if each.fleet is fleet else each.take(index) for key, each in seen.items()}
    amounts = machines.amounts.tolist()
    names = _names([term.weighted.score.name for term in ranking.terms])
    found = []
    for position, row in enumerate(rows):
        window_s, coverage, age_s, count, total, *raws = facts_of[position]
        scores = {}
        risk = None
        for name, term, raw in zip(names, ranking.terms, raws, strict=True):
            score = term.weighted.score
            details = plugins.detail(score, ranking.request, seen[id(term.machines.fleet)], position)
            value = raw * term.slope + term.start if feasible[position] and raw is not None else None
            scores[name] = {"value": value, "raw": raw, "weight": term.weighted.weight, **details}
            risk = details.get("risk", risk)
        amounts_of = resources[position]
        found.append({
            "machine": snapshot.names[row],
            "score": total if feasible[position] else None,
            "risk": risk,
            "scores": scores,
            "resources": {
                name: dict(zip(_SHOWN, (*amounts_of[place :: len(RESOURCES)], amounts[place]), strict=True))
                for place, name in enumerate(RESOURCES)
            },
            "window_s": window_s,
            "coverage": coverage,
            "warming": warming[position],
            "age_s": age_s,
            "instances": int(count),
        })  # fmt: skip
    return found


def _names(names: Sequence[str]) -> list[str]:
    """Return the names, from the second use of one on with its number.

    >>> _names(["packing", "risk", "packing"])
    ['packing', 'risk', 'packing 2']
    """
    uses = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if use == 1 else f"{name} {use}" for name, use in zip(names, uses, strict=True)]


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


def _plain(values: Floats) -> Any:
    """Return an array as lists of plain numbers, None where they are not finite."""
    if np.isfinite(values).all():
        return values.tolist()
    plain = values.astype(object)
    plain[~np.isfinite(values)] = None
    return plain.tolist()
