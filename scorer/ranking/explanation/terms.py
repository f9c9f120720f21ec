"""The terms of single machines in a ranking: the verdicts of scores and filters, with their numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.results import Candidate
from schemas.values.numbers import finite
from scorer.ranking.columns.load import SUMS, debit_of
from scorer.ranking.machines.machines import Machines
from scorer.ranking.machines.owner import Owner
from scorer.ranking.profiles import plugins
from scorer.ranking.ranking import Ranking, ScoreTerm
from scorer.snapshot.arrays import Integers

_TERMS = Owner("terms")
_READ = (
    "measured_mean", "std", "allocatable", "inverse_allocatable", "window_s", "coverage", "warming", "seen_at",
)  # fmt: skip
"""What scores and the explanation read of each machine that is shown."""


def described(ranking: Ranking, rows: Sequence[int]) -> list[Candidate]:
    """Return these machines with their terms."""
    if not rows:
        return []
    index = np.array(rows, np.int64)
    machines = ranking.machines.take(index)
    machines.owner = _TERMS
    machines.read_plain("read", _READ)
    sums, size = machines.column("sums").T.tolist(), len(RESOURCES)
    for place, name in enumerate(SUMS):
        machines.keep_plain(name, [of[place * size : (place + 1) * size] for of in sums])
    of_terms = _terms_of(ranking, machines, index)
    totals, feasible = ranking.total.take(index).tolist(), ranking.feasible.take(index).tolist()
    amounts, names, plain = machines.amounts.tolist(), machines.roster.names, machines.plain
    found = []
    for position, row in enumerate(rows):
        scores: dict[str, dict[str, Any]] = {}
        risk = None
        for name, term, seen, raws in of_terms:
            seen.owner = term.weighted.owner
            details = plugins.detail(term.weighted.score, ranking.request, seen, position)
            raw = finite(raws[position])
            value = raw * term.slope + term.start if feasible[position] and raw is not None else None
            scores[name] = {"value": value, "raw": raw, "weight": term.weighted.weight, **details}
            risk = details.get("risk", risk)
        found.append(
            Candidate(
                machine=names[row],
                score=finite(totals[position]) if feasible[position] else None,
                risk=risk,
                scores=scores,
                resources=_resources(machines, position, amounts),
                window_s=finite(plain("window_s", position)),
                coverage=finite(plain("coverage", position)),
                warming=plain("warming", position),
                age_s=finite(machines.now_s - plain("seen_at", position)),
                instances=int(plain("count", position)),
            )
        )
    return found


def _resources(machines: Machines, position: int, amounts: Sequence[float]) -> dict[str, dict[str, float | None]]:
    """Return what an answer shows of a machine by resource."""
    plain, fleet = machines.plain, machines.fleet
    measured, credit, mean = (plain(name, position) for name in ("measured_mean", "credit", "mean"))
    debit = [0.0] * len(RESOURCES)
    if fleet.debits:
        debit = [debit_of(*each, max) for each in zip(measured, credit, mean, strict=True)]
    others = (plain(name, position) for name in ("allocated", "allocatable", "utilization"))
    each_resource = zip(measured, plain("std", position), credit, debit, *others, amounts, strict=True)
    return {name: _shown(*_plain(of)) for name, of in zip(RESOURCES, each_resource, strict=True)}


def _shown(
    mean: float | None, std: float | None, credit: float | None, debit: float | None, promised: float | None,
    allocatable: float | None, utilization: float | None, request: float | None,
) -> dict[str, float | None]:  # fmt: skip
    """Return one resource of a machine as an answer shows it."""
    return {
        "mean": mean, "std": std, "credit": credit, "debit": debit, "promised": promised, "allocatable": allocatable,
        "utilization": utilization, "request": request,
    }  # fmt: skip


def _terms_of(
    ranking: Ranking, machines: Machines, index: Integers
) -> list[tuple[str, ScoreTerm, Machines, list[float]]]:
    """Return each term with its name, these machines as its score saw them, and its raw values of them.

    Scores that see the same fleet share what is made of it.
    """
    taken = {id(machines.fleet): machines}
    for term in ranking.terms:
        if id(term.seen.fleet) not in taken:
            taken[id(term.seen.fleet)] = term.seen.take(index)
    names = _names([term.weighted.score.name for term in ranking.terms])
    return [
        (name, term, taken[id(term.seen.fleet)], term.raw.take(index).tolist())
        for name, term in zip(names, ranking.terms, strict=True)
    ]


def _names(names: list[str]) -> list[str]:
    """Return the names; from its second use on a name gets a number.

    >>> _names(["packing", "risk", "packing"])
    ['packing', 'risk', 'packing 2']
    """
    if len(set(names)) == len(names):
        return names
    uses = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [name if use == 1 else f"{name} {use}" for name, use in zip(names, uses, strict=True)]


def verdicts(ranking: Ranking, rows: Sequence[int]) -> list[list[dict[str, Any]]]:
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


def _plain(values: Sequence[float]) -> Sequence[float | None]:
    """Return the numbers, None for one that is not finite."""
    return values if math.isfinite(sum(values)) else [finite(value) for value in values]
