"""The reading place of each partition: keeps Faust's consumer at the end of the state in Redis. Shell.

Faust's own offsets are not used: a committed offset is not the state's. In three cases the consumer is not at the
state's end, and each is repaired by a seek to it:

    a hole    a message beyond the next one arrives: fetched before a seek, or the log itself lacks the offsets
    a rerun   messages far below the next one arrive: thousands of known ones are skipped rather than read
    a stall   the log goes on and nothing arrives: a rebalance has put the consumer beyond the state's end

The offsets of written state are committed all the same, for tools that show lag.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

from aiokafka.errors import IllegalStateError
from faust.types import TP

from streams.state.partition import Partition, Written
from streams.worker.metrics import Metrics

log = logging.getLogger("windward.stream")

RESEEK_S = 0.5
"""Shortest time between two seeks of one partition: messages fetched before the seek arrive first."""

HOLE_SEEKS = 4
"""A hole that is still there after so many seeks is in the log itself (retention, transaction markers)."""

STALLED_S = 5.0
"""A partition with messages ahead of which none arrives for so long may be read from elsewhere."""

SKIP_MESSAGES = 5_000
"""More known messages ahead than this are skipped by a seek rather than read."""

POSITION_WAIT_S = 0.5
"""Longest wait for the consumer to say what it reads next."""


class ReadingPlace:
    """Keeps the consumer of a Faust app at the end of each partition's state.

    ``app`` is the Faust app; its consumer is looked up at each call, because Faust makes it when it starts.
    """

    def __init__(self, app: Any, topic: str, metrics: Metrics) -> None:
        self._app = app
        self._topic = topic
        self._metrics = metrics
        self._seeks: dict[int, tuple[int, int, float]] = {}
        """By partition: the offset read in place of the next one, how often in a row, and the time of the last seek."""
        self._still: dict[int, tuple[int, float]] = {}
        """By partition: the next offset, and since when it has not changed."""
        self._committed: dict[TP, int] = {}

    def reassigned(self) -> None:
        """Reset the record of holes and stalls: a rebalance has moved the consumer."""
        self._seeks.clear()
        self._still.clear()

    def end(self, partition: Partition) -> int:
        """Return the offset at which the log ends, by the last fetch; 0: unknown."""
        return self._app.consumer.highwater(TP(self._topic, partition.number)) or 0

    def behind(self, partition: Partition) -> int:
        """Return the number of messages of the log that are not taken yet, by the last fetch."""
        return max(0, self.end(partition) - partition.next_offset)

    async def seek(self, partition: Partition) -> None:
        """Set the consumer of a partition to the end of its state.

        Faust's ``seek`` is not used: it runs in this thread and removes records while aiokafka's own thread reads them,
        which ends the worker with a KeyError. ``seek_wait`` runs in aiokafka's thread.
        """
        tp = TP(self._topic, partition.number)
        if tp in self._app.consumer.assignment():
            self._metrics.seeks.inc()
            try:
                await self._app.consumer.seek_wait({tp: partition.next_offset})
            except IllegalStateError:
                log.info("stream.seek.late", extra={"values": {"partition": partition.number}})  # revoked meanwhile

    async def check(self, partition: Partition, taken: int, last: int, beyond: int | None) -> None:
        """Seek back when messages arrived from another position.

        ``taken``: how many of the messages were the next ones; ``last``: the offset of the last of all; ``beyond``:
        the offset of the first beyond a hole, None without one.
        """
        if taken:
            self._seeks.pop(partition.number, None)
        if beyond is not None:
            await self._mend_hole(partition, beyond)
        elif partition.next_offset - last > SKIP_MESSAGES:
            await self._reseek(partition, last)

    async def _mend_hole(self, partition: Partition, beyond: int) -> None:
        """Fetch again from the end of the state; a hole that remains is in the log itself and is skipped."""
        if await self._reseek(partition, beyond) >= HOLE_SEEKS:
            log.warning(
                "stream.hole",
                extra={"values": {"partition": partition.number, "from": partition.next_offset, "to": beyond}},
            )
            partition.next_offset = beyond
            await self.seek(partition)
            self._seeks.pop(partition.number, None)

    async def _reseek(self, partition: Partition, met: int) -> int:
        """Seek to the state's offset, with a limited rate; return how often in a row another one was read instead."""
        seen, count, last = self._seeks.get(partition.number, (met, 0, 0.0))
        if time.monotonic() - last < RESEEK_S:
            return 0
        count = count + 1 if seen == met else 1
        self._seeks[partition.number] = (met, count, time.monotonic())
        if count < HOLE_SEEKS:
            await self.seek(partition)
        return count

    async def mend_stall(self, partition: Partition) -> None:
        """Seek again when the log has more, the consumer is beyond the state, and nothing arrives.

        A rebalance sets the consumer to the group's offset. After the topic was created again that can be its end,
        where no message arrives that shows the hole.
        """
        now = time.monotonic()
        offset, since = self._still.get(partition.number, (-1, now))
        if offset != partition.next_offset or self.end(partition) <= offset:
            self._still[partition.number] = partition.next_offset, now
        elif now - since > STALLED_S:
            self._still.pop(partition.number)
            if await self._reading_at(partition) > offset == partition.next_offset:
                log.warning("stream.stalled", extra={"values": {"partition": partition.number, "offset": offset}})
                await self.seek(partition)

    async def _reading_at(self, partition: Partition) -> int:
        """Return the offset the consumer reads next (-1: not known now)."""
        tp = TP(self._topic, partition.number)
        if tp not in self._app.consumer.assignment():
            return -1
        try:
            return await asyncio.wait_for(self._app.consumer.position(tp), POSITION_WAIT_S) or -1
        except (IllegalStateError, TimeoutError):
            return -1

    async def commit(self, written: Mapping[int, Written | None], topic_id: str) -> None:
        """Commit the offsets of written state, except those of an earlier topic with the same name."""
        offsets = {
            TP(self._topic, number): position.offset
            for number, position in written.items()
            if position and position.topic_id == topic_id
        }
        fresh = {tp: offset for tp, offset in offsets.items() if offset and self._committed.get(tp) != offset}
        # The consumer's public commit() knows only acknowledged messages.
        if fresh and await self._app.consumer._commit(fresh):
            self._committed.update(fresh)
