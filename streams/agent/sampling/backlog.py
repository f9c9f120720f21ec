"""The records that wait for the broker: bounded, the oldest are dropped. Pure; the publisher holds a lock."""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Record(NamedTuple):
    """One message, encoded."""

    key: bytes
    value: bytes


class Backlog:
    """At most ``limit`` records in the order in which they were added; a further one drops the oldest.

    >>> backlog = Backlog(limit=2)
    >>> backlog.push(Record(b"m", value) for value in (b"1", b"2", b"3"))
    1
    >>> [record.value for record in backlog.take(5)]
    [b'2', b'3']
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._records: deque[Record] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def push(self, records: Iterable[Record]) -> int:
        """Add the newest records; return how many of the oldest were dropped."""
        self._records.extend(records)
        return self._trim()

    def put_back(self, records: Sequence[Record]) -> int:
        """Put undelivered records back to the front, oldest first; return how many were dropped."""
        self._records.extendleft(reversed(records))
        return self._trim()

    def take(self, most: int) -> list[Record]:
        """Remove and return up to ``most`` of the oldest."""
        return [self._records.popleft() for _ in range(min(most, len(self._records)))]

    def _trim(self) -> int:
        surplus = len(self._records) - self.limit
        for _ in range(surplus):
            self._records.popleft()
        return max(surplus, 0)
