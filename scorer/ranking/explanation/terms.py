"""The terms of single machines in a ranking: the verdicts of scores and filters, with their numbers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.results import Candidate
from schemas.values.numbers import finite
from scorer.ranking.kernel.layout import CODE
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles import plugins
from scorer.ranking.ranking import Ranking, Verdict


def described(ranking: Ranking, rows: Sequence[int]) -> list[Candidate]:
    if not rows:
        return []
    index = np.array(rows, np.int64)
    now_s = ranking.machines.now_s
    names = _names([term.weighted.score.name for term in ranking.terms])
    taken = {each: each.take(index) for each in {ranking.machines, *(term.machines for term in ranking.terms)}}
    machines = taken[ranking.machines]
    resources, own = _resources(machines), machines.records(0)
    window_s, age_s = machines.records(1)["window_s"].tolist(), (now_s - own["seen_at"]).tolist()
    coverage, warming, count = (own[name].tolist() for name in ("coverage", "warming", "count"))
    found = []
    for position, row in enumerate(rows):
        scores: dict[str, dict[str, Any]] = {}
        risk, feasible = None, not ranking.refused[row]
        for name, term in zip(names, ranking.terms, strict=True):
            value, said = ranking.said(term, row)
            details = plugins.detail(term.weighted.score, said, ranking.request, taken[term.machines], position)
            raw = finite(term.raw[row]) if feasible else None if said is None else finite(value)
            worth = raw * term.slope + term.start if feasible and raw is not None else None
            scores[name] = {"value": worth, "raw": raw, "weight": term.weighted.weight, **details}
            risk = details.get("risk", risk)
        found.append(
            Candidate(
                machine=machines.name(position),
                score=finite(ranking.total[row]) if feasible else None,
                risk=risk,
                scores=scores,
                resources=resources[position],
                window_s=finite(window_s[position]),
                coverage=finite(coverage[position]),
                warming=warming[position],
                age_s=finite(age_s[position]),
                instances=count[position],
            )
        )
    return found


def _resources(machines: Machines) -> list[dict[str, dict[str, float | None]]]:
    """Return the figures by resource that an answer shows for each machine."""
    rows, more = machines.records(0), machines.records(1)
    columns = {
        "mean": more["measured"], "std": more["std"], "credit": more["credit"],
        "debit": np.maximum(more["measured"] + more["credit"] - rows["mean"], 0.0) * machines.debits,
        "promised": rows["allocated"], "allocatable": rows["allocatable"], "utilization": rows["utilization"],
    }  # fmt: skip
    names, asked = (*columns, "request"), [machines.amounts.tolist()] * len(machines)
    by_machine = zip(*(column.tolist() for column in columns.values()), asked, strict=True)
    return [
        {
            name: dict(zip(names, _plain(values), strict=True))
            for name, values in zip(RESOURCES, zip(*each, strict=True), strict=True)
        }
        for each in by_machine
    ]


def _names(names: list[str]) -> list[str]:
    """Return the names; a repeated name gets a number.

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
        for position, row in enumerate(rows):
            number, said = ranking.said(each, row)
            if each.allowed is not None:
                number = 0 if each.allowed[row] else _number(ranking, each, row)
            verdict: dict[str, Any] = {"filter": each.filter.name, "allowed": not number}
            if number:
                verdict["reason"] = each.reason(int(number))
            if details := plugins.detail(each.filter, said, ranking.request, machines, position):
                verdict["compared"] = dict(details)
            found[position].append(verdict)
    return found


def _number(ranking: Ranking, each: Verdict, row: int) -> int:
    """Return the number of the reason for which a filter of another package refuses a machine."""
    code = int(ranking.refused[row])
    return code % CODE if code // CODE * CODE == each.code else len(each.reasons)


def _plain(values: Sequence[float]) -> Sequence[float | None]:
    """Return the numbers, None for one that is not finite."""
    return values if math.isfinite(sum(values)) else [finite(value) for value in values]
