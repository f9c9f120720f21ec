"""The state of partitions in Redis. Shell: talks to Redis, decides nothing but who is ahead.

A partition is written in one transaction that fails when somebody else has written since: what is stored is compared
with what this worker last saw there (WATCH), so a worker that lost the partition while it was paused cannot set the
state back. Redis that comes back empty, or from an older dump, is found by the same comparison and written whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from redis.exceptions import WatchError

from schemas.names import SILENT_S, Names
from streams.checkpoint import decode_ring, encode_hour, encode_position, encode_vitals
from streams.partition import Partition, Position
from streams.ring import HOURS, NO_SLOT, S
from streams.table import Table

log = logging.getLogger("windward.store")

TTL_S = SILENT_S + 3600
"""A partition nobody writes for a day and an hour leaves Redis by itself."""

PEAKS_TTL_S = (HOURS + 2) * 3600
"""A final hour is never written again, and is needed until the hour that takes its place begins."""

LOAD_POSITIONS = 40
"""Positions read at once: what one reply holds is bounded."""


class StateAheadError(Exception):
    """Redis holds a newer state than this worker: another one owns the partition."""


class Store:
    """Reads and writes partitions. ``redis`` is a ``redis.asyncio.Redis``, whose stubs mix sync and async."""

    def __init__(self, redis: Any, names: Names) -> None:
        self._redis = redis
        self._names = names

    async def load(self, number: int, make_table: Callable[[], Table]) -> Partition:
        """Return the partition as Redis has it; empty, from offset 0, where it has nothing."""
        names = self._names
        while True:
            before = await self._stored(number)
            partition = Partition(number, make_table())
            if before is None:
                return partition
            vitals = await self._redis.get(names.vitals(number))
            positions: dict[int, bytes] = {}
            for start in range(0, S, LOAD_POSITIONS):
                chunk = range(start, min(start + LOAD_POSITIONS, S))
                values = await self._redis.mget([names.slots(number, position) for position in chunk])
                positions |= {p: v for p, v in zip(chunk, values, strict=True) if v is not None}
            values = await self._redis.mget([names.peaks(number, place) for place in range(HOURS)])
            hours = {place: value for place, value in enumerate(values) if value is not None}
            facts = await self._redis.hgetall(names.facts(number))
            version = await self._redis.hget(names.state(number), "facts")
            if await self._stored(number) == before:
                break
            await asyncio.sleep(0.05)  # somebody is still writing: read again
        if vitals is not None:
            partition.ring = decode_ring(vitals, positions, hours)
        partition.facts = {machine.decode(): value for machine, value in facts.items()}
        partition.facts_version = int(version or 0)
        partition.topic_id, partition.next_offset = before
        partition.forget_written()
        partition.refresh_table()
        partition.positions[:] = False
        partition.hours.clear()
        partition.changed_facts.clear()
        partition.all_facts = False
        partition.changed = False
        partition.written = before
        return partition

    async def is_current(self, partition: Partition) -> bool:
        """Whether Redis still holds what this worker last saw there."""
        return await self._stored(partition.number) == partition.written

    async def save(self, partition: Partition, now_s: float) -> None:
        """Write what changed, or everything where Redis has lost it.

        Raises StateAheadError when Redis holds a newer state, and redis.RedisError when it cannot be reached; after
        that the next call writes everything.
        """
        names, number = self._names, partition.number
        async with self._redis.pipeline(transaction=True) as pipe:
            try:
                await pipe.watch(names.state(number))
                stored = _position(await pipe.hmget(names.state(number), "topic_id", "offset"))
                if stored != partition.written:
                    self._check_not_ahead(partition, stored)
                    log.warning(
                        "store.rewrite",
                        extra={"values": {"partition": number, "stored": stored, "written": partition.written}},
                    )
                    partition.forget_written()
                partition.refresh_table()
                position = partition.position
                pipe.multi()
                self._queue_writes(pipe, partition, now_s)
                partition.positions[:] = False
                partition.hours.clear()
                partition.changed_facts, partition.gone_facts, partition.all_facts = set(), set(), False
                partition.changed = False
                await pipe.execute()
                partition.written = position
            except WatchError:
                partition.forget_written()
                raise StateAheadError(f"partition {number} was written by somebody else") from None
            except BaseException:
                partition.forget_written()
                raise

    def _check_not_ahead(self, partition: Partition, stored: Position | None) -> None:
        if stored is None:
            return
        known = {partition.topic_id, (partition.written or stored).topic_id}
        if stored.topic_id not in known or (
            stored.topic_id == partition.topic_id and stored.offset > partition.position.offset
        ):
            raise StateAheadError(
                f"partition {partition.number}: Redis holds {stored}, this worker {partition.position}"
            )

    def _queue_writes(self, pipe: Any, partition: Partition, now_s: float) -> None:
        names, number, ring = self._names, partition.number, partition.ring
        held = int((ring.head[: len(ring)] > NO_SLOT).sum())
        for position in partition.positions.nonzero()[0].tolist():
            pipe.set(names.slots(number, position), encode_position(ring, position), ex=TTL_S)
        for place in sorted(partition.hours):
            pipe.set(names.peaks(number, place), encode_hour(ring, place), ex=PEAKS_TTL_S)
        if partition.all_facts:
            pipe.delete(names.facts(number))
        elif partition.gone_facts:
            pipe.hdel(names.facts(number), *partition.gone_facts)
        if partition.changed_facts:
            pipe.hset(names.facts(number), mapping={m: partition.facts[m] for m in partition.changed_facts})
        if partition.facts:
            pipe.expire(names.facts(number), TTL_S)
        pipe.set(names.vitals(number), encode_vitals(ring), ex=TTL_S)
        header = {
            "partition": number,
            "offset": partition.position.offset,
            "topic_id": partition.topic_id,
            "facts": partition.facts_version,
            "written_at": now_s,
        }
        if held:
            pipe.set(names.windows(number), partition.table.encode(ring, header), ex=TTL_S)
        else:
            pipe.delete(names.windows(number))
        state = {
            "topic_id": partition.topic_id,
            "offset": partition.position.offset,
            "facts": partition.facts_version,
            "written_at": now_s,
        }
        pipe.hset(names.state(number), mapping=state)
        pipe.expire(names.state(number), TTL_S)

    async def _stored(self, number: int) -> Position | None:
        return _position(await self._redis.hmget(self._names.state(number), "topic_id", "offset"))


def _position(fields: list[bytes | None]) -> Position | None:
    topic_id, offset = fields
    return None if offset is None else Position((topic_id or b"").decode(), int(offset))
