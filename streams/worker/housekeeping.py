"""The tasks of a worker besides the stream: loads partitions, ends rebuilds, restores state that Redis lost.

It also drops machines that are silent, forgotten, or too many. Shell.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from redis.exceptions import RedisError

from streams.state.partition import Partition, drop_silent, forget, make_room
from streams.worker.holdings import Holdings
from streams.worker.metrics import Metrics
from streams.worker.reading_place import ReadingPlace
from streams.worker.redis_health import RedisHealth
from streams.worker.store import Store
from streams.worker.topic_watch import TopicWatch

log = logging.getLogger("windward.stream")

SWEEP_S = 60.0
"""Time between two searches for machines that have been silent too long."""

MEND_S = 15.0
"""Time between two searches for stored values that Redis lost."""

FORGET_S = 2.0
"""Time between two reads of the machines to forget."""

COMMIT_S = 3.0
TICK_S = 0.5


@dataclass(eq=False)
class Housekeeping:
    """The task beside the stream; it ends when ``stopping()`` is true."""

    store: Store
    holdings: Holdings
    reading: ReadingPlace
    topic: TopicWatch
    health: RedisHealth
    metrics: Metrics
    silent_s: float
    stopping: Callable[[], bool]

    async def run(self) -> None:
        """Run the due tasks every half second until the worker stops."""
        last_commit = last_sweep = last_look = last_forget = time.monotonic()
        while not self.stopping():
            await asyncio.sleep(TICK_S)
            for number in sorted(self.holdings.owned):
                partition = await self.holdings.get(number, self.topic.topic_id)
                if partition is None:
                    continue
                await self.reading.mend_stall(partition)
                self._end_rebuild(partition)
                if not partition.unwritten:
                    await self._check_stored(partition)
            if time.monotonic() - last_commit > COMMIT_S:
                last_commit = time.monotonic()
                await self.reading.commit({one.number: one.written for one in self.holdings.held}, self.topic.topic_id)
            if time.monotonic() - last_forget > FORGET_S:
                last_forget = time.monotonic()
                await self._forget()
            if time.monotonic() - last_look > MEND_S:
                last_look = time.monotonic()
                await self._mend_lost()
                self._make_room()
            if time.monotonic() - last_sweep > min(SWEEP_S, self.silent_s / 4):
                last_sweep = time.monotonic()
                for partition in self.holdings.loaded.values():
                    self.metrics.dropped.inc(drop_silent(partition, time.time(), self.silent_s))

    def _end_rebuild(self, partition: Partition) -> None:
        """End the rebuild of a partition whose log was read again up to its former offset, or to its end."""
        self.metrics.rebuilding.set(sum(one.rebuilt_at is not None for one in self.holdings.held))
        if partition.rebuilt_at is None or partition.pending:
            return
        at_end = self.reading.end(partition) and not self.reading.behind(partition)
        if partition.next_offset >= partition.rebuilt_at or at_end:
            uncovered = partition.end_rebuild()
            self.metrics.uncovered.inc(uncovered)
            log.warning(
                "stream.rebuilt", extra={"values": {"partition": partition.number, "slots_uncovered": uncovered}}
            )

    def _make_room(self) -> None:
        for partition in self.holdings.held:
            if gone := make_room(partition):
                self.metrics.evicted.inc(gone)
                log.error("stream.full", extra={"values": {"partition": partition.number, "machines_dropped": gone}})

    async def _forget(self) -> None:
        """Drop the data of forgotten machines up to the time at which an operator forgot them."""
        try:
            forgotten = await self.store.forgotten()
        except RedisError as error:
            self.health.failed("check", error)
            return
        self.health.answered()
        for partition in self.holdings.held if forgotten else ():
            if gone := forget(partition, forgotten):
                self.metrics.dropped.inc(len(gone))
                log.info("stream.forgotten", extra={"values": {"partition": partition.number, "machines": gone}})

    async def _mend_lost(self) -> None:
        """Write values again that Redis has lost."""
        for partition in self.holdings.held:
            try:
                lost = await self.store.mend_lost(partition)
            except RedisError as error:
                self.health.failed("check", error, partition.number)
                continue
            if lost:
                log.error("stream.state.lost", extra={"values": {"partition": partition.number, "values": lost}})
                self.metrics.rewritten.inc(lost)

    async def _check_stored(self, partition: Partition) -> None:
        """Write or load the state again where an idle partition differs from Redis."""
        try:
            current = await self.store.is_current(partition)
            self.health.answered(partition.number)
        except RedisError as error:
            self.health.failed("check", error, partition.number)
            return
        if not current and partition.next_offset:
            partition.changed = True
