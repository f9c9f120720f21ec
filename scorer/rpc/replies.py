"""Shell: makes the reply to a query; every failure becomes a reply, too.

A long query does one step in its turn, and others are answered between two steps. Its first step only asks for room.

At most `ACTIVE` long queries are worked on in turn, the first of each method before others. Each keeps a fifth of the
time of long queries or more, so one ends after the other, within its deadline: 32 in turn would all end too late. The
last fifth is for the newest of the others that had few steps: a query of a few steps never waits for longer ones.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from schemas.rpc.envelope import Error, Query, Reply
from schemas.rpc.parameters import OPERATORS
from schemas.rpc.request import InvalidRequest
from scorer.metrics import Metrics
from scorer.placement.choosing.steps import Steps
from scorer.rpc.methods.errors import CallError
from scorer.rpc.query import refusal
from scorer.wire import AWAY, Command, refuses_for_now

log = logging.getLogger("windward.scorer")

LONG_MAX = 32
"""Long queries under way in one scorer: each holds its instances in memory."""
OF_A_METHOD_MAX = 24
"""Long queries of one method: the others find room, whatever one caller asks."""
ACTIVE = 4
"""Long queries that are worked on in turn."""
_FEW_STEPS = 8
NOT_HERE = (
    "{} is for operators: push it on the list `queries:operators`, as a Redis user that may "
    "(`operator` of ops/redis), not on `queries`"
)
LATER: Final = Reply(id="", ok=True)
"""Stands for the answer to a query that is not answered yet."""


class Service(Protocol):
    """The object that answers the queries, as the loop calls it."""

    @property
    def methods(self) -> Collection[str]:
        """The methods there are."""

    def reads(self) -> Sequence[Command]:
        """Return commands to be sent after the command that takes a query; their answers go to `accept`."""

    def accept(self, answers: Sequence[Any]) -> None:
        """Take the answers of `reads`, before any of the taken queries is answered."""

    def steps(self, query: Query) -> Steps[bytes]:
        """Return the result as JSON, in steps; raise CallError or InvalidRequest."""

    def writes(self) -> Sequence[Command]:
        """Return commands to be sent with the answer; what they return is ignored."""

    def lost(self) -> None:
        """Note that the connection was lost: the server may have restarted with other data than was read."""


@dataclass(eq=False)
class LongQuery:
    """A query that is not answered yet, and the steps to its answer."""

    raw: bytes
    query: Query
    steps: Steps[bytes]
    started: float
    """When it was taken, on the clock of `time.perf_counter`."""
    of_operators: bool = False
    """Whether it came on the operators' list."""
    turn: int = 0
    """Number of the turn in which it did its last step."""
    steps_done: int = 0


class Replies:
    """Calls the service, and keeps the long queries that are under way."""

    def __init__(self, service: Service, metrics: Metrics, clock: Callable[[], float]) -> None:
        """``clock`` returns the server's time."""
        self._clock = clock
        self._service = service
        self._metrics = metrics
        self._long: list[LongQuery] = []
        """In the order in which they came."""
        self._turn = 0

    @property
    def under_way(self) -> bool:
        """Whether a long query is being answered."""
        return bool(self._long)

    def clear(self) -> None:
        """Drop the long queries unanswered."""
        while self._long:
            self._long.pop().steps.close()
        self._metrics.long.set(0)

    def go_on(self) -> tuple[LongQuery, Reply] | None:
        """Do one step of the long query whose turn it is; return it with its answer when it is done, else None."""
        if not self._long:
            return None
        long = self._whose_turn()
        self._turn += 1
        long.turn, long.steps_done = self._turn, long.steps_done + 1
        reply = self._next_step(long)
        if reply is LATER:
            return None
        self._long.remove(long)
        self._metrics.long.set(len(self._long))
        return long, reply

    def _whose_turn(self) -> LongQuery:
        """Return an overdue query; every fifth time the newest with few steps that is not active; else an active one.

        The active ones are the first of each method, then those that came first.
        """
        now_s = self._clock()
        for long in self._long:
            if 0 < long.query.deadline < now_s:
                return long
        if len(self._long) <= ACTIVE:
            return min(self._long, key=lambda long: long.turn)
        first_of = {long.query.method: long for long in reversed(self._long)}.values()
        active = [*first_of, *(long for long in self._long if long not in first_of)][:ACTIVE]
        if self._turn % (ACTIVE + 1) == 0:
            others = (long for long in reversed(self._long) if long not in active)
            return min(others, key=lambda long: long.steps_done // _FEW_STEPS)
        return min(active, key=lambda long: long.turn)

    def _has_room(self, method: str) -> bool:
        of_method = sum(long.query.method == method for long in self._long)
        return len(self._long) < LONG_MAX and of_method < OF_A_METHOD_MAX

    def reply(self, raw: bytes, query: Query | Reply | None, *, of_operators: bool = False) -> Reply | None:
        """Return the answer to a query; `LATER` for a long one, None without an id to answer.

        ``of_operators``: it came on the operators' list. A query says nothing of its caller, the list does.
        """
        started = time.perf_counter()
        if query is None:
            self._metrics.malformed.inc()
            log.warning("scorer.query.malformed", extra={"values": {"query": repr(raw[:200])}})
            return None
        if isinstance(query, Query) and query.method not in (known := self._service.methods):
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
        long = LongQuery(raw, query, self._service.steps(query), started, of_operators)
        reply = self._step(long)
        if reply is not LATER:
            return reply
        if not self._has_room(query.method):
            long.steps.close()
            self._metrics.answered(query.method, "RESOURCE_EXHAUSTED", time.perf_counter() - started)
            message = f"{len(self._long)} long queries are being answered"
            return refusal(query.id, "RESOURCE_EXHAUSTED", message, retryable=True)
        self._long.append(long)
        self._metrics.long.set(len(self._long))
        return LATER

    def _step(self, long: LongQuery) -> Reply:
        """Do one step of a query; return its answer, or `LATER`."""
        query, error, result = long.query, None, b""
        try:
            next(long.steps)
        except StopIteration as done:
            result = done.value
        except CallError as refused:
            error = refused.error
        except InvalidRequest as invalid:
            error = Error(code="INVALID_ARGUMENT", message=str(invalid))
        except AWAY:
            raise
        except Exception as failure:
            if refuses_for_now(failure):
                error = Error(code="UNAVAILABLE", message=f"the ledger's server refuses: {failure}", retryable=True)
            else:
                log.exception("scorer.query.failed", extra={"values": {"method": query.method, "query": query.id}})
                error = Error(code="INTERNAL", message=f"{type(failure).__name__}: {failure}")
        else:
            return LATER
        self._metrics.answered(query.method, error.code if error else "OK", time.perf_counter() - long.started)
        if error:
            return refusal(query.id, error.code, error.message, retryable=error.retryable)
        return Reply(id=query.id, ok=True, result=msgspec.Raw(result))

    def _next_step(self, long: LongQuery) -> Reply:
        """Do one more step of a long query. One that only reads ends at its deadline.

        ``place`` checks its deadline itself, and reports how many instances it had reserved by then.
        """
        query = long.query
        if query.method == "place" or not query.deadline or query.deadline >= self._clock():
            return self._step(long)
        long.steps.close()
        self._metrics.answered(query.method, "DEADLINE_EXCEEDED", time.perf_counter() - long.started)
        return self._overdue(query, "the deadline passed while the answer was being made")

    def _overdue(self, query: Query, message: str) -> Reply:
        self._metrics.expired.inc()
        return refusal(query.id, "DEADLINE_EXCEEDED", message, retryable=True)
