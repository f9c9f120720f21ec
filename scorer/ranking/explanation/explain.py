"""Explain: a ranking as the answer of ``rank``, in words and numbers.

It runs once for each answer, over the few machines that the answer shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from schemas.rpc.results import Candidate, RankResult, Verdict
from schemas.values.numbers import counted
from scorer.ranking.estimates.learned_estimate import LearnedEstimate
from scorer.ranking.estimates.measured_use import SIZE
from scorer.ranking.explanation.refusals import refusals
from scorer.ranking.explanation.terms import described, verdicts
from scorer.ranking.inputs import quiet
from scorer.ranking.machines.machines import Machines
from scorer.ranking.machines.owner import Owner
from scorer.ranking.ranking import ContinuedRanking, Ranking
from scorer.ranking.scores.apart import Apart

_EXPLAIN = Owner("explain")
_TOLD = (_EXPLAIN, "told")
"""The key under which described machines are kept with a ranking."""
_IN_JSON = (_EXPLAIN, "in JSON")
_encode = msgspec.json.Encoder().encode


def summary(ranking: Ranking) -> str:
    """Return one line in words: ``0/5 feasible: 3 cpu over threshold, 2 stale``."""
    line = f"{ranking.feasible_count}/{len(ranking.machines)} feasible"
    why = ", ".join(f"{each.machines} {each.reason}" for each in refusals(ranking))
    return f"{line}: {why}" if why else line


def warnings(ranking: Ranking, row: int | None) -> list[str]:
    """Return the warnings about the data behind an answer that chooses the machine in ``row`` (None: no machine)."""
    machines, stale_s = ranking.machines, ranking.profile.stale_s
    found = []
    if machines.requests_alone:
        found.append(f"no machine has data younger than {stale_s:g} s: ranked by requests alone")
    elif machines.last_known:
        found.append(_last_known(machines.owned_by(_EXPLAIN), machines.now_s - stale_s))
        return found
    elif row is not None:
        age_s = machines.now_s - float(machines.seen_at[row])
        if not machines.has_data[row]:
            found.append(f"{machines.name(row)} has no data")
        elif age_s > stale_s:
            found.append(f"{machines.name(row)} has data {age_s:.0f} s old")
        elif machines.warming[row]:
            covered = float(machines.coverage[row])
            found.append(f"{machines.name(row)} is warming: {covered:.0%} of its window is covered")
    if row is not None and (beside := _beside(ranking, row)):
        found.append(beside)
    own = machines.owned_by(_EXPLAIN)
    if warming := own.of_snapshot("warming", lambda m: int(np.count_nonzero(m.warming & m.has_data))):
        found.append(f"{warming} of {len(machines)} machines {'is' if warming == 1 else 'are'} warming")
    if stale := _stale_count(own, machines.now_s - stale_s):
        found.append(f"{stale} of {len(machines)} machines have data older than {stale_s:g} s")
    return found


def _beside(ranking: Ranking, row: int) -> str:
    """Return that the machine has others of the request's cluster already; "" where the profile does not mind."""
    cluster = ranking.request.cluster
    if not cluster or not any(isinstance(each.score, Apart) for each in ranking.profile.scores):
        return ""
    there = int(ranking.machines.tally(frozenset([("cluster", cluster)]))[row])
    return (
        f"{ranking.machines.name(row)} has {counted(there, 'instance')} of cluster {cluster} already" if there else ""
    )


def _last_known(machines: Machines, since_s: float) -> str:
    newest_s = machines.of_snapshot("newest", lambda m: float(m.seen_at.max(where=m.has_data, initial=-np.inf)))
    known = machines.of_snapshot("known", lambda m: int(np.count_nonzero(m.has_data)))
    return (
        f"{_stale_count(machines, since_s)} of {known} machines have stale data, the newest "
        f"{machines.now_s - newest_s:.0f} s old: ranked by the last known load and what was placed since"
    )


def _stale_count(machines: Machines, since_s: float) -> int:
    """Return how many of the machines with data have none since a time."""
    first_s = machines.of_snapshot("first", lambda m: float(m.seen_at.min(where=m.has_data, initial=np.inf)))
    if first_s >= since_s:
        return 0
    return int(np.count_nonzero((machines.seen_at < since_s) & machines.has_data))


def answer(ranking: Ranking, top: int | None = None, explain_all: bool | None = None) -> RankResult:
    """Return the whole answer; ``top`` and ``explain_all`` are those of the request unless given.

    ``machine`` is the chosen one or None; ``candidates`` the best ``top`` with their terms, the chosen one first;
    ``refusals`` and ``summary`` say why the others are not there; ``machines`` (with ``explain_all``) holds every
    filter's and score's verdict for each machine.
    """
    if isinstance(ranking, ContinuedRanking):
        return answer_for(ranking.base, ranking.row, explain_all)
    request = ranking.request
    how = (request.top if top is None else top, request.explain if explain_all is None else explain_all)
    found: RankResult | None = ranking.said.get(how)
    if found is None:
        found = ranking.said[how] = _answer(ranking, *how)
    return found


def answer_for(ranking: Ranking, row: int, explain_all: bool | None = None) -> RankResult:
    """Return the answer for an instance of a batch that began with this ranking and placed it on this machine."""
    ranking = _first(ranking)
    how = (_EXPLAIN, row, explain_all)
    found: RankResult | None = ranking.said.get(how)
    if found is None:
        found = ranking.said[how] = _answer_for(ranking, row, answer(ranking, explain_all=explain_all))
    return found


def _first(ranking: Ranking) -> Ranking:
    """Return the ranking that a batch began with."""
    return ranking.base if isinstance(ranking, ContinuedRanking) else ranking


@quiet
def _answer_for(ranking: Ranking, row: int, found: RankResult) -> RankResult:
    if found.machine == ranking.machines.name(row):
        return found
    best = ranking.best(ranking.request.top).tolist()
    shown = _candidates(ranking, [row, *(each for each in best if each != row)])[: max(1, len(best))]
    return msgspec.structs.replace(
        found, machine=shown[0].machine, score=shown[0].score, warnings=warnings(ranking, row), candidates=shown
    )


def with_candidates_in_json(ranking: Ranking, found: RankResult) -> RankResult:
    """Return an answer whose candidates are JSON already; each is encoded once for all answers that show it.

    Three candidates are most of the bytes of an answer. Called while the server reserves, this delays no query.
    """
    ranking = _first(ranking)
    known: dict[str, msgspec.Raw] = ranking.said.setdefault(_IN_JSON, {})
    for each in found.candidates:
        if isinstance(each, Candidate) and each.machine not in known:
            known[each.machine] = msgspec.Raw(_encode(each))
    shown = [known[each.machine] if isinstance(each, Candidate) else each for each in found.candidates]
    return msgspec.structs.replace(found, candidates=shown)


@quiet
def tell_ahead(ranking: Ranking, rows: Sequence[int]) -> None:
    """Describe at least these machines together, and keep them with the ranking for `answer_for`.

    To describe the machines of eight alike queries one by one took 0.25 ms each, most of it the cost of numpy's calls.
    """
    _candidates(_first(ranking), rows)


def _candidates(ranking: Ranking, rows: Sequence[int]) -> list[Candidate]:
    """Return these machines with their terms; each is described once."""
    known: dict[int, Candidate] = ranking.said.setdefault(_TOLD, {})
    if missing := [row for row in dict.fromkeys(rows) if row not in known]:
        known.update(zip(missing, described(ranking, missing), strict=True))
    return [known[row] for row in rows]


def top_rows(ranking: Ranking, top: int) -> list[int]:
    """Return the rows of the candidates of an answer, the chosen machine first."""
    rows: list[int] = _first(ranking).best(top).tolist()
    if isinstance(ranking, ContinuedRanking):
        return [ranking.row, *(row for row in rows if row != ranking.row)][: max(1, len(rows))]
    return rows


@quiet
def candidates(ranking: Ranking, rows: Sequence[int]) -> list[Candidate]:
    """Return machines with their terms. They are not kept: a thousand are 15,000 objects for Python's collector."""
    return described(_first(ranking), rows)


def expected_from(ranking: Ranking) -> dict[str, str]:
    """Return in words where each expected usage comes from; only of resources that are requested or expected."""
    machines, request = ranking.machines, ranking.request
    estimate, found = machines.fleet.estimate, {}
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
    """Return in words what an instance is expected to use: of which others it is known, and how far they differ."""
    if known is None:
        return f"learned: {part:.0%} of what is asked, of the fleet"
    count, deviation = known
    kind, _, size = group.partition(SIZE)
    of = (f" of kind {kind}" if request.kind else f" with {kind}") if kind else ""
    of += (" and this size" if kind else " of this size") if size else ""
    return f"learned: like {count:,.0f} measured instances{of}: {part:.2f} ± {deviation:.2f} of what is asked"


def _learned(ranking: Ranking) -> dict[str, Any] | None:
    """Return the learned factors in force; None when the profile does not use them or nothing is learned."""
    estimate = ranking.machines.fleet.estimate
    if not isinstance(estimate, LearnedEstimate):
        return None
    return {"version": estimate.version, "factors": dict(estimate.factors)}


@quiet
def _answer(ranking: Ranking, top: int, explain_all: bool) -> RankResult:
    best = ranking.best(top).tolist()
    machines = ranking.machines
    candidates = _candidates(ranking, best)
    return RankResult(
        machine=candidates[0].machine if best else None,
        score=candidates[0].score if best else None,
        profile=ranking.profile.name,
        summary=summary(ranking),
        feasible=ranking.feasible_count,
        fleet=len(machines),
        request=dict(zip(RESOURCES, machines.amounts.tolist(), strict=True)),
        expected=dict(zip(RESOURCES, machines.expected.tolist(), strict=True)),
        expected_from=expected_from(ranking),
        learned=_learned(ranking),
        candidates=candidates,
        refusals=refusals(ranking),
        warnings=warnings(ranking, best[0] if best else None),
        machines=told(ranking, best_first(ranking)) if explain_all else None,
    )


def best_first(ranking: Ranking) -> list[int]:
    """Return the rows of all machines: the feasible ones in the order of the ranking, then the refused ones."""
    ranking = _first(ranking)
    return [*ranking.order.tolist(), *np.flatnonzero(~ranking.feasible).tolist()]


@quiet
def told(ranking: Ranking, rows: Sequence[int]) -> list[Verdict]:
    """Return these machines with every filter's and score's verdict."""
    ranking = _first(ranking)
    return [
        Verdict(**msgspec.structs.asdict(each), feasible=bool(ranking.feasible[row]), filters=verdict)
        for each, row, verdict in zip(described(ranking, rows), rows, verdicts(ranking, rows), strict=True)
    ]
