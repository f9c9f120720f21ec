"""Shell: makes the reply to a query; every failure becomes a reply, too.

A long query does one step in its turn, and others are answered between two steps.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from schemas.rpc.envelope import Error, Query, Reply
from schemas.rpc.request import InvalidRequest
from scorer.metrics import Metrics
from scorer.placement.choosing.steps import Steps
from scorer.rpc.methods.errors import CallError
from scorer.rpc.query import refusal
from scorer.wire import AWAY, Command, refuses_for_now

log = logging.getLogger("windward.scorer")

LONG_MAX = 32
"""Long queries under way in one scorer: each holds its instances in memory."""
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

    def taken(self, queries: Sequence[Query]) -> None:
        """Note the queries that were taken together, before the first of them is answered."""

    def known(self, query: Query) -> bool:
        """Return whether the answer to a query is already there: then it is sent in one write with the one before."""

    def steps(self, query: Query) -> Steps[bytes]:
        """Return the result as JSON, in steps; raise CallError or InvalidRequest."""

    def writes(self) -> Sequence[Command]:
        """Return commands to be sent with the answer; what they return is ignored."""

    def prepare(self) -> None:
        """Prepare for the next query; called while no query waits."""

    def lost(self) -> None:
        """Note that the connection was lost: the server may have restarted with other data than was read."""


@dataclass(frozen=True, eq=False)
class LongQuery:
    """A query that is not answered yet, and the steps to its answer."""

    raw: bytes
    query: Query
    steps: Steps[bytes]
    started: float
    """When it was taken, on the clock of `time.perf_counter`."""


class Replies:
    """Calls the service, and keeps the long queries that are under way."""

    def __init__(self, service: Service, metrics: Metrics, clock: Callable[[], float]) -> None:
        """``clock`` returns the server's time."""
        self._clock = clock
        self._service = service
        self._metrics = metrics
        self._long = deque[LongQuery]()
        """The next one to do a step first."""

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
        """Do one step of the first long query; return it with its answer when it is done.

        Otherwise return None; the query goes to the end of the queue.
        """
        if not self._long:
            return None
        long = self._long.popleft()
        reply = self._next_step(long)
        if reply is LATER:
            self._long.append(long)
            return None
        self._metrics.long.set(len(self._long))
        return long, reply

    def reply(self, raw: bytes, query: Query | Reply | None) -> Reply | None:
        """Return the answer to a query; `LATER` for a long one, None without an id to answer."""
        started = time.perf_counter()
        if query is None:
            self._metrics.malformed.inc()
            log.warning("scorer.query.malformed", extra={"values": {"query": repr(raw[:200])}})
            return None
        if isinstance(query, Query) and query.method not in (known := self._service.methods):
            query = refusal(query.id, "UNIMPLEMENTED", f"method: {query.method!r} is none of {', '.join(known)}")
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
        long = LongQuery(raw, query, self._service.steps(query), started)
        reply = self._step(long)
        if reply is not LATER:
            return reply
        if len(self._long) >= LONG_MAX:
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
