"""Answers of `rank` and `place`; a batch is placed and described in steps, with other queries answered between."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from schemas.rpc.envelope import Query
from schemas.rpc.request import Request, read_request
from schemas.rpc.results import PlaceResult, RankResult
from scorer.metrics import Metrics
from scorer.placement.choosing import trial
from scorer.placement.choosing.steps import Steps
from scorer.placement.offers.placement import GONE, Late, Placement
from scorer.placement.placer import Placing
from scorer.ranking.explanation.explain import answer, best_first, candidates, told
from scorer.ranking.profiles.looked_at import check_looked_at
from scorer.ranking.profiles.profile_rule import with_rules
from scorer.ranking.ranking import Ranking
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.decisions import DecisionLog
from scorer.rpc.methods.parameters import CallError, ForPlanners, read_object
from scorer.rpc.methods.place import asks_many, place_answer, read_batch

_Described = TypeVar("_Described", bound=msgspec.Struct)
_ANSWER_ALONE = 500
"""The answer to more instances than this is a step of its own."""
_DESCRIBED = 16
"""Machines described in one step."""
TOLD_MAX = 500
"""The most machines whose verdicts are in an answer of ``place`` with `explain`."""


def _at_once(requests: Sequence[Request]) -> Sequence[Request]:
    """Return requests for placing, without candidates that take long to describe; they are described afterwards."""
    return [msgspec.structs.replace(requests[0], top=min(requests[0].top, _DESCRIBED)), *requests[1:]]


def _in_parts(rows: Sequence[int], describe: Callable[[Sequence[int]], list[_Described]]) -> Steps[list[_Described]]:
    found: list[_Described] = []
    for first in range(0, len(rows), _DESCRIBED):
        yield
        found += describe(rows[first : first + _DESCRIBED])
    return found


def _explained(ranking: Ranking, found: RankResult, top: int, *, explain: bool) -> Steps[RankResult]:
    """Return an answer with more candidates, and the verdicts on the best machines where these are requested."""
    if top > _DESCRIBED:
        shown = yield from _in_parts(ranking.best(top).tolist(), partial(candidates, ranking))
        found = msgspec.structs.replace(found, candidates=shown)
    if not explain:
        return found
    rows, warnings = best_first(ranking), found.warnings
    if len(rows) > TOLD_MAX:
        warnings = [*warnings, f"explained for the first {TOLD_MAX} of {len(rows)} machines; rank tells all"]
    machines = yield from _in_parts(rows[:TOLD_MAX], partial(told, ranking))
    return msgspec.structs.replace(found, machines=machines, warnings=warnings)


class Placements:
    """Ranks and places on the current inputs; counts and logs the decisions."""

    def __init__(self, current: Current, metrics: Metrics, placing: Placing, decisions: DecisionLog) -> None:
        self._current = current
        self._placing = placing
        self._decisions = decisions
        self._metrics = metrics
        self._placed_count, self._missing_count = map(metrics.placements.labels, ("placed", "missing"))

    def place(self, query: Query) -> Steps[PlaceResult]:
        """Reserve a machine for each instance asked for; a query for one instance has a single step.

        Raises InvalidRequest, ProfileError, IdTaken, Conflict, Late, NotAcknowledged; CallError when the query acted
        before and all that it reserved has ended, or when its deadline has passed.
        """
        params = read_object(query)
        if asks_many(params):
            yield  # there may be no room for a long answer: nothing is reserved before
        batch = yield from read_batch(params, query.id)
        first = batch.requests[0]
        profile = self._current.profiles.choose(first.profile)
        requests = [with_rules(profile.rules, one) for one in batch.requests] if profile.rules else batch.requests
        check_looked_at(requests, profile)
        placement = yield from self._placing.steps(
            _at_once(requests), partial(self._current.ranking, profile), digests=batch.digests,
            calls=[self._current.call(query)] * len(batch.requests), deadline=query.deadline,
        )  # fmt: skip
        if placement.lost:
            self._metrics.conflicts.inc(placement.conflicts)
        if placement.late:
            raise Late(sum(record is not None for record in placement.records), len(placement.asked))
        if placement.gone and (batch.requests[0].all_or_nothing or not any(placement.records)):
            gone = batch.requests[min(placement.gone)].id
            raise CallError("ABORTED", f"{gone!r}: {GONE}; ask again under another query id")
        if len(batch.requests) > _ANSWER_ALONE:
            yield
        if placement.answer is not None and placement.ranking is not None:
            described = _explained(placement.ranking, placement.answer, first.top, explain=first.explain)
            placement.answer = yield from described
        return self._placed(query, placement, batch.single, profile.name)

    def _placed(self, query: Query, placement: Placement, single: bool, profile: str) -> PlaceResult:
        """Return the answer to a placement; count it, and add it to the log of decisions."""
        placed = sum(record is not None for record in placement.records)
        self._placed_count.inc(placed)
        if placed < len(placement.asked):
            self._missing_count.inc(len(placement.asked) - placed)
        answer = place_answer(placement, single, profile)
        decided = [one.id for position, one in enumerate(placement.asked) if position not in placement.known]
        if decided and not placement.asked[0].dry_run:
            self._decisions.note(query, decided, answer)
        return answer


def ranked(params: dict[str, Any], current: Current, most: float) -> RankResult:
    """Rank the machines for a request, reserving nothing.

    Raises InvalidRequest, ProfileError; ForPlanners where the answer describes more than ``most`` machines.
    """
    request = read_request(params)
    profile, machines = current.profiles.choose(request.profile), len(current.snapshot)
    check_looked_at([request], profile)
    if (machines if request.explain else min(request.top, machines)) > most:
        raise ForPlanners("rank")
    return answer(trial.ranked(request, current.ranking(profile)))
