"""The partitions of a worker: the assigned ones, and those of them whose state is loaded from Redis. Shell.

A partition stays in memory when it is revoked: if it comes back before another worker wrote it, nothing is loaded.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from redis.exceptions import RedisError

from streams.fold.table import Table
from streams.state.partition import Partition
from streams.worker.metrics import Metrics
from streams.worker.redis_health import RedisHealth
from streams.worker.store import Store

log = logging.getLogger("windward.stream")


@dataclass(eq=False)
class Holdings:
    """The partitions that one worker holds.

    ``make_table`` returns an empty window table; ``seek`` sets the consumer of a partition to the end of its state.
    """

    store: Store
    make_table: Callable[[], Table]
    seek: Callable[[Partition], Awaitable[None]]
    health: RedisHealth
    metrics: Metrics
    owned: set[int] = field(default_factory=set)
    """Numbers of the partitions assigned to this worker."""
    loaded: dict[int, Partition] = field(default_factory=dict)
    """The partitions in memory, by number; some may be another worker's by now."""
    _loading: dict[int, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @property
    def held(self) -> list[Partition]:
        return [self.loaded[number] for number in self.owned if number in self.loaded]

    @property
    def complete(self) -> bool:
        return self.owned <= self.loaded.keys()

    def assign(self, numbers: Iterable[int]) -> None:
        self.owned = set(numbers)
        self.health.keep(self.owned)
        self.metrics.rebalances.inc()
        self.metrics.partitions.set(len(self.owned))
        log.info("stream.assigned", extra={"values": {"partitions": sorted(self.owned)}})

    async def get(self, number: int, topic_id: str) -> Partition | None:
        """Return an assigned partition, loaded from Redis unless it is in memory; None when it cannot be loaded yet.

        State from another topic is kept, and the topic of this id is read from its start.
        """
        if number in self.owned and number not in self.loaded:
            async with self._loading[number]:
                if number not in self.loaded and topic_id:
                    await self._load(number, topic_id)
        return self.loaded.get(number) if number in self.owned else None

    async def _load(self, number: int, topic_id: str) -> None:
        started = time.perf_counter()
        try:
            partition = await self.store.load(number, self.make_table)
        except RedisError as error:
            self.health.failed("load", error, number)
            return
        self.health.answered(number)
        for kind, count in partition.lost.items():
            self.metrics.damaged.labels(kind).inc(count)
        if partition.topic_id != topic_id:
            if partition.topic_id:
                log.warning(
                    "stream.topic.changed", extra={"values": {"partition": number, "stored": partition.position}}
                )
            partition.read_anew(topic_id)
        self.loaded[number] = partition
        self.metrics.load_s.observe(time.perf_counter() - started)
        log.info(
            "stream.loaded",
            extra={"values": {"partition": number, "machines": len(partition.ring), "offset": partition.next_offset}},
        )
        await self.seek(partition)

    def let_go(self, partition: Partition) -> None:
        """Drop a partition that another worker wrote; if it is still assigned it is loaded again."""
        self.loaded.pop(partition.number, None)
