"""The queue of instances that ask for a machine: new ones, refused ones, evicted ones.

In a minute prod and mid ask before batch and free, the earlier before the later. An instance of batch or free is
refused without a ranking when one of the same class and kind that asks for no more was refused in the same minute.
Nothing has ended since, so it cannot fit either. Otherwise a long queue of batch would cost a ranking for each of its
instances. Where instances have labels, rules or an expected use of their own, each is ranked.
"""

from __future__ import annotations

import heapq

from ops.replay.workload import Workload
from schemas.rpc.request import Request


class Queue:
    """A heap of (minute, instance), and the requests refused in the current minute."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._waiting = [(max(int(start), 0), number) for number, start in enumerate(workload.start)]
        heapq.heapify(self._waiting)
        self._lower = workload.lower
        self._plain = not (workload.requests or workload.labels or workload.expected.shape[1])
        self._requests: dict[int, Request] = {}
        self._refused: dict[tuple[str, str], list[tuple[float, ...]]] = {}

    @property
    def minute(self) -> int:
        """The minute in which the next instance asks; the workload's end when the queue is empty."""
        return self._waiting[0][0] if self._waiting else self._workload.minutes

    def take(self) -> list[int]:
        """Remove and return the instances that ask in the next minute, in their order."""
        minute, asking = self.minute, []
        while self._waiting and self._waiting[0][0] == minute:
            asking.append(heapq.heappop(self._waiting)[1])
        self._refused.clear()
        return sorted(asking, key=lambda instance: bool(self._lower[instance]))  # stable: the earlier first

    def ask_again(self, instance: int, minute: int) -> None:
        """Add an instance that asks in a later minute."""
        heapq.heappush(self._waiting, (minute, instance))

    def request(self, instance: int) -> Request:
        """Return the request of an instance that waits."""
        if instance not in self._requests:
            self._requests[instance] = self._workload.request(instance)
        return self._requests[instance]

    def placed(self, instance: int) -> None:
        """Drop the request of an instance that was placed."""
        self._requests.pop(instance, None)

    def refused(self, instance: int) -> None:
        """Note that an instance could not be placed in this minute."""
        if self._lower[instance] and self._plain:
            kind, amounts = self._asks(instance)
            others = self._refused.setdefault(kind, [])
            others[:] = [one for one in others if not _covers(one, amounts)] + [amounts]

    def cannot_fit(self, instance: int) -> bool:
        """Return whether an instance asks for at least as much as one refused in this minute, so needs no ranking."""
        if not (self._refused and self._lower[instance]):
            return False
        kind, amounts = self._asks(instance)
        return any(_covers(amounts, one) for one in self._refused.get(kind, ()))

    def _asks(self, instance: int) -> tuple[tuple[str, str], tuple[float, ...]]:
        request = self.request(instance)
        return (request.priority_class, request.kind), request.amounts()


def _covers(larger: tuple[float, ...], smaller: tuple[float, ...]) -> bool:
    return all(mine >= other for mine, other in zip(larger, smaller, strict=True))
