"""`rank` and `place`: parameters in, single requests out; a placement in, its answer out.

A batch is placed and described in steps, with other queries answered between.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from schemas.names import Names
from schemas.resources import RESOURCES
from schemas.rpc.envelope import Query
from schemas.rpc.parameters import BATCH_MAX
from schemas.rpc.request import InvalidRequest, Request, read_request
from schemas.rpc.results import Line, PlaceResult, RankResult, UpdateResult
from scorer.ledger.record.instance import Instance, request_digest, why_not_a_deployers
from scorer.metrics import Metrics
from scorer.placement.choosing import trial
from scorer.placement.choosing.plan import Steps, expand
from scorer.placement.placer import GONE, Late, Placement, Placing
from scorer.ranking.explain import answer, best_first, candidates, told
from scorer.ranking.profiles.profile import check_looked_at, with_rules
from scorer.ranking.rank import Ranking
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.records import CallError, ForPlanners, read_object
from scorer.wire import Command

_MANY = 64
_READ_STEP = 200
"""Instances read in one step."""
_MISSING_SHOWN = 1000
"""Ids of instances without a machine in one answer."""
_SHARED = frozenset(Request.__struct_fields__) - {"id", "first_id", "count"}
_Described = TypeVar("_Described", bound=msgspec.Struct)
_ANSWER_ALONE = 500
"""The answer to more instances than this is a step of its own."""
_DESCRIBED = 16
"""Machines described in one step."""
TOLD_MAX = 500
"""The most machines whose verdicts are in an answer of ``place`` with `explain`."""


class Batch(NamedTuple):
    """The instances that one query requests."""

    requests: list[Request]
    """Each has its id and stands for one instance."""
    digests: list[str]
    """`scorer.ledger.record.instance.request_digest` of each: two requests under one id differ by it."""
    single: bool
    """Whether the query asks for one instance, so that its answer has the line of that one at the top level."""


def _read(params: dict[str, Any]) -> Request:
    request = read_request(params)
    if why := why_not_a_deployers(request.id, request.labels):
        raise InvalidRequest(why)
    return request


def read_batch(params: dict[str, Any], query_id: str) -> Steps[Batch]:
    """Return the single requests in the parameters of a query, in steps of a few instances.

    ``instances`` is a list of unlike requests; a field beside it holds for each of them that does not give it itself.
    An instance without an id gets the query's, so that a query sent twice reserves once.

    Raises InvalidRequest naming the field.
    """
    if "instances" not in params:
        request = _read(params)
        request = _with_id(request, query_id)
        requests = expand(request)
        return Batch(requests, [request_digest(request)] * len(requests), request.count == 1)
    shared = {name: value for name, value in params.items() if name != "instances"}
    for name in shared:
        if name not in _SHARED:
            raise InvalidRequest(f"{name}: does not go together with instances")
    given = params["instances"]
    if not isinstance(given, list) or not 1 <= len(given) <= BATCH_MAX:
        raise InvalidRequest(f"instances: expected a list of 1 to {BATCH_MAX} requests")
    requests, digests = [], []
    for position, one in enumerate(given):
        if not isinstance(one, dict):
            raise InvalidRequest(f"instances[{position}]: expected an object")
        try:
            request = _with_id(_read(shared | one), f"{query_id}-{position + 1}")
        except InvalidRequest as error:
            raise InvalidRequest(f"instances[{position}].{error}") from None
        expanded = expand(request)
        requests += expanded
        digests += [request_digest(request)] * len(expanded)
        if len(requests) > BATCH_MAX:
            raise InvalidRequest(f"instances: more than {BATCH_MAX}")
        if (position + 1) % _READ_STEP == 0:
            yield
    _check_alike(requests)
    return Batch(requests, digests, single=False)


def _check_alike(requests: list[Request]) -> None:
    """Refuse an id that is given twice, and a second profile."""
    seen: set[str] = set()
    for request in requests:
        if request.id in seen:
            raise InvalidRequest(f"instances: id {request.id!r} is listed twice")
        seen.add(request.id)
        if request.profile != requests[0].profile:
            first = requests[0].profile
            raise InvalidRequest(f"profile: {request.profile!r} in a query that began with {first!r}")


def _with_id(request: Request, own: str) -> Request:
    """Return the request with its own id, or with ``own``; raises InvalidRequest."""
    if request.first_id:
        if request.id:
            raise InvalidRequest("first_id: give an id or a first_id, not both")
        return request
    if not request.id.isprintable():
        raise InvalidRequest(f"id: {request.id!r} holds characters that cannot be printed")
    return request if request.id else msgspec.structs.replace(request, id=own)


def place_answer(placement: Placement, single: bool, profile: str = "") -> PlaceResult:
    """Return the answer of `place`.

    ``placed`` holds a line for each live instance; ``missing`` is the number without a machine, ``reason`` why. With
    one instance its line is at the top level, too, with the ranking's terms; ``machine`` is None when none fits.
    """
    placed = [instance_line(record) for record in placement.records if record is not None]
    first, missing = placement.asked[0], placement.missing
    terms = msgspec.structs.asdict(
        placement.answer
        or RankResult(
            profile=profile,
            summary="known already: not ranked again",
            request=dict(zip(RESOURCES, first.amounts(), strict=True)),
        )
    )
    if not single:
        terms |= {"machine": placed[0].machine if placed else None, "score": None}
    elif placed:
        score = terms["score"] if placed[0].machine == terms["machine"] else _score(placement, placed[0].machine)
        terms |= msgspec.structs.asdict(placed[0]) | {"score": score}
    else:
        terms |= {"id": first.id, "machine": None, "score": None}
    return PlaceResult(
        **terms,
        placed=placed,
        asked=len(placement.asked),
        missing=len(missing),
        reason=next(iter(missing.values()), ""),
        missing_reasons=dict(Counter(missing.values())),
        missing_ids=[placement.asked[position].id for position in sorted(missing)][:_MISSING_SHOWN],
        repeated=placement.repeated,
        conflicts=placement.conflicts,
        dry_run=first.dry_run,
    )


def _score(placement: Placement, machine: str) -> float | None:
    """Return the score of a machine in the ranking; None without a ranking, or for an unknown machine."""
    ranking = placement.ranking
    row = None if ranking is None else ranking.machines.roster.index.get(machine)
    return None if ranking is None or row is None else float(ranking.total[row])


def instance_line(record: Instance) -> Line:
    return Line(
        id=record.id,
        machine=record.machine,
        state=record.state,
        reserved_at=record.reserved_at,
        expires_at=record.expires_at if record.state == "reserved" else None,
        started_at=record.started_at or None,
        ended_at=record.ended_at or None,
        version=record.version,
        generation=record.generation,
    )


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


ENTRY_BYTES_MAX = 16_384
"""A larger answer is shortened."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_SHOWN_MAX = 20
_WEIGHT = 0.01
"""Weight of the newest entry in the mean size of entries."""
_OVERHEAD_BYTES = 200
"""Bytes of an entry in the stream, besides its answer and its ids."""


def shortened(answer: PlaceResult | UpdateResult | bytes, most: int = ENTRY_BYTES_MAX) -> bytes:
    """Return an answer as JSON of at most so many bytes: first without other machines, then without long lists."""
    whole = answer if isinstance(answer, bytes) else _encode(answer)
    if len(whole) <= most:
        return whole
    found = _decode(answer) if isinstance(answer, bytes) else msgspec.structs.asdict(answer)
    found |= {"machines": None, "candidates": found.get("candidates", [])[:1], "shortened": True}
    if len(short := _encode(found)) > most:
        for name in ("placed", "missing_ids", "warnings", "refusals"):
            if isinstance(found.get(name), list):
                found[name] = found[name][:_SHOWN_MAX]
        found["missing_reasons"] = dict(list(found.get("missing_reasons", {}).items())[:_SHOWN_MAX])
        short = _encode(found)
    if len(short) > most:
        plain = {
            name: value for name, value in found.items() if name == "amounts" or not isinstance(value, list | dict)
        }
        short = _encode(plain | {"placed": [], "candidates": [], "warnings": []})
    return short


class DecisionLog:
    """The log of decisions: a bounded Redis stream of every placement and move with its terms, for ``windward why``.

    An entry has the parameters of its query, too: `why MACHINE` asks again with those of the newest one. Entries are
    collected, and sent with the next answer. A large answer is reduced to the reasons of the choice: the chosen machine
    with its terms, the refusals and the counts. Large parameters are left out.

    ``length`` bounds the entries of the stream, 0 keeps none. ``bytes_max`` bounds its bytes: the larger the
    entries of this scorer are on average, the fewer are kept.
    """

    def __init__(self, names: Names, scorer: str, length: int, bytes_max: int = 256 * 2**20) -> None:
        self._bytes_max = bytes_max
        self._mean_bytes = 0.0
        self._key = names.decisions
        self._scorer = scorer
        self._length = length
        self._pending: list[Command] = []

    def note(self, query: Query, instance_ids: Iterable[str], answer: PlaceResult | UpdateResult) -> None:
        """Add the answer to a query to the log, under the ids of its instances."""
        if not self._length:
            return
        ids = "\n".join(instance_ids)  # printable, so none has a line break
        entry = shortened(answer)
        params = bytes(query.params) if len(query.params) <= ENTRY_BYTES_MAX else b"{}"
        size = len(ids) + len(entry) + len(params)
        self._mean_bytes += (size - self._mean_bytes) * (_WEIGHT if self._mean_bytes else 1.0)
        most = max(1, min(self._length, int(self._bytes_max / (self._mean_bytes + _OVERHEAD_BYTES))))
        self._pending.append(
            (
                "XADD", self._key, "MAXLEN", "~", most, "*",
                "ids", ids, "query", query.id, "scorer", self._scorer, "method", query.method,
                "answer", entry, "params", params,
            )
        )  # fmt: skip

    def take(self) -> list[Command]:
        """Return the commands that write the entries added since the last call."""
        pending, self._pending = self._pending, []
        return pending


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
        given, count = params.get("instances", ()), params.get("count", 1)
        if (isinstance(given, list) and len(given) > _MANY) or (isinstance(count, int) and count > _MANY):
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
