"""Answers of `rank` and `place`. Queries taken together are read once; a run of alike ones is placed as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from schemas.rpc.envelope import Query
from schemas.rpc.request import InvalidRequest, Request, read_request
from schemas.rpc.results import PlaceResult, RankResult
from scorer.ledger.record.transition import NotAcknowledged, UnknownFormat
from scorer.placement.choosing.reasons import RANKED, REUSED, result
from scorer.placement.choosing.reuse import Reuse
from scorer.placement.choosing.steps import Steps, drain
from scorer.placement.offers.coalesce import Asked, owns, runs
from scorer.placement.offers.outcomes import GONE
from scorer.placement.offers.placement import Conflict, IdTaken, Late, Placement
from scorer.placement.placer import Placing
from scorer.ranking.explanation.explain import (
    answer,
    best_first,
    candidates,
    told,
    top_rows,
    with_candidates_in_json,
)
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.ranking import Ranking
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.decisions import DecisionLog
from scorer.rpc.methods.errors import CallError
from scorer.rpc.methods.parameters import read_object
from scorer.rpc.methods.place import Batch, asks_many, place_answer, read_batch
from scorer.rpc.methods.slices import AT_ONCE, in_slices

_ANSWER_ALONE = 500
"""The answer to more instances than this is a step of its own."""


TOLD_MAX = 500
"""The most machines whose verdicts are in an answer of ``place`` with `explain`."""
Key = tuple[str, bytes]
"""Two queries of one id and one text are the same query sent twice; of one id alone, those of two callers."""


def key_of(query: Query) -> Key:
    """Return what a query is found by, among those taken together."""
    return query.id, bytes(query.params)


def _at_once(requests: Sequence[Request]) -> Sequence[Request]:
    """Return requests for placing; candidates that take more than a moment to describe are told afterwards."""
    if requests[0].top <= AT_ONCE:
        return requests
    return [msgspec.structs.replace(requests[0], top=AT_ONCE), *requests[1:]]


def _with_top(ranking: Ranking, found: RankResult, top: int) -> Steps[RankResult]:
    """Return an answer with more candidates."""
    shown = yield from in_slices(top_rows(ranking, top), partial(candidates, ranking))
    return msgspec.structs.replace(found, candidates=shown)


def _explained(ranking: Ranking, found: RankResult) -> Steps[RankResult]:
    """Return the answer of ``place`` with the verdicts on the best machines."""
    rows, warnings = best_first(ranking), found.warnings
    if len(rows) > TOLD_MAX:
        warnings = [*warnings, f"explained for the first {TOLD_MAX} of {len(rows)} machines; rank tells all"]
    machines = yield from in_slices(rows[:TOLD_MAX], partial(told, ranking))
    return msgspec.structs.replace(found, machines=machines, warnings=warnings)


class Placements:
    """Ranks and places on the current inputs; counts and logs what was decided."""

    def __init__(self, current: Current, placing: Placing, reuse: Reuse, decisions: DecisionLog) -> None:
        self._current = current
        self._placing = placing
        self._reuse = reuse
        self._decisions = decisions
        self._metrics = metrics = current.metrics
        self._placed_count, self._missing_count = map(metrics.placements.labels, ("placed", "missing"))
        self._reuse_counts = {why: metrics.reuse.labels(result(why), why) for why in (*REUSED, *RANKED)}
        self._read: dict[Key, Batch] = {}
        """Of the queries taken together, those that were read and are not answered yet."""
        self._runs: dict[Key, list[Asked]] = {}
        """The runs not placed yet, by the first query of each."""
        self._answers: dict[Key, PlaceResult] = {}
        """The answers of the runs that were placed."""
        self._failures: dict[Key, NotAcknowledged] = {}
        """What failed a run: each of its queries."""

    def prepare(self) -> None:
        """Compute in advance what the next decision needs, while no query waits."""
        self._reuse.prepare(self._current.ranking)

    def taken(self, queries: Sequence[Query]) -> None:
        """Read the queries taken together, and note which of them can be placed together."""
        self._read.clear()
        self._answers.clear()
        self._failures.clear()
        found = runs(queries, self._alone) if len(queries) > 1 else []
        self._runs = {key_of(run[0].query): run for run in found}

    def known(self, query: Query) -> bool:
        """Return whether the query was placed with a run, and its answer is there."""
        return key_of(query) in self._answers

    def _alone(self, query: Query) -> Asked | None:
        """Return a query for one instance that may be placed together with others like it; None for any other."""
        if query.method != "place":
            return None
        try:
            params = read_object(query)
            if "instances" in params or params.get("count", 1) != 1:
                return None  # read when its turn comes: it may be long
            batch = drain(read_batch(params, query.id))
        except InvalidRequest:
            return None  # refused when its turn comes
        self._read[key_of(query)] = batch
        request = batch.requests[0]
        together = request.all_or_nothing or request.machines_max or request.machines_min
        special = request.explain or request.dry_run or together
        expired = query.deadline and query.deadline < self._current.clock()
        if not batch.single or special or expired or request.id in self._current.ledger.instances:
            return None
        return Asked(query, request, batch.digests[0])

    def place(self, query: Query) -> Steps[PlaceResult]:
        """Reserve a machine for each instance asked for; a query for one instance has a single step.

        Raises InvalidRequest, ProfileError, IdTaken, Conflict, Late, NotAcknowledged; CallError when the query acted
        before and what it reserved has ended (of a batch: all of it), or when its deadline has passed.
        """
        key = key_of(query)
        if run := self._runs.pop(key, None):
            self._place_run(run)
        if answer := self._answers.pop(key, None):
            return answer
        if failure := self._failures.pop(key, None):
            raise failure
        batch = self._read.pop(key, None)
        if batch is None:
            params = read_object(query)
            if asks_many(params):
                yield  # there may be no room for a long answer: nothing is reserved before
            batch = yield from read_batch(params, query.id)
        first = batch.requests[0]
        profile = self._current.profiles.choose(first.profile)
        placement = yield from self._placing.steps(
            _at_once(batch.requests), partial(self._current.ranking, profile), digests=batch.digests,
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
            if first.top > AT_ONCE:
                placement.answer = yield from _with_top(placement.ranking, placement.answer, first.top)
            if first.explain:
                placement.answer = yield from _explained(placement.ranking, placement.answer)
        return self._placed(query, placement, batch.single, profile.name)

    def _place_run(self, run: Sequence[Asked]) -> None:
        """Place a run as one batch and keep the answers; queries that get none here are placed one by one later.

        Their deadlines do not end the batch: what was reserved by then would be answered as known already.
        """
        requests, digests = [one.request for one in run], [one.digest for one in run]
        try:
            profile = self._current.profiles.choose(requests[0].profile)
            calls = [self._current.call(one.query) for one in run]
            inputs = partial(self._current.ranking, profile)
            placement = self._placing.place(requests, inputs, digests=digests, calls=calls)
        except NotAcknowledged as failure:
            self._failures |= dict.fromkeys((key_of(one.query) for one in run), failure)
            return
        except (ProfileError, InvalidRequest, IdTaken, Conflict, UnknownFormat):
            return
        if placement.lost:
            self._metrics.conflicts.inc(placement.conflicts)
        for position, own in owns(placement).items():
            query = run[position].query
            self._answers[key_of(query)] = self._placed(query, own, True, profile.name)

    def _placed(self, query: Query, placement: Placement, single: bool, profile: str) -> PlaceResult:
        """Return the answer to what was placed; count it, and put it on the log of decisions."""
        placed = sum(record is not None for record in placement.records)
        self._placed_count.inc(placed)
        if placed < len(placement.asked):
            self._missing_count.inc(len(placement.asked) - placed)
        answer = place_answer(placement, single, profile)
        decided = [one.id for position, one in enumerate(placement.asked) if position not in placement.known]
        if decided and not placement.asked[0].dry_run:
            self._decisions.note(query, decided, answer)
        return answer

    def rank(self, query: Query) -> Steps[RankResult]:
        """Rank the machines for a request, reserving nothing.

        Raises InvalidRequest, ProfileError.
        """
        request = read_request(read_object(query))
        profile = self._current.profiles.choose(request.profile)
        is_long = len(self._current.snapshot) > AT_ONCE and (request.explain or request.top > AT_ONCE)
        if is_long:
            yield  # there may be no room for a long answer: nothing is ranked before
        found = self._reuse.rank(request, self._current.ranking(profile), whole=True)
        result = with_candidates_in_json(found, answer(found, top=min(request.top, AT_ONCE), explain_all=False))
        if request.top > AT_ONCE:
            result = yield from _with_top(found, result, request.top)
        if not request.explain:
            return result
        machines = yield from in_slices(best_first(found), lambda rows: told(found, rows))
        return msgspec.structs.replace(result, machines=machines)

    def count_reuse(self) -> None:
        """Count the placements since the last call by whether, and why, the last ranking was used again."""
        for reason, count in self._reuse.reasons.items():
            self._reuse_counts[reason].inc(count)
        self._reuse.reasons.clear()
