"""Long queries under way: each does one step in its turn, and others are answered between two steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from schemas.rpc.envelope import Query, Reply
from scorer.placement.choosing.steps import Steps

LONG_MAX = 32
"""Long queries under way in one scorer: each holds its instances in memory."""
LATER: Final = Reply(id="", ok=True)
"""Stands for the answer to a query that is not answered yet."""


@dataclass(frozen=True, eq=False)
class LongQuery:
    """A query that is not answered yet, and the steps to its answer."""

    raw: bytes
    query: Query
    steps: Steps[bytes]
    started: float
    """When it was taken, on the clock of `time.perf_counter`."""


class LongQueries:
    """The queue of the long queries under way."""

    def __init__(self) -> None:
        self._waiting: deque[LongQuery] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether there is no place for another."""
        return len(self._waiting) >= LONG_MAX

    def add(self, long: LongQuery) -> None:
        """Add a query whose first step is done."""
        self._waiting.append(long)

    def step(self, do: Callable[[LongQuery], Reply | None]) -> tuple[LongQuery, Reply | None] | None:
        """Do one step of the first query. Return it with its answer when it is done (None: its deadline has passed).

        Otherwise return None; the query goes to the end of the queue.
        """
        long = self._waiting.popleft()
        reply = do(long)
        if reply is LATER:
            self._waiting.append(long)
            return None
        return long, reply

    def clear(self) -> None:
        """Drop all of them unanswered."""
        while self._waiting:
            self._waiting.pop().steps.close()
