"""The terms of single machines in a ranking: the verdicts of scores and filters, with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.results import Candidate
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles import plugins
from scorer.ranking.ranking import Ranking
from scorer.snapshot.arrays import Floats, Integers

_SHOWN = ("mean", "std", "credit", "debit", "promised", "allocatable", "utilization", "request")
_BY_RESOURCE = ("shown_mean", "std", "credit", "debit", "allocated", "allocatable", "utilization")
_FACTS = ("window_s", "coverage", "age_s", "count")


def described(ranking: Ranking, rows: Sequence[int]) -> list[Candidate]:
    """Return these machines with their terms."""
    if not rows:
        return []
    index = np.array(rows, np.int64)
    machines = ranking.machines.take(index)
    of_instances = machines.of_instances.tolist() if machines.fleet.mean_of == "instances" else None
    columns = np.concatenate([machines.column(name) for name in _BY_RESOURCE])
    resources = _plain(columns.reshape(len(_BY_RESOURCE), len(RESOURCES), -1).transpose(2, 1, 0))
    given = (ranking.total, *(term.raw for term in ranking.terms))
    facts = [*(machines.column(name) for name in _FACTS), *(column.take(index) for column in given)]
    facts_of = _plain(np.array(facts).T)
    feasible, warming = ranking.feasible.take(index).tolist(), machines.warming.tolist()
    of_terms = _machines_of_terms(ranking, machines, index)
    amounts = machines.amounts.tolist()
    names = _names([term.weighted.score.name for term in ranking.terms])
    found = []
    for position in range(len(rows)):
        window_s, coverage, age_s, count, total, *raws = facts_of[position]
        scores = {}
        risk = None
        for name, term, seen, raw in zip(names, ranking.terms, of_terms, raws, strict=True):
            details = plugins.detail(term.weighted.score, ranking.request, seen, position)
            value = raw * term.slope + term.start if feasible[position] and raw is not None else None
            scores[name] = {"value": value, "raw": raw, "weight": term.weighted.weight, **details}
            risk = details.get("risk", risk)
        shown = {
            name: dict(zip(_SHOWN, (*of_resource, amount), strict=True))
            for name, of_resource, amount in zip(RESOURCES, resources[position], amounts, strict=True)
        }
        if of_instances is not None:
            for place, name in enumerate(RESOURCES):
                shown[name]["of_instances"] = of_instances[place][position]
        found.append(
            Candidate(
                machine=machines.name(position),
                score=total if feasible[position] else None,
                risk=risk,
                scores=scores,
                resources=shown,
                window_s=window_s,
                coverage=coverage,
                warming=warming[position],
                age_s=age_s,
                instances=int(count),
            )
        )
    return found


def _machines_of_terms(ranking: Ranking, machines: Machines, index: Integers) -> list[Machines]:
    """Return these machines as each score saw them; those that see the same fleet share what is made of it."""
    taken = {id(machines.fleet): machines}
    found = []
    for term in ranking.terms:
        here = taken.setdefault(id(term.seen.fleet), machines)
        if here.fleet is not term.seen.fleet:
            here = taken[id(term.seen.fleet)] = term.seen.take(index)
        found.append(here.owned_by(term.weighted.owner))
    return found


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


def _plain(values: Floats) -> Any:
    """Return an array as lists of plain numbers, None where they are not finite."""
    if np.isfinite(values).all():
        return values.tolist()
    plain = values.astype(object)
    plain[~np.isfinite(values)] = None
    return plain.tolist()
