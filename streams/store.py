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

import numpy as np
from redis.exceptions import ResponseError, WatchError

from schemas.names import SILENT_S, Names
from schemas.process.version import product_version
from schemas.worker import Worker
from streams.admission import OFFLINE, Admission
from streams.checkpoint import encode_hour, encode_position, encode_vitals
from streams.manifest import Manifest, checksum, decode_manifest
from streams.partition import Partition, Position
from streams.resume import Resumed, Stored, resume
from streams.ring import HOURS, NO_SLOT, S
from streams.table import Table

log = logging.getLogger("windward.store")

TTL_S = SILENT_S + 3600
"""A partition that is not written for a day and an hour leaves Redis by itself."""

PEAKS_TTL_S = (HOURS + 2) * 3600
"""A final hour is never written again, and is needed until the hour that takes its place begins."""

_STATE_FIELDS = ("topic_id", "offset", "facts", "written_at", "manifest")

LOAD_POSITIONS = 40
"""Positions read at once: what one reply holds is bounded."""


class StateAheadError(Exception):
    """Redis holds a newer state than this worker: another one owns the partition."""


class Store:
    """Reads and writes partitions. ``redis`` is a ``redis.asyncio.Redis``, whose stubs mix sync and async."""

    def __init__(self, redis: Any, names: Names, admission: Admission = OFFLINE) -> None:
        self._redis = redis
        self._admission = admission
        self._names = names
        self._version = product_version()

    async def load(self, number: int, make_table: Callable[[], Table]) -> Partition:
        """Return the partition as Redis has it; empty, from offset 0, where it has nothing.

        What Redis has lost, or holds in place of what was written, is blank, and ``rebuilt_at`` is set: the partition
        is to be read from the start of its log.
        """
        try:
            return await self._load(number, make_table)
        except ResponseError as error:
            if not await self._drop_foreign(number, error):
                raise
        partition = await self._load(number, make_table)
        partition.lost["state"] += 1
        return partition

    async def _load(self, number: int, make_table: Callable[[], Table]) -> Partition:
        names = self._names
        partition = Partition(number, make_table(), admission=self._admission)
        while True:
            before = await self._redis.hmget(names.state(number), *_STATE_FIELDS)
            if not any(value is not None for value in before):
                return partition
            stored = await self._read(number)
            if await self._redis.hmget(names.state(number), *_STATE_FIELDS) == before:
                break
            await asyncio.sleep(0.05)  # somebody is still writing: read again
        topic_id, offset, facts_version, written_at, raw_manifest = before
        position = _position([topic_id, offset])
        manifest = decode_manifest(raw_manifest)
        if manifest and position and not _same_write(manifest, position, written_at):
            log.info("store.unverified", extra={"values": {"partition": number, "offset": position.offset}})
            manifest = None
        resumed = resume(stored, manifest)
        resumed.lost["state"] = int(position is None)
        partition.ring, partition.facts = resumed.ring, resumed.facts
        partition.recorded_at = float(resumed.ring.at[: len(resumed.ring)].max(initial=0.0))
        partition.facts_version = _whole(facts_version) or 0
        partition.written = position
        partition.topic_id, partition.next_offset = position or Position("", 0)
        partition.manifest = _manifest_of(stored, resumed)
        partition.lost = +resumed.lost
        if partition.lost:
            partition.rebuild(resumed.lost_positions, resumed.lost_hours)
            partition.facts_version += bool(partition.lost["facts"])
            log.error("store.damaged", extra={"values": {"partition": number, **partition.lost}})
            return partition
        partition.forget_written()
        partition.refresh_table()
        partition.positions[:] = False
        partition.hours.clear()
        partition.changed_facts.clear()
        partition.all_facts = False
        partition.changed = False
        return partition

    async def _read(self, number: int) -> Stored:
        names = self._names
        vitals = (await self._redis.mget([names.vitals(number)]))[0]
        positions: dict[int, bytes | None] = {}
        for start in range(0, S, LOAD_POSITIONS):
            chunk = range(start, min(start + LOAD_POSITIONS, S))
            values = await self._redis.mget([names.slots(number, position) for position in chunk])
            positions |= dict(zip(chunk, values, strict=True))
        hours = await self._redis.mget([names.peaks(number, place) for place in range(HOURS)])
        facts = await self._redis.hgetall(names.facts(number))
        return Stored(vitals, positions, dict(enumerate(hours)), facts)

    async def _drop_foreign(self, number: int, error: ResponseError) -> bool:
        """Remove what is no hash where a hash of this partition belongs, after a command failed on it.

        No command of ours could use it. Return whether that was the error.
        """
        if not str(error).startswith("WRONGTYPE"):
            return False
        for key in (self._names.state(number), self._names.facts(number)):
            if await self._redis.type(key) not in (b"hash", b"none"):
                log.error("store.foreign", extra={"values": {"key": key}})
                await self._redis.delete(key)
        return True

    async def mend_lost(self, partition: Partition) -> int:
        """Have the values written again that should be in Redis and are not there; return how many.

        What was evicted, or deleted by hand, is thus back while a worker still has it in memory.
        """
        names, number, manifest = self._names, partition.number, partition.manifest
        positions = np.flatnonzero(manifest.positions).tolist()
        hours = np.flatnonzero(manifest.hours).tolist()
        keys = [names.slots(number, p) for p in positions] + [names.peaks(number, h) for h in hours]
        keys += [names.vitals(number)] * bool(manifest.vitals) + [names.facts(number)] * bool(manifest.facts_count)
        keys += [names.windows(number)] * bool(_held(partition))
        if not manifest.vitals or await self._redis.exists(*keys) == len(keys):
            return 0
        async with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.exists(key)
            there = await pipe.execute()
        gone = {key for key, one in zip(keys, there, strict=True) if not one}
        for position in positions:
            partition.positions[position] |= names.slots(number, position) in gone
        partition.hours |= {hour for hour in hours if names.peaks(number, hour) in gone}
        if names.facts(number) in gone:
            partition.all_facts, partition.changed_facts = True, set(partition.facts)
        partition.changed = partition.changed or bool(gone)
        return len(gone)

    async def forgotten(self) -> dict[str, float]:
        """Return the machines that an operator had forgotten, with the moment."""
        stored = await self._redis.hgetall(self._names.forgotten)
        return {
            machine.decode(errors="replace"): moment
            for machine, raw in stored.items()
            if (moment := _moment(raw)) is not None
        }

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
            except ResponseError as error:
                partition.forget_written()
                await self._drop_foreign(number, error)
                raise
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
        names, number, ring, manifest = self._names, partition.number, partition.ring, partition.manifest
        used, held = len(ring), _held(partition)
        for position in partition.positions.nonzero()[0].tolist():
            value = encode_position(ring, position)
            manifest.positions[position] = checksum(value) if ring.n[:used, :, position].any() else 0
            pipe.set(names.slots(number, position), value, ex=TTL_S)
        for place in sorted(partition.hours):
            value = encode_hour(ring, place)
            manifest.hours[place] = 0 if np.isnan(ring.peak[:used, :, place]).all() else checksum(value)
            pipe.set(names.peaks(number, place), value, ex=PEAKS_TTL_S)
        if partition.all_facts:
            manifest.facts, manifest.facts_sum = {}, 0
            pipe.delete(names.facts(number))
        elif partition.gone_facts:
            pipe.hdel(names.facts(number), *partition.gone_facts)
        if partition.changed_facts:
            pipe.hset(names.facts(number), mapping={m: partition.facts[m] for m in partition.changed_facts})
        if partition.facts:
            pipe.expire(names.facts(number), TTL_S)
        manifest.set_facts(partition.facts, partition.changed_facts, partition.gone_facts)
        vitals = encode_vitals(ring)
        manifest.vitals = checksum(vitals)
        pipe.set(names.vitals(number), vitals, ex=TTL_S)
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
        manifest.topic_id, manifest.offset = partition.position
        manifest.written_at = now_s
        state = {
            "topic_id": partition.topic_id,
            "offset": partition.position.offset,
            "facts": partition.facts_version,
            "written_at": now_s,
            "manifest": manifest.encode(),
            "worker": Worker(
                version=self._version, written_at=now_s, name_taken=partition.taken_lately(now_s)
            ).encode(),
        }
        pipe.hset(names.state(number), mapping=state)
        pipe.expire(names.state(number), TTL_S)

    async def _stored(self, number: int) -> Position | None:
        try:
            return _position(await self._redis.hmget(self._names.state(number), "topic_id", "offset"))
        except ResponseError as error:
            await self._drop_foreign(number, error)
            raise


def _position(fields: list[bytes | None]) -> Position | None:
    """Return what a state says of how far it goes; None when it says nothing that can be."""
    topic_id, offset = fields
    number = _whole(offset)
    return None if number is None else Position((topic_id or b"").decode(errors="replace"), number)


def _whole(raw: bytes | None) -> int | None:
    """Return an offset or a version; None for what is none."""
    try:
        number = int(raw or b"")
    except ValueError:
        return None
    return number if 0 <= number < 2**62 else None


def _moment(raw: bytes) -> float | None:
    try:
        return float(raw)
    except ValueError:
        return None


def _same_write(manifest: Manifest, position: Position, written_at: bytes | None) -> bool:
    """Whether a manifest was made by the write that set this position."""
    try:
        time_s = float(written_at or b"")
    except ValueError:
        return False
    return Position(manifest.topic_id, manifest.offset) == position and manifest.written_at == time_s


def _held(partition: Partition) -> int:
    """Return how many machines have windows."""
    return int((partition.ring.head[: len(partition.ring)] > NO_SLOT).sum())


def _manifest_of(stored: Stored, resumed: Resumed) -> Manifest:
    """Return the manifest of what was read, for the writes that go on from it."""
    manifest, ring = Manifest(vitals=checksum(stored.vitals or b"")), resumed.ring
    used = len(ring)
    for position, value in stored.positions.items():
        if value is not None and ring.n[:used, :, position].any():
            manifest.positions[position] = checksum(value)
    for place, value in stored.hours.items():
        if value is not None and not np.isnan(ring.peak[:used, :, place]).all():
            manifest.hours[place] = checksum(value)
    manifest.set_facts(resumed.facts, resumed.facts, ())
    return manifest
