"""The terms of single machines in a ranking: the verdicts of scores and filters, with their numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.results import Candidate
from schemas.values.numbers import finite
from scorer.ranking.machines.machines import Machines
from scorer.ranking.machines.owner import Owner
from scorer.ranking.profiles import plugins
from scorer.ranking.ranking import Ranking
from scorer.snapshot.arrays import Integers

_TERMS = Owner("terms")
_READ = (
    "measured_mean", "std", "deviation", "allocatable", "inverse_allocatable",
    "window_s", "coverage", "warming", "seen_at",
)  # fmt: skip
"""What scores and the explanation read of each machine that is shown."""
_BY_RESOURCE = ("shown_mean", "std", "credit", "debit", "allocated", "allocatable", "utilization")
_FACTS = ("window_s", "coverage", "age_s", "warming", "count")


def described(ranking: Ranking, rows: Sequence[int]) -> list[Candidate]:
    """Return these machines with their terms."""
    if not rows:
        return []
    index = np.array(rows, np.int64)
    machines = ranking.machines.take(index)
    machines.owner = _TERMS
    machines.read_together("read", _READ)
    of_terms = _machines_of_terms(ranking, machines, index)
    of_instances = machines.of_instances.tolist() if machines.fleet.mean_of == "instances" else None
    facts = zip(*(machines.column(name).tolist() for name in _FACTS), strict=True)
    totals = zip(*(each.take(index).tolist() for each in (ranking.feasible, ranking.total)), strict=True)
    raws = [term.raw.take(index).tolist() for term in ranking.terms]
    amounts, all_names = machines.amounts.tolist(), machines.roster.names
    names = _names([term.weighted.score.name for term in ranking.terms])
    found = []
    for position, (row, (feasible, total), (window_s, coverage, age_s, warming, count)) in enumerate(
        zip(rows, totals, facts, strict=True)
    ):
        scores: dict[str, dict[str, Any]] = {}
        risk = None
        for name, term, seen, of_term in zip(names, ranking.terms, of_terms, raws, strict=True):
            seen.owner = term.weighted.owner
            details = plugins.detail(term.weighted.score, ranking.request, seen, position)
            raw = finite(of_term[position])
            value = raw * term.slope + term.start if feasible and raw is not None else None
            scores[name] = {"value": value, "raw": raw, "weight": term.weighted.weight, **details}
            risk = details.get("risk", risk)
        columns = [machines.plain(name, position) for name in _BY_RESOURCE]
        shown = {name: _shown(*_plain(of)) for name, *of in zip(RESOURCES, *columns, amounts, strict=True)}
        if of_instances is not None:
            for place, name in enumerate(RESOURCES):
                shown[name]["of_instances"] = of_instances[place][position]
        found.append(
            Candidate(
                machine=all_names[row],
                score=finite(total) if feasible else None,
                risk=risk,
                scores=scores,
                resources=shown,
                window_s=finite(window_s),
                coverage=finite(coverage),
                warming=warming,
                age_s=finite(age_s),
                instances=int(count),
            )
        )
    return found


def _shown(
    mean: float | None, std: float | None, credit: float | None, debit: float | None, promised: float | None,
    allocatable: float | None, utilization: float | None, request: float | None,
) -> dict[str, float | None]:  # fmt: skip
    """Return one resource of a machine as an answer shows it."""
    return {
        "mean": mean, "std": std, "credit": credit, "debit": debit, "promised": promised, "allocatable": allocatable,
        "utilization": utilization, "request": request,
    }  # fmt: skip


def _machines_of_terms(ranking: Ranking, machines: Machines, index: Integers) -> list[Machines]:
    """Return these machines as each score saw them; those that see the same fleet share what is made of it."""
    taken = {id(machines.fleet): machines}
    for term in ranking.terms:
        if id(term.seen.fleet) not in taken:
            taken[id(term.seen.fleet)] = term.seen.take(index)
    return [taken[id(term.seen.fleet)] for term in ranking.terms]


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
