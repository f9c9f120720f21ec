"""Explain: a ranking as the answer of ``rank``, in words and numbers.

It runs once for each answer, over the few machines that the answer shows.
"""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc import results
from schemas.rpc.request import Request
from schemas.rpc.results import Candidate, RankResult, Refusal
from schemas.values.numbers import counted, finite
from scorer.ranking.estimates.estimate import LearnedEstimate
from scorer.ranking.estimates.measured_use import SIZE
from scorer.ranking.formulas.selectors import parse_selector
from scorer.ranking.inputs import quiet
from scorer.ranking.kernel.layout import CODE
from scorer.ranking.machines import Machines
from scorer.ranking.profiles import plugins
from scorer.ranking.rank import Ranking, Verdict
from scorer.ranking.scores.apart import Apart
from scorer.ranking.scores.spread import Spread
from scorer.ranking.staleness import stale_machines
from scorer.snapshot.arrays import Integers


def summary(ranking: Ranking) -> str:
    """Return one line in words: ``0/5 feasible: 3 cpu over threshold, 2 stale``."""
    return _summary(ranking, refusals(ranking))


def _summary(ranking: Ranking, refused: Sequence[Refusal]) -> str:
    line = f"{ranking.feasible_count}/{len(ranking.machines)} feasible"
    why = ", ".join(f"{each.machines} {each.reason}" for each in refused)
    return f"{line}: {why}" if why else line


def warnings(ranking: Ranking, row: int | None) -> list[str]:
    """Return the warnings about the data behind an answer that chooses the machine in ``row`` (None: no machine)."""
    machines, stale_s = ranking.machines, ranking.profile.stale_s
    now_s, fleet = machines.now_s, len(machines)
    snapshot, warming = machines.snapshot, machines.table.warming
    stale = stale_machines(snapshot, stale_s, now_s)
    found = [f"no machine has the label {topology!r}, which a rule looks at" for topology in sorted(_unknown(ranking))]
    absent = [name for name in ranking.request.not_on if name not in snapshot.roster.index]
    found += [f"no machine is named {name!r}, which not_on lists" for name in absent]
    if machines.requests_alone:
        found.append(f"no machine has data younger than {stale_s:g} s: ranked by requests alone")
    elif machines.last_known:
        known, newest_s = snapshot.machines_with_data, now_s - snapshot.newest_at
        aged = f"{stale} of {known} machines have stale data, the newest {newest_s:.0f} s old"
        return [*found, f"{aged}: ranked by the last known load and what was placed since"]
    elif row is not None:
        one = machines.table.rows[row]
        age_s = now_s - float(one["seen_at"])
        if not one["has_data"]:
            found.append(f"{machines.name(row)} has no data")
        elif age_s > stale_s:
            found.append(f"{machines.name(row)} has data {age_s:.0f} s old")
        elif one["warming"]:
            found.append(f"{machines.name(row)} is warming: {float(one['coverage']):.0%} of its window is covered")
    if row is not None and (beside := _beside(ranking, row)):
        found.append(beside)
    if warming:
        rows = machines.table.rows
        first = machines.name(int(np.flatnonzero(rows["warming"] & rows["has_data"])[0]))
        which = first if warming == 1 else f"{first} and others"
        found.append(f"{warming} of {fleet} machines {'is' if warming == 1 else 'are'} warming: {which}")
    if stale:
        found.append(f"{stale} of {fleet} machines have data older than {stale_s:g} s")
    return found


def _unknown(ranking: Ranking) -> set[str]:
    """Return the labels that no machine has, and that the request's rules or the profile's scores look at."""
    asked, rules = ranking.request, ranking.machines.snapshot.rules
    by = {term.topology for term in (*asked.affinity, *asked.anti_affinity)}
    by |= {each.weighted.score.topology for each in ranking.terms if isinstance(each.weighted.score, Spread)}
    by |= {one.key for one in parse_selector(asked.selector) if one.operator not in ("!=", "notin", "absent")}
    by.add(ranking.profile.survive)
    return {topology for topology in by - {"machine", ""} if not rules.label(topology).values}


def _beside(ranking: Ranking, row: int) -> str:
    """Return a warning that the machine has others of the request's cluster; "" where the profile allows it."""
    cluster = ranking.request.cluster
    if not cluster or not any(isinstance(each.score, Apart) for each in ranking.profile.scores):
        return ""
    there = int(ranking.machines.take(np.array([row])).tally(frozenset([("cluster", cluster)]))[0])
    return (
        f"{ranking.machines.name(row)} has {counted(there, 'instance')} of cluster {cluster} already" if there else ""
    )


@quiet
def answer(ranking: Ranking, top: int | None = None, explain_all: bool | None = None) -> RankResult:
    """Return the whole answer; ``top`` and ``explain_all`` are those of the request unless given.

    ``machine`` is the chosen one or None; ``candidates`` the best ``top`` with their terms, the chosen one first;
    ``refusals`` and ``summary`` have the reasons against the others; ``machines`` (with ``explain_all``) holds every
    filter's and score's verdict for each machine.
    """
    machines, request = ranking.machines, ranking.request
    best = ranking.best(request.top if top is None else top).tolist()
    everything = request.explain if explain_all is None else explain_all
    first, refused = candidates(ranking, best), refusals(ranking)
    return RankResult(
        machine=first[0].machine if best else None,
        score=first[0].score if best else None,
        profile=ranking.profile.name,
        summary=_summary(ranking, refused),
        feasible=ranking.feasible_count,
        fleet=len(machines),
        request=dict(zip(RESOURCES, machines.amounts.tolist(), strict=True)),
        expected=dict(zip(RESOURCES, machines.expected.tolist(), strict=True)),
        expected_from=expected_from(ranking),
        learned=_learned(ranking),
        candidates=first,
        refusals=refused,
        warnings=warnings(ranking, best[0] if best else None),
        machines=told(ranking, best_first(ranking)) if everything else None,
    )


def expected_from(ranking: Ranking) -> dict[str, str]:
    """Return in words the source of each expected usage, for resources that are requested or expected."""
    machines, request = ranking.machines, ranking.request
    estimate, found = machines.estimate, {}
    for place, name in enumerate(RESOURCES):
        if not (machines.amounts[place] > 0 or machines.expected[place] > 0 or name in request.expected):
            continue
        learned = estimate if isinstance(estimate, LearnedEstimate) else None
        part, group = learned.learned_of(name, request) if learned else (None, "")
        if name in request.expected:
            found[name] = "as the request says"
        elif learned and part is not None and machines.amounts[place] > 0:
            found[name] = _like(part, group, request, learned.known_instances(name, group))
        elif machines.expected[place] == machines.amounts[place]:
            found[name] = "all that is asked"
        else:
            found[name] = "the profile's estimate"
    return found


def _like(part: float, group: str, request: Request, known: tuple[float, float] | None) -> str:
    """Return in words the source of a learned use: which measured instances, and their deviation."""
    if known is None:
        return f"learned: {part:.0%} of what is asked, of the fleet"
    count, deviation = known
    kind, _, size = group.partition(SIZE)
    of = (f" of kind {kind}" if request.kind else f" with {kind}") if kind else ""
    of += (" and this size" if kind else " of this size") if size else ""
    return f"learned: like {count:,.0f} measured instances{of}: {part:.2f} ± {deviation:.2f} of what is asked"


def _learned(ranking: Ranking) -> dict[str, Any] | None:
    """Return the learned factors that are used; None when the profile uses none or nothing is learned."""
    estimate = ranking.machines.estimate
    if not isinstance(estimate, LearnedEstimate):
        return None
    return {"version": estimate.version, "factors": dict(estimate.factors)}


def best_first(ranking: Ranking) -> list[int]:
    """Return the rows of all machines: the feasible ones in the order of the ranking, then the refused ones."""
    return [*ranking.best_first.tolist(), *np.flatnonzero(~ranking.feasible).tolist()]


@quiet
def told(ranking: Ranking, rows: Sequence[int]) -> list[results.Verdict]:
    """Return these machines with every filter's and score's verdict, compared with the best one."""
    best, found = candidates(ranking, ranking.best(1).tolist()), []
    whole = sum(term.weighted.weight for term in ranking.terms)
    for each, row, verdict in zip(candidates(ranking, rows), rows, verdicts(ranking, rows), strict=True):
        place, lacks = None, {}
        if feasible := not ranking.refused[row]:
            place = int(np.flatnonzero(ranking.best_first == row)[0]) + 1
            of_best = best[0].scores
            lacks = {
                name: ((of_best[name]["value"] or 0.0) - (term["value"] or 0.0)) * term["weight"] / whole
                for name, term in each.scores.items()
            }
        known = msgspec.structs.asdict(each)
        found.append(results.Verdict(**known, feasible=feasible, place=place, lacks=lacks, filters=verdict))
    return found


@quiet
def candidates(ranking: Ranking, rows: Sequence[int]) -> list[Candidate]:
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


_FIGURES = ("mean", "std", "credit", "debit", "promised", "allocatable", "utilization", "request")


def _resources(machines: Machines) -> list[dict[str, dict[str, float | None]]]:
    """Return the figures by resource that an answer shows for each machine."""
    rows, more, request, debits = machines.records(0), machines.records(1), machines.amounts.tolist(), machines.debits
    measured = [more[name].tolist() for name in ("measured", "std", "credit")]
    of_rows = [rows[name].tolist() for name in ("mean", "allocated", "allocatable", "utilization")]
    found = []
    for each in zip(*measured, *of_rows, strict=True):
        by_resource = {}
        for name, asked, figures in zip(RESOURCES, request, zip(*each, strict=True), strict=True):
            mean, std, credit, load, promised, allocatable, utilization = figures
            debit = max(mean + credit - load, 0.0) * debits
            shown = _plain((mean, std, credit, debit, promised, allocatable, utilization, asked))
            by_resource[name] = dict(zip(_FIGURES, shown, strict=True))
        found.append(by_resource)
    return found


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


def refusals(ranking: Ranking) -> list[Refusal]:
    """Return the refused machines by filter and reason, most first; a machine counts for its first refusal."""
    return in_words(ranking.verdicts, ranking.counts)


def in_words(verdicts: Sequence[Verdict], counts: Integers) -> list[Refusal]:
    """Return the refusals by some filters; ``counts``: the number of machines by code of `Ranking.refused`."""
    found: dict[tuple[str, str], int] = {}
    by_code = {verdict.code: verdict for verdict in verdicts}
    for code in counts[1:].nonzero()[0].tolist():
        verdict = by_code[(code + 1) // CODE * CODE]
        key = (verdict.filter.name, verdict.reason((code + 1) % CODE))
        found[key] = found.get(key, 0) + int(counts[code + 1])
    order = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Refusal(filter=name, reason=reason, machines=count) for (name, reason), count in order]
