"""Shell: queries off the list, answers onto theirs.

    LPUSH queries ──> BLMOVE ──> taken:<scorer> ──> handler ──> LPUSH reply:<id> + EXPIRE + LREM taken, one write

One turn of the loop is one round trip: the taking of the next query and, sent with it, whatever the ledger wants read
before a decision. The last answer goes in the same write, and while the server works the scorer makes ready for what
comes next.

A query stays on the scorer's own list until its answer is written; when the scorer's heartbeat stops, another scorer
moves the list back to the queue (`Heartbeat`), so a killed scorer loses nothing. The price is that a query may be
decided twice; placements are idempotent by id, so it is never reserved twice.

Chosen over a stream with a consumer group: BLMOVE costs what BLPOP costs, XREADGROUP and XACK twice that.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
import redis

from schemas.names import Names
from schemas.request import InvalidRequest
from schemas.rpc import METHODS, REPLY_TTL_S, VERSION, Code, Error, Query, Reply
from scorer.metrics import Metrics
from scorer.wire import AWAY, Command, Wire

log = logging.getLogger("windward.scorer")

QUERY_BYTES_MAX = 8 * 2**20
"""A longer query is refused before it is decoded."""
_BLOCK_S = 0.25
_REMEMBERED_S = 3600.0
_QUERY_ID = re.compile(r"[A-Za-z0-9._:@+-]{1,128}")
_ID_IN_WRECK = re.compile(rb'"id"\s*:\s*"([A-Za-z0-9._:@+-]{1,128})"')


class CallError(Exception):
    """A call that cannot be done: becomes the answer's error."""

    def __init__(self, code: Code, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.error = Error(code=code, message=message, retryable=retryable)


class Service(Protocol):
    """What answers the queries."""

    def reads(self) -> Sequence[Command]:
        """Return commands to be sent with the taking of a query, after it; their answers go to `accept`."""

    def accept(self, answers: Sequence[Any]) -> None:
        """Take the answers of `reads`, before any of the taken queries is answered."""

    def taken(self, queries: Sequence[Query]) -> None:
        """Know the queries that were taken together, before the first of them is answered."""

    def answer(self, query: Query) -> bytes:
        """Return the result as JSON; raise CallError or InvalidRequest."""

    def writes(self) -> Sequence[Command]:
        """Return commands to be sent with the answer; what they return is ignored."""

    def prepare(self) -> None:
        """Nobody waits: make ready for the next query."""

    def lost(self) -> None:
        """The connection was lost: what was read may be from another life of the server."""


_decode = msgspec.json.Decoder(Query).decode
_encode = msgspec.json.Encoder().encode


def read_query(raw: bytes) -> Query | Reply | None:
    """Return the query in ``raw``; for a bad one the answer that says so, or None when nobody can be answered.

    >>> read_query(b'{"id": "q1", "method": "rank"}').method
    'rank'
    >>> read_query(b'{"id": "q1", "method": 7}').error.message
    'method: Expected `str`, got `int`'
    >>> read_query(b"[]") is None
    True
    """
    if len(raw) > QUERY_BYTES_MAX:
        return _refusal(raw[:4096], "INVALID_ARGUMENT", f"query: {len(raw)} bytes, at most {QUERY_BYTES_MAX}")
    try:
        query = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what, at, path = str(error).rpartition(" - at `$.")
        return _refusal(raw, "INVALID_ARGUMENT", f"{path.rstrip('`')}: {what}" if at else f"query: {error}")
    if not _QUERY_ID.fullmatch(query.id):
        return None
    if query.v != VERSION:
        return Reply(
            id=query.id, ok=False,
            error=Error(code="INVALID_ARGUMENT", message=f"v: {query.v}; this scorer knows {VERSION}"),
        )  # fmt: skip
    if query.method not in METHODS:
        return Reply(
            id=query.id, ok=False,
            error=Error(code="UNIMPLEMENTED", message=f"method: {query.method!r} is none of {', '.join(METHODS)}"),
        )  # fmt: skip
    return query


def _refusal(raw: bytes, code: Code, message: str) -> Reply | None:
    found = _ID_IN_WRECK.search(raw)
    return Reply(id=found[1].decode(), ok=False, error=Error(code=code, message=message)) if found else None


class Rpc:
    """The loop of one scorer. `run` returns when ``stop`` is set and every taken query has its answer."""

    def __init__(
        self,
        wire: Wire,
        names: Names,
        scorer: str,
        service: Service,
        metrics: Metrics,
        *,
        queue_length_max: int = 10_000,
        drain_max: int = 32,
    ) -> None:
        self._wire = wire
        self._names = names
        self._scorer = scorer
        self._service = service
        self._metrics = metrics
        self._queue_length_max = queue_length_max
        self._drain_max = drain_max
        self._more = 0
        self._pause_s = 0.0
        taken = names.taken(scorer)
        self._take: Command = ("BLMOVE", names.queries, taken, "RIGHT", "LEFT", _BLOCK_S)
        self._take_one_more: Command = ("LMOVE", names.queries, taken, "RIGHT", "LEFT")
        self._shed: Command = ("LMOVE", names.queries, taken, "LEFT", "LEFT")
        self._length: Command = ("LLEN", names.queries)

    def run(self, stop: threading.Event) -> None:
        """Answer queries until ``stop``; without a server wait for it and go on."""
        while not stop.is_set():
            try:
                self._give_back()
                self._serve(stop)
            except (*AWAY, redis.ResponseError) as error:
                self._wire.close()
                self._service.lost()
                self._metrics.ready.set(0)
                if not self._pause_s:
                    log.warning("scorer.redis.away", extra={"values": {"error": _in_words(error)}})
                self._pause_s = min(1.0, self._pause_s * 2 or 0.05)
                stop.wait(self._pause_s)

    def _give_back(self) -> None:
        """Be known as a scorer, and return what an earlier life of it, or of its connection, did not answer."""
        seconds, micros = self._wire.one("TIME")
        self._wire.one("ZADD", self._names.scorers, int(seconds) + int(micros) / 1e6, self._scorer)
        taken = self._names.taken(self._scorer)
        while self._wire.one("LMOVE", taken, self._names.queries, "LEFT", "RIGHT") is not None:
            self._metrics.returned.inc()

    def _serve(self, stop: threading.Event) -> None:
        prepare: Callable[[], None] | None = None
        while not stop.is_set():
            reads = self._service.reads()
            takes = [self._take, *[self._take_one_more] * self._more]
            got = self._wire.ask([*takes, self._length, *reads], _BLOCK_S, prepare)
            taken = [raw for raw in got[: len(takes)] if isinstance(raw, bytes)]
            self._check(got[: len(takes)])
            self._adapt(len(taken), len(takes))
            self._service.accept(got[len(takes) + 1 :])
            if self._pause_s:  # the ledger's server, too, has answered
                self._pause_s = 0.0
                log.warning("scorer.redis.back")
            waiting = got[len(takes)]
            if isinstance(waiting, int):
                self._metrics.waiting.set(waiting)
                if waiting > self._queue_length_max:
                    self._shed_load(waiting - self._queue_length_max)
            read = [(raw, read_query(raw)) for raw in taken]
            self._service.taken([query for _, query in read if isinstance(query, Query)])
            for raw, query in read[:-1]:
                self._wire.post(self._answer(raw, query))
            if read:
                self._wire.hold(self._answer(*read[-1]))  # goes with the next taking
            self._report()
            prepare = self._service.prepare if len(taken) == 1 and waiting == 0 else None
        self._wire.ask([self._length])  # the answers have arrived when this one has

    def _adapt(self, taken: int, asked: int) -> None:
        """Take twice as many together while the queue has them, half as many when it has not.

        A lone client pays for one; eight clients are drained in one write.
        """
        if taken == asked:
            self._more = min(self._drain_max - 1, self._more * 2 + 1)
        elif taken <= asked // 2:
            self._more //= 2

    def _answer(self, raw: bytes, query: Query | Reply | None) -> list[Command]:
        """Return the commands that answer a query and take it off the scorer's list."""
        reply = self._reply(raw, query)
        commands: list[Command] = []
        if reply is not None:
            key = self._names.reply(reply.id)
            commands += [("LPUSH", key, _encode(reply)), ("EXPIRE", key, REPLY_TTL_S)]
        return [*commands, ("LREM", self._names.taken(self._scorer), 1, raw), *self._service.writes()]

    def _reply(self, raw: bytes, query: Query | Reply | None) -> Reply | None:
        started = time.perf_counter()
        if query is None:
            self._metrics.malformed.inc()
            log.warning("scorer.query.malformed", extra={"values": {"query": repr(raw[:200])}})
            return None
        if isinstance(query, Reply):
            code = query.error.code if query.error else "INTERNAL"
            self._metrics.answered("unknown", code, time.perf_counter() - started)
            return query
        if query.deadline and query.deadline < time.time():
            self._metrics.expired.inc()
            return None
        error: Error | None = None
        try:
            result = self._service.answer(query)
        except CallError as refused:
            error = refused.error
        except InvalidRequest as invalid:
            error = Error(code="INVALID_ARGUMENT", message=str(invalid))
        except AWAY:
            raise
        except Exception as failure:
            log.exception("scorer.query.failed", extra={"values": {"method": query.method, "query": query.id}})
            error = Error(code="INTERNAL", message=f"{type(failure).__name__}: {failure}")
        self._metrics.answered(query.method, error.code if error else "OK", time.perf_counter() - started)
        if error:
            return Reply(id=query.id, ok=False, error=error)
        return Reply(id=query.id, ok=True, result=msgspec.Raw(result))

    def _shed_load(self, count: int) -> None:
        """Refuse the newest queries beyond the limit, at once."""
        commands: list[Command] = []
        taken = self._names.taken(self._scorer)
        for raw in self._wire.ask([self._shed] * min(count, 1000)):
            if not isinstance(raw, bytes):
                continue
            self._metrics.refused.inc()
            query = read_query(raw)
            if query is not None:
                error = Error(code="RESOURCE_EXHAUSTED", message="too many queries are waiting", retryable=True)
                key = self._names.reply(query.id)
                reply = _encode(Reply(id=query.id, ok=False, error=error))
                commands += [("LPUSH", key, reply), ("EXPIRE", key, REPLY_TTL_S)]
            commands.append(("LREM", taken, 1, raw))
        self._wire.post(commands)

    def _check(self, answers: Sequence[Any]) -> None:
        """Fail as if the server were away when it refuses to give queries (wrong ACL, wrong type, no memory)."""
        for answer in answers:
            if isinstance(answer, redis.ResponseError):
                raise redis.ConnectionError(f"{self._names.queries}: {answer}")

    def _report(self) -> None:
        for error in self._wire.refused:
            log.warning("scorer.answer.refused", extra={"values": {"error": str(error)}})
        self._wire.refused.clear()


def _in_words(error: Exception) -> str:
    if isinstance(error, redis.exceptions.MovedError | redis.exceptions.ClusterCrossSlotError):
        return "this is a node of a Redis Cluster, which is not supported: name a single server or a proxy"
    return str(error)


class Heartbeat(threading.Thread):
    """Says every ``heartbeat_s`` that this scorer lives, and returns to the queue what dead scorers had taken."""

    def __init__(
        self, wire: Wire, names: Names, scorer: str, metrics: Metrics, *, heartbeat_s: float, silent_s: float
    ) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._wire = wire
        self._names = names
        self._scorer = scorer
        self._metrics = metrics
        self._heartbeat_s = heartbeat_s
        self._silent_s = silent_s
        self._stop_event = threading.Event()

    def beat(self) -> None:
        """Write one heartbeat and look after the silent.

        A silent scorer's name is kept for an hour: it may only have slept, and take a query before its next heartbeat.
        """
        seconds, micros = self._wire.one("TIME")
        now_s = int(seconds) + int(micros) / 1e6
        names = self._names.scorers
        _, _, silent = self._wire.ask(
            [
                ("ZADD", names, now_s, self._scorer),
                ("ZREMRANGEBYSCORE", names, "-inf", now_s - _REMEMBERED_S),
                ("ZRANGEBYSCORE", names, "-inf", now_s - self._silent_s),
            ]
        )
        if isinstance(silent, list) and silent:
            self._return([name.decode() for name in silent])

    def _return(self, silent: Sequence[str]) -> None:
        """Move what silent scorers had taken back to the queue; several scorers may do so side by side."""
        while silent:
            moved = self._wire.ask(
                [("LMOVE", self._names.taken(name), self._names.queries, "LEFT", "RIGHT") for name in silent]
            )
            silent = [name for name, query in zip(silent, moved, strict=True) if isinstance(query, bytes)]
            for name in silent:
                self._metrics.returned.inc()
                log.warning("scorer.query.returned", extra={"values": {"silent": name}})

    def run(self) -> None:
        """Beat until `stop`."""
        while not self._stop_event.is_set():
            try:
                self.beat()
            except AWAY:
                pass
            except redis.ResponseError as error:
                log.warning("scorer.heartbeat.refused", extra={"values": {"error": str(error)}})
            self._stop_event.wait(self._heartbeat_s)

    def stop(self) -> None:
        """End the thread and take the name off the list."""
        self._stop_event.set()
        self.join(timeout=10)
        try:
            self._wire.one("ZREM", self._names.scorers, self._scorer)
        except (*AWAY, redis.ResponseError):
            pass
        finally:
            self._wire.close()
