"""Shell: takes queries from a list, and puts each answer on its own list.

    LPUSH queries ──> BLMOVE ──> taken:<name> ──> handler ──> LPUSH, LTRIM, EXPIRE reply:<id>; LREM taken: one write
                                                └─ too long ──> queries:planners, from which a planner takes it

One turn of the loop is one round trip. One write has the last answer, the command that takes the next query, and the
reads that bring the ledger up to date.

Scorers and planners have the same loop, each on lists of its own (`schemas.names.QueryLists`). A query stays on the
process's own list until its answer is written. When its heartbeat stops, another one of its kind moves the list back
to the queue (`scorer.rpc.parts`), so a killed scorer loses nothing. The price is that a query may be decided
twice; placements are idempotent by id, so it is never reserved twice.

A scorer forwards a long query to the planners, in one script, while one of them has a heartbeat. The planners' lists
keep the rights of the scorers' lists: a planner knows by the list whether the caller is an operator.

Batches of placements run in steps, and other queries are answered between two steps. The first step only checks for
room. At most `ACTIVE` batches run in turn, the oldest. Each has a fifth of the time of batches, so they end one after
the other, within their deadlines: 32 in turn would all end too late. The last fifth is for the newest of the others
with few steps: a small batch never waits for larger ones. Every failure becomes a reply, too.

Queries of operators (`schemas.rpc.parameters.OPERATORS`) wait on a list of their own, on which Redis lets operators
alone push. One at most is taken in a turn, behind the command that waits for others. The empty list is looked at every
`OPERATORS_S`: a busy scorer does not pay for it. An idle one takes an operator's query within `block_s`.

Chosen over a stream with a consumer group: BLMOVE costs as much as BLPOP, XREADGROUP and XACK twice as much.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import redis
from redis.exceptions import NoPermissionError

from schemas.process.redis_url import in_words
from schemas.rpc.envelope import DEADLINE_MAX_S, DEADLINE_S, VERSION, Code, Error, Query, Reply, reply_ttl_s
from schemas.rpc.parameters import OPERATORS
from schemas.rpc.request import InvalidRequest
from schemas.values.errors import field_error, shortened
from schemas.values.read_json import reader
from scorer.metrics import AnsweringMetrics
from scorer.placement.choosing.plan import Steps
from scorer.rpc.methods.records import CallError, ForPlanners
from scorer.settings import AnsweringSettings
from scorer.wire import AWAY, Command, ServerClock, Wire, refuses_for_now

if TYPE_CHECKING:
    from scorer.rpc.service import AnsweringService


QUERY_BYTES_MAX = 8 * 2**20
"""A longer query is refused before it is decoded."""
_QUERY_ID = re.compile(r"[A-Za-z0-9._:@+-]{1,128}")
_ID_IN_WRECK = re.compile(rb'"id"\s*:\s*"([A-Za-z0-9._:@+-]{1,128})"')
_decode = reader(Query)


def read_query(raw: bytes) -> Query | Reply | None:
    """Return the query in ``raw``; for an invalid one the error, or None without an id to answer.

    >>> read_query(b'{"id": "q1", "method": "rank"}').method
    'rank'
    >>> read_query(b'{"id": "q1", "method": 7}').error.message
    'method: expected text, got a whole number'
    >>> read_query(b"[]") is None
    True
    """
    if len(raw) > QUERY_BYTES_MAX:
        return _refused_wreck(raw[:4096], f"query: {len(raw)} bytes, at most {QUERY_BYTES_MAX}")
    try:
        query = _decode(raw)
    except msgspec.DecodeError as error:
        return _refused_wreck(raw, field_error(error, "query"))
    if not _QUERY_ID.fullmatch(query.id):
        return None
    if query.v != VERSION:
        return refusal(query.id, "INVALID_ARGUMENT", f"v: {query.v}; this scorer knows {VERSION}")
    return query


def refusal(query_id: str, code: Code, message: str, *, retryable: bool = False) -> Reply:
    """Return the answer for a query that is refused or failed."""
    return Reply(id=query_id, ok=False, error=Error(code=code, message=shortened(message), retryable=retryable))


def _refused_wreck(raw: bytes, message: str) -> Reply | None:
    found = _ID_IN_WRECK.search(raw)
    return refusal(found[1].decode(), "INVALID_ARGUMENT", message) if found else None


LONG_MAX = 32
"""Batches under way in one scorer: each holds its instances in memory."""
ACTIVE = 4
"""Batches that are worked on in turn."""
_FEW_STEPS = 8
NOT_HERE = (
    "{} is for operators: push it on the list `queries:operators`, as a Redis user that may "
    "(`operator` of ops/redis), not on `queries`"
)
LATER: Final = Reply(id="", ok=True)
"""Stands for the answer to a query that is not answered yet."""
FOR_PLANNERS: Final = Reply(id="", ok=True)
"""Stands for the answer to a query that takes too long for a scorer."""


@dataclass(eq=False)
class UnderWay:
    """A query that is not answered yet, and the steps to its answer."""

    raw: bytes
    query: Query
    steps: Steps[bytes]
    started: float
    """When it was taken, on the clock of `time.perf_counter`."""
    of_operators: bool = False
    """Whether it was on the operators' list."""
    turn: int = 0
    """Number of the turn in which it did its last step."""
    steps_done: int = 0


class Replies:
    """Calls the service, and keeps the batches in progress."""

    def __init__(self, service: "AnsweringService", metrics: AnsweringMetrics, clock: Callable[[], float]) -> None:
        """``clock`` returns the server's time."""
        self._clock = clock
        self._service = service
        self._metrics = metrics
        self._long: list[UnderWay] = []
        """In the order of arrival."""
        self._turn = 0

    @property
    def under_way(self) -> bool:
        """Whether a batch is in progress."""
        return bool(self._long)

    def clear(self) -> None:
        """Drop the batches unanswered."""
        while self._long:
            self._long.pop().steps.close()
        self._metrics.long.set(0)

    def go_on(self) -> tuple[UnderWay, Reply] | None:
        """Do one step of the batch whose turn it is; return it with the answer when it is done, else None."""
        if not self._long:
            return None
        one = self._whose_turn()
        self._turn += 1
        one.turn, one.steps_done = self._turn, one.steps_done + 1
        reply = self._step(one)
        if reply is LATER:
            return None
        self._long.remove(one)
        self._metrics.long.set(len(self._long))
        return one, reply

    def _whose_turn(self) -> UnderWay:
        """Return one of the oldest batches; every fifth time the newest of the others, if it has few steps."""
        others = self._long[: ACTIVE - 1 : -1]
        if others and self._turn % (ACTIVE + 1) == 0:
            return min(others, key=lambda one: one.steps_done // _FEW_STEPS)
        return min(self._long[:ACTIVE], key=lambda one: one.turn)

    def reply(self, raw: bytes, query: Query | Reply | None, *, of_operators: bool = False) -> Reply | None:
        """Return the answer to a query; `LATER`, `FOR_PLANNERS`, or None without an id to answer.

        ``of_operators``: it was on the operators' list. A query does not identify its caller; its list does.
        """
        started = time.perf_counter()
        if query is None:
            self._metrics.malformed.inc()
            log.warning("scorer.query.malformed", extra={"values": {"query": repr(raw[:200])}})
            return None
        if isinstance(query, Query) and query.method not in (known := self._service.METHODS):
            query = refusal(query.id, "UNIMPLEMENTED", f"method: {query.method!r} is none of {', '.join(known)}")
        elif isinstance(query, Query) and query.method in OPERATORS and not of_operators:
            query = refusal(query.id, "PERMISSION_DENIED", NOT_HERE.format(query.method))
        if isinstance(query, Reply):
            code = query.error.code if query.error else "INTERNAL"
            self._metrics.answered("unknown", code, time.perf_counter() - started)
            return query
        if query.deadline and (late_s := self._clock() - query.deadline) > 0:
            self._metrics.answered(query.method, "DEADLINE_EXCEEDED", time.perf_counter() - started)
            self._metrics.expired.inc()
            after = f"taken {late_s:.1f} s after the deadline by the server's clock"
            message = f"{after}: it waited so long, or the caller's clock is behind"
            return refusal(query.id, "DEADLINE_EXCEEDED", message, retryable=True)
        one = UnderWay(raw, query, self._service.steps(query), started, of_operators)
        reply = self._step(one)
        if reply is not LATER:
            return reply
        if len(self._long) >= LONG_MAX:
            one.steps.close()
            self._metrics.answered(query.method, "RESOURCE_EXHAUSTED", time.perf_counter() - started)
            message = f"{len(self._long)} batches are being placed"
            return refusal(query.id, "RESOURCE_EXHAUSTED", message, retryable=True)
        self._long.append(one)
        self._metrics.long.set(len(self._long))
        return LATER

    def _step(self, one: UnderWay) -> Reply:
        """Do one step of a query; return its answer, `LATER` or `FOR_PLANNERS`."""
        query, error, result = one.query, None, b""
        try:
            next(one.steps)
        except StopIteration as done:
            result = done.value
        except ForPlanners:
            return FOR_PLANNERS
        except CallError as refused:
            error = refused.error
        except InvalidRequest as invalid:
            error = Error(code="INVALID_ARGUMENT", message=str(invalid))
        except AWAY:
            raise
        except NoPermissionError as denied:
            error = Error(code="PERMISSION_DENIED", message=f"this scorer's user of Redis: {denied}; see ops/redis")
        except Exception as failure:
            if refuses_for_now(failure):
                error = Error(code="UNAVAILABLE", message=f"the ledger's server refuses: {failure}", retryable=True)
            else:
                log.exception("scorer.query.failed", extra={"values": {"method": query.method, "query": query.id}})
                error = Error(code="INTERNAL", message=f"{type(failure).__name__}: {failure}")
        else:
            return LATER
        self._metrics.answered(query.method, error.code if error else "OK", time.perf_counter() - one.started)
        if error:
            return refusal(query.id, error.code, error.message, retryable=error.retryable)
        return Reply(id=query.id, ok=True, result=msgspec.Raw(result))


log = logging.getLogger("windward.scorer")

_LEAVE = Path(__file__).with_name("leave_query.lua").read_text()
NO_PLANNER = "no planner runs (windward planner)"
OPERATORS_S = 0.05
"""Shortest time between two looks at the operators' list while it is empty."""
_REFUSED_S = 60.0
"""The same while the server refuses the look: this scorer's Redis user has an older file."""
STOP_S = 2.0
"""How long a terminating scorer goes on with batches."""
_FIRST_TAKEN_S = 86_400
REPLIES_MAX = 4
"""Answers kept under one id, the newest: a caller that repeats one for ever and reads none holds no more."""
_MARK_MORE_S = 60
"""How much longer than its deadline the mark of a query is kept after the answer; 1,000 a second without one: 16 MB."""

_encode = msgspec.json.Encoder().encode


class Rpc:
    """The loop of one process. `run` returns when ``stop`` is set and every taken query is answered or returned."""

    def __init__(
        self,
        wire: Wire,
        service: "AnsweringService",
        metrics: AnsweringMetrics,
        settings: AnsweringSettings,
        clock: ServerClock,
    ) -> None:
        self._wire = wire
        self._names, self._lists = settings.names, settings.lists
        self._name, self._silent_s = settings.holder, settings.silent_s
        self._service = service
        self._metrics = metrics
        self._queue_length_max = settings.queue_length_max
        self._together = settings.together
        self._more = 0
        self._pause_s = 0.0
        self._clock = clock
        self._asked_at = 0.0
        """The server's time before the current queries were taken: none of them was taken earlier."""
        self._bounded: dict[str, float] = {}
        """By id of a query that got its deadline here: how long its mark outlives its answer."""
        (taken, queries), (taken_of_operators, of_operators) = self._lists.pairs(self._name)
        self._claimed = taken, taken_of_operators
        self._block_s = settings.block_s
        self._replies = Replies(service, metrics, clock)
        self._take: Command = ("BLMOVE", queries, taken, "RIGHT", "LEFT", settings.block_s)
        self._take_one_more: Command = ("LMOVE", queries, taken, "RIGHT", "LEFT")
        self._shed: Command = ("LMOVE", queries, taken, "LEFT", "LEFT")
        self._length: Command = ("LLEN", queries)
        self._take_of_operators: Command = ("LMOVE", of_operators, taken_of_operators, "RIGHT", "LEFT")
        self._look_at = 0.0
        """When the operators' list is read again, on the clock of `time.monotonic`."""

    def run(self, stop: threading.Event) -> None:
        """Answer queries until ``stop``; while the server is away, wait for it."""
        while not stop.is_set():
            try:
                self._wire.one("ZADD", self._lists.answering, self._clock.read(self._wire), self._name)
                self._return_taken()
                self._serve(stop)
            except (*AWAY, redis.ResponseError) as error:
                self._wire.close()
                self._service.lost()
                self._replies.clear()  # they are still on this scorer's list, and are given back
                self._bounded.clear()
                self._metrics.ready.set(0)
                if not self._pause_s:
                    log.warning("scorer.redis.away", extra={"values": {"error": _told(error)}})
                self._pause_s = min(1.0, self._pause_s * 2 or 0.05)
                stop.wait(self._pause_s)

    def _return_taken(self) -> None:
        """Return queries that it left unanswered, before a restart or reconnect, to the list."""
        for taken, queue in self._lists.pairs(self._name):
            while self._wire.one("LMOVE", taken, queue, "LEFT", "RIGHT") is not None:
                self._metrics.returned.inc()

    def _serve(self, stop: threading.Event) -> None:
        while not stop.is_set():
            reads = self._service.reads()
            first = self._take_one_more if self._replies.under_way else self._take
            takes = [first, *[self._take_one_more] * self._more]
            self._asked_at = self._clock()
            looks = time.monotonic() >= self._look_at
            last = (self._take_of_operators,) if looks else ()
            got = self._wire.ask([*takes, self._length, *reads, *last], self._block_s)
            of_operators = self._looked(got.pop()) if looks else None
            taken = [raw for raw in got[: len(takes)] if isinstance(raw, bytes)]
            self._check(got[: len(takes)])
            self._adapt(len(taken), len(takes))
            self._service.accept(got[len(takes) + 1 :])
            if self._pause_s:  # the ledger's server, too, has answered
                self._pause_s = 0.0
                log.info("scorer.redis.back")
            waiting = got[len(takes)]
            if isinstance(waiting, int):
                self._metrics.waiting.set(waiting)
                if waiting > self._queue_length_max:
                    self._shed_load(waiting - self._queue_length_max)
            began_at = time.perf_counter()
            read = [(raw, self._bound(read_query(raw))) for raw in taken]
            for raw, query in read[:-1]:
                self._wire.post(self._answer(raw, query))
            if read and (self._replies.under_way or of_operators is not None):
                self._wire.post(self._answer(*read[-1]))
            elif read:
                self._wire.hold(self._answer(*read[-1]))  # sent in one write with the command that takes the next query
            if of_operators is not None:
                query = self._bound(read_query(of_operators))
                self._wire.post(self._answer(of_operators, query, of_operators=True))
            self._go_on(time.perf_counter() - began_at)
            self._report()
            self._service.between()
        self._end()

    def _looked(self, found: Any) -> bytes | None:
        """Return an operator's query, if one was taken; set when the operators' list is read next."""
        self._look_at = time.monotonic() + (0.0 if isinstance(found, bytes) else OPERATORS_S)
        if isinstance(found, redis.ResponseError) and not refuses_for_now(found):
            self._look_at += _REFUSED_S
            values = {"list": self._lists.of_operators, "error": str(found)}
            log.warning("scorer.operators.refused", extra={"values": values})
        return found if isinstance(found, bytes) else None

    def _end(self) -> None:
        """Answer the short queries; return the others to the list, for another scorer. Placements are idempotent."""
        until = time.monotonic() + STOP_S
        while self._replies.under_way and time.monotonic() < until:
            self._go_on()
        self._replies.clear()
        self._wire.ask([self._length])  # the answers have arrived when this one has
        self._return_taken()

    def _adapt(self, taken: int, asked: int) -> None:
        """Take twice as many queries at once while the queue has enough, half as many when it has not.

        A single client costs one command to take a query; the queries of eight clients are taken in one write.
        """
        if taken == asked:
            self._more = min(self._together - 1, self._more * 2 + 1)
        elif taken <= asked // 2:
            self._more //= 2

    def _go_on(self, spent_s: float = 0.0) -> None:
        """Do a step of a batch, or several until batches had a fifth of the time; ``spent_s``: that of the others."""
        began_at = time.perf_counter()
        while self._replies.under_way:
            if (done := self._replies.go_on()) is not None:
                one, reply = done
                self._wire.post(self._finish(one.raw, reply, of_operators=one.of_operators))
            if time.perf_counter() >= began_at + spent_s / 4:
                return

    def _bound(self, query: Query | Reply | None) -> Query | Reply | None:
        """Return the query with a deadline; a missing or late one is replaced by the latest that is allowed.

        The result of a query is remembered until its deadline: after that, neither a query given back by a dead scorer
        nor one in the memory of a frozen scorer may run again. So the script compares with the server's time before
        the query was claimed. The mark of the first claim outlives the answer until no deadline of such a scorer can
        still be ahead.
        """
        taken_at = self._asked_at
        if not isinstance(query, Query) or 0 < query.deadline <= taken_at + DEADLINE_MAX_S:
            return query
        key = self._names.first_taken(query.id)
        first = self._wire.one("SET", key, repr(taken_at), "NX", "GET", "EX", _FIRST_TAKEN_S)
        at_most = DEADLINE_MAX_S if query.deadline else DEADLINE_S
        self._bounded[query.id] = at_most
        return msgspec.structs.replace(query, deadline=min(float(first or taken_at), taken_at) + at_most)

    def _answer(self, raw: bytes, query: Query | Reply | None, *, of_operators: bool = False) -> list[Command]:
        """Return the commands that answer a query and remove it from the claimed ones; none for a later answer."""
        reply = self._replies.reply(raw, query, of_operators=of_operators)
        if reply is FOR_PLANNERS and isinstance(query, Query):
            reply = self._leave(raw, query, of_operators=of_operators)
        return [] if reply is LATER else self._finish(raw, reply, of_operators=of_operators)

    def _leave(self, raw: bytes, query: Query, *, of_operators: bool) -> Reply:
        """Move a query to the planners' list; return a refusal where no planner has a heartbeat."""
        there = self._names.of_planners
        keys = (there.answering, there.of_operators if of_operators else there.queries, self._claimed[of_operators])
        code: Code = "UNAVAILABLE"
        try:
            left = self._wire.one("EVAL", _LEAVE, len(keys), *keys, self._silent_s, raw)
        except redis.ResponseError as error:
            if refuses_for_now(error):
                raise
            left, code = 0, "PERMISSION_DENIED"
            why = f"this scorer may not ask a planner: {error}; see ops/redis"
        else:
            why = NO_PLANNER
        if not left:
            self._metrics.answered(query.method, code, 0.0)
            return refusal(query.id, code, why)
        self._bounded.pop(query.id, None)  # the planner bounds it by the same mark
        return LATER

    def _finish(self, raw: bytes, reply: Reply | None, *, of_operators: bool = False) -> list[Command]:
        commands = self._send(reply) if reply is not None else []
        query = read_query(raw) if self._bounded else None
        if isinstance(query, Query) and query.id in self._bounded:
            kept_s = round(self._bounded.pop(query.id)) + _MARK_MORE_S
            commands.append(("EXPIRE", self._names.first_taken(query.id), kept_s))
        return [*commands, ("LREM", self._claimed[of_operators], 1, raw), *self._service.writes()]

    def _send(self, reply: Reply) -> list[Command]:
        key = self._names.reply(reply.id)
        text = _encode(reply)
        return [("LPUSH", key, text), ("LTRIM", key, 0, REPLIES_MAX - 1), ("EXPIRE", key, reply_ttl_s(len(text)))]

    def _shed_load(self, count: int) -> None:
        """Refuse the newest queries beyond the limit, at once."""
        commands: list[Command] = []
        for raw in self._wire.ask([self._shed] * min(count, 1000)):
            if not isinstance(raw, bytes):
                continue
            self._metrics.refused.inc()
            query = read_query(raw)
            if query is not None:
                reply = refusal(query.id, "RESOURCE_EXHAUSTED", "too many queries are waiting", retryable=True)
                commands += self._send(reply)
            commands.append(("LREM", self._claimed[False], 1, raw))
        self._wire.post(commands)

    def _check(self, answers: Sequence[Any]) -> None:
        """Raise ConnectionError, as if the server were away, when it refuses a take (ACL, wrong type, no memory)."""
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise redis.ConnectionError(f"{self._lists.queries}: {answer}")

    def _report(self) -> None:
        """Log the answers that were refused; raise ConnectionError when the server refuses all writes for now.

        Their queries stay on this scorer's list; they return to the queue when the server accepts writes again.
        """
        refused = list(self._wire.refused)
        self._wire.refused.clear()
        for error in refused:
            log.warning("scorer.answer.refused", extra={"values": {"error": str(error)}})
            if refuses_for_now(error) and not isinstance(error, redis.OutOfMemoryError):
                raise redis.ConnectionError(f"{self._lists.queries}: {error}")


def _told(error: Exception) -> str:
    if isinstance(error, redis.exceptions.MovedError | redis.exceptions.ClusterCrossSlotError):
        return "this is a node of a Redis Cluster, which is not supported: name a single server or a proxy"
    return in_words(error)
