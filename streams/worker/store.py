"""The store of partitions in Redis. Shell: reads and writes, and refuses to overwrite a newer state.

A partition is written in one transaction that fails when another worker has written since. The stored position is
compared with the one that this worker last read or wrote (WATCH). So a worker that lost the partition while it was
suspended cannot overwrite newer state, nor write changes to another worker's base. A Redis that is empty after a
restart, or has an older dump, is detected by the same comparison, and everything is written. Each write returns whether
the windows exist, so that a base that Redis lost is written by the next one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from redis.exceptions import RedisError, ResponseError, WatchError

from schemas.names import Names
from schemas.process.version import product_version
from streams.fold.admission import OFFLINE, Admission
from streams.fold.ring import HOURS, S
from streams.fold.table import Table
from streams.state.partition import Partition, Written
from streams.state.resume import Stored
from streams.state.stored_state import POSITION_FIELDS, STATE_FIELDS, held, partition_of, queue_writes, written_of
from streams.worker.servers import Servers, Work

log = logging.getLogger("windward.store")
_Done = TypeVar("_Done")

WINDOW_VALUES = 2
"""A partition's windows are a base and its changes."""

LOAD_POSITIONS = 40
"""Positions read in one command, which bounds the size of a reply."""


class StateAheadError(Exception):
    """Redis holds a newer state than this worker: another one owns the partition."""


class Store:
    """Reads and writes partitions. ``redis`` is a ``redis.asyncio.Redis``, whose stubs mix sync and async."""

    def __init__(
        self,
        redis: Any,
        names: Names,
        admission: Admission = OFFLINE,
        instances_flush_s: float = 0.0,
        windows: Servers | None = None,
    ) -> None:
        """``windows``: the servers of the partitions, if they are not on ``redis``."""
        self._redis = redis
        self._windows = windows or Servers(redis)
        self._instances_flush_s = instances_flush_s
        self._admission = admission
        self._names = names
        self._version = product_version()

    async def load(self, number: int, make_table: Callable[[], Table]) -> Partition:
        """Return the partition stored in Redis; an empty one, from offset 0, when there is none.

        Lost or changed values stay empty; if there are any, ``rebuilt_at`` is set: the partition must be read from the
        start of its log.
        """
        try:
            return await self._at(number, lambda redis: self._load(redis, number, make_table))
        except ResponseError as error:
            if not await self._drop_foreign(number, error):
                raise
        partition = await self._at(number, lambda redis: self._load(redis, number, make_table))
        partition.lost["state"] += 1
        return partition

    async def _at(self, number: int, work: Work[_Done]) -> _Done:
        """Run ``work`` on the server of a partition and return its result."""
        return await self._windows.at(self._names.state(number), work)

    async def _load(self, redis: Any, number: int, make_table: Callable[[], Table]) -> Partition:
        names = self._names
        partition = Partition(number, make_table(), admission=self._admission)
        while True:
            before = await redis.hmget(names.state(number), *STATE_FIELDS)
            if not any(value is not None for value in before):
                return partition
            stored = await self._read(redis, number)
            if await redis.hmget(names.state(number), *STATE_FIELDS) == before:
                break
            await asyncio.sleep(0.05)  # another worker is still writing: read again
        return partition_of(partition, before, stored)

    async def _read(self, redis: Any, number: int) -> Stored:
        names = self._names
        vitals, usage = await redis.mget([names.vitals(number), names.instance_usage(number)])
        positions: dict[int, bytes | None] = {}
        for start in range(0, S, LOAD_POSITIONS):
            chunk = range(start, min(start + LOAD_POSITIONS, S))
            values = await redis.mget([names.slots(number, position) for position in chunk])
            positions |= dict(zip(chunk, values, strict=True))
        hours = await redis.mget([names.peaks(number, place) for place in range(HOURS)])
        facts = await redis.hgetall(names.facts(number))
        return Stored(vitals, positions, dict(enumerate(hours)), facts, usage)

    async def _drop_foreign(self, number: int, error: ResponseError) -> bool:
        """Delete a key of this partition that has the wrong type, after a command failed on it.

        Return whether that was the error.
        """
        if not str(error).startswith("WRONGTYPE"):
            return False

        async def drop(redis: Any) -> None:
            for key in (self._names.state(number), self._names.facts(number)):
                if await redis.type(key) not in (b"hash", b"none"):
                    log.error("store.foreign", extra={"values": {"key": key}})
                    await redis.delete(key)

        await self._at(number, drop)
        return True

    async def mend_lost(self, partition: Partition) -> int:
        """Mark values that Redis has lost, to be written again; return their number.

        So an evicted or deleted value is restored while a worker has it in memory.
        """
        names, number, manifest = self._names, partition.number, partition.manifest
        positions = np.flatnonzero(manifest.positions).tolist()
        hours = np.flatnonzero(manifest.hours).tolist()
        keys = [names.slots(number, p) for p in positions] + [names.peaks(number, h) for h in hours]
        keys += [names.vitals(number)] * bool(manifest.vitals) + [names.facts(number)] * bool(manifest.facts_count)
        keys += [names.windows(number), names.window_changes(number)] * bool(held(partition))
        keys += [names.instance_usage(number)] * bool(partition.usage_sum)
        gone = await self._at(number, lambda redis: _missing(redis, keys)) if manifest.vitals else set()
        for position in positions:
            partition.positions[position] |= names.slots(number, position) in gone
        partition.hours |= {hour for hour in hours if names.peaks(number, hour) in gone}
        if names.facts(number) in gone:
            partition.all_facts, partition.changed_facts = True, set(partition.facts)
        if names.instance_usage(number) in gone:
            partition.usage.changed = partition.usage_due = True
        if gone:
            partition.changed, partition.base = True, None
        return len(gone)

    async def forgotten(self) -> dict[str, float]:
        """Return the forgotten machines, each with the time at which an operator forgot it, epoch s."""
        stored = await self._redis.hgetall(self._names.forgotten)
        return {
            machine.decode(errors="replace"): moment
            for machine, raw in stored.items()
            if (moment := _moment(raw)) is not None
        }

    async def is_current(self, partition: Partition) -> bool:
        """Return whether Redis still has the position that this worker last read or wrote."""
        number, key = partition.number, self._names.state(partition.number)
        try:
            stored = await self._at(number, lambda redis: redis.hmget(key, *POSITION_FIELDS))
        except ResponseError as error:
            await self._drop_foreign(number, error)
            raise
        return written_of(stored) == partition.written

    async def save(self, partition: Partition, now_s: float) -> int:
        """Write the changes, or everything if Redis has lost it; return the number of lost values of the windows.

        Raises StateAheadError when Redis holds a newer state, and redis.RedisError when it cannot be reached; after
        that the next call writes everything.
        """
        return await self._at(partition.number, lambda redis: self._save(redis, partition, now_s))

    async def _save(self, redis: Any, partition: Partition, now_s: float) -> int:
        names, number = self._names, partition.number
        async with redis.pipeline(transaction=True) as pipe:
            try:
                await pipe.watch(names.state(number))
                stored = written_of(await pipe.hmget(names.state(number), *POSITION_FIELDS))
                if stored != partition.written:
                    self._check_not_ahead(partition, stored)
                    log.warning(
                        "store.rewrite",
                        extra={"values": {"partition": number, "stored": stored, "written": partition.written}},
                    )
                    partition.forget_written()
                if not partition.refreshed:
                    partition.refresh_table(now_s)
                position = partition.position
                if abs(now_s - partition.usage_written_at) >= self._instances_flush_s:
                    partition.usage_due = True
                pipe.multi()
                base = queue_writes(pipe, names, partition, now_s, self._version)
                if base.number == partition.write_number:
                    partition.positions[:] = False
                    partition.hours.clear()
                partition.changed_facts, partition.gone_facts, partition.all_facts = set(), set(), False
                partition.changed = False
                *_, there = await pipe.execute()
                partition.written = Written(*position, partition.write_number)
                partition.base = base
                lost = WINDOW_VALUES * bool(held(partition)) - there
                if lost:
                    log.error("store.base.lost", extra={"values": {"partition": number}})
                    partition.changed, partition.base = True, None
                return int(lost)
            except WatchError as error:
                partition.forget_written()
                if isinstance(error.__context__, RedisError):  # redis-py says so too where the connection was lost
                    raise error.__context__ from None
                raise StateAheadError(f"partition {number} was written by another worker") from None
            except ResponseError as error:
                partition.forget_written()
                await self._drop_foreign(number, error)
                raise
            except BaseException:
                partition.forget_written()
                raise

    async def announce(self, partitions: Iterable[int]) -> None:
        """Wake the readers of these partitions' windows."""
        await self._redis.publish(self._names.changed, ",".join(map(str, partitions)))

    def _check_not_ahead(self, partition: Partition, stored: Written | None) -> None:
        if stored is None:
            return
        known = {partition.topic_id, (partition.written or stored).topic_id}
        if stored.topic_id not in known or (
            stored.topic_id == partition.topic_id and stored.offset > partition.position.offset
        ):
            raise StateAheadError(
                f"partition {partition.number}: Redis holds {stored}, this worker {partition.position}"
            )


async def _missing(redis: Any, keys: Sequence[str]) -> set[str]:
    """Return the keys that do not exist."""
    if await redis.exists(*keys) == len(keys):
        return set()
    async with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.exists(key)
        there = await pipe.execute()
    return {key for key, one in zip(keys, there, strict=True) if not one}


def _moment(raw: bytes) -> float | None:
    try:
        return float(raw)
    except ValueError:
        return None
