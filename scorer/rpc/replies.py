"""Shell: makes the reply to a query; every failure becomes a reply, too.

Batches of placements run in steps, and other queries are answered between two steps. The first step only checks for
room. At most `ACTIVE` batches run in turn, the oldest. Each has a fifth of the time of batches, so they end one after
the other, within their deadlines: 32 in turn would all end too late. The last fifth is for the newest of the others
with few steps: a small batch never waits for larger ones.
"""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
from redis.exceptions import NoPermissionError

from schemas.rpc.envelope import VERSION, Code, Error, Query, Reply
from schemas.rpc.parameters import OPERATORS
from schemas.rpc.request import InvalidRequest
from schemas.values.errors import field_error, shortened
from schemas.values.read_json import reader
from scorer.metrics import AnsweringMetrics
from scorer.placement.choosing.steps import Steps
from scorer.rpc.methods.parameters import CallError, ForPlanners
from scorer.wire import AWAY, refuses_for_now

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


log = logging.getLogger("windward.scorer")

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
            return self._overdue(
                query,
                f"taken {late_s:.1f} s after the deadline by the server's clock: it waited so long, or the caller's "
                "clock is behind",
            )
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

    def _overdue(self, query: Query, message: str) -> Reply:
        self._metrics.expired.inc()
        return refusal(query.id, "DEADLINE_EXCEEDED", message, retryable=True)
