"""Long queries under way: each does one step in its turn, and others are answered between two steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from schemas.rpc import Query, Reply
from scorer.placement.steps import Steps

LONG_MAX = 32
"""Long queries under way in one scorer: each holds its instances in memory."""
LATER: Final = Reply(id="", ok=True)
"""In place of an answer: there is none yet."""


@dataclass(frozen=True, eq=False)
class LongQuery:
    """A query that is not answered yet, and the steps to its answer."""

    raw: bytes
    query: Query
    steps: Steps[bytes]
    started: float
    """When it was taken, on the clock of `time.perf_counter`."""


class LongQueries:
    """The queue of those under way."""

    def __init__(self) -> None:
        self._waiting: deque[LongQuery] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        """Whether there is no place for another."""
        return len(self._waiting) >= LONG_MAX

    def add(self, long: LongQuery) -> None:
        """Take in a query that has done its first step."""
        self._waiting.append(long)

    def step(self, do: Callable[[LongQuery], Reply | None]) -> tuple[LongQuery, Reply | None] | None:
        """Do one step of the first; return it with its answer (None: nobody waits for one), or None when it goes on.

        Then it goes to the end.
        """
        long = self._waiting.popleft()
        reply = do(long)
        if reply is LATER:
            self._waiting.append(long)
            return None
        return long, reply

    def clear(self) -> None:
        """Give up all of them."""
        while self._waiting:
            self._waiting.pop().steps.close()
