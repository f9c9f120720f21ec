"""A partition's state as values in Redis: slots, hours, vitals, facts, windows and offset; and read again. Pure.

A write is a base, or the changes of windows and facts since it (`streams.state.partition`). The commands that write are
queued on a pipeline, which the store sends as one transaction. Each value's checksum goes into the manifest. A value
that is lost, or does not verify, is blank when it is read, and is rebuilt from Kafka.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from schemas.messages.process import Worker
from schemas.names import SILENT_S, Names
from streams.fold.ring import HOURS, NO_SLOT
from streams.state.checkpoint import encode_hour, encode_position, encode_usage, encode_vitals
from streams.state.manifest import Manifest, checksum, decode_manifest
from streams.state.partition import Base, Partition, Position, Written
from streams.state.resume import Resumed, Stored, resume, resume_usage

log = logging.getLogger("windward.store")

POSITION_FIELDS = ("topic_id", "offset", "write")
STATE_FIELDS = (*POSITION_FIELDS, "facts", "written_at", "manifest", "usage")

TTL_S = SILENT_S + 3600
"""The keys of a partition that is not written for a day and an hour expire."""

PEAKS_TTL_S = (HOURS + 2) * 3600
"""A final hour is never written again, and is needed until the hour begins that reuses its place."""


def queue_writes(pipe: Any, names: Names, partition: Partition, now_s: float, version: str) -> Base:
    """Queue on a pipeline every command that writes what changed since the last write; the manifest follows.

    The last reply of the pipeline is the number of the windows' values that exist. Return the base that Redis then has.
    """
    number, manifest = partition.number, partition.manifest
    header = {
        "partition": number,
        "offset": partition.position.offset,
        "topic_id": partition.topic_id,
        "facts": partition.facts_version,
        "written_at": now_s,
    }
    base = None if partition.base_due(now_s) else _queue_changes(pipe, names, partition, header)
    if base is None:
        base = _queue_base(pipe, names, partition, header)
    _queue_facts(pipe, names, partition)
    manifest.topic_id, manifest.offset = partition.position
    manifest.resume, manifest.written_at = base.position.offset, now_s
    state = {
        "topic_id": partition.topic_id,
        "offset": partition.position.offset,
        "write": partition.write_number,
        "facts": partition.facts_version,
        "written_at": now_s,
        "manifest": manifest.encode(),
        "worker": Worker(
            version=version, name_taken=partition.taken_lately(now_s), clocks_off=partition.clocks.off(now_s)
        ).encode(),
    }
    if partition.usage_sum:
        state["usage"] = partition.usage_sum
    pipe.hset(names.state(number), mapping=state)
    pipe.expire(names.state(number), TTL_S)
    pipe.exists(names.windows(number), names.window_changes(number))
    return base


def _queue_changes(pipe: Any, names: Names, partition: Partition, header: dict[str, Any]) -> Base | None:
    """Queue the rows that changed since the base; return None when they do not fit to it."""
    if partition.base is None or not held(partition):
        return None
    changes = partition.table.encode_changes(partition.ring, {**header, "base": partition.base.number})
    if changes is None:
        return None
    pipe.set(names.window_changes(partition.number), changes, ex=TTL_S)
    return replace(partition.base, changes_bytes=partition.base.changes_bytes + len(changes))


def _queue_base(pipe: Any, names: Names, partition: Partition, header: dict[str, Any]) -> Base:
    """Queue the state from which a worker resumes, the whole window table, and an empty table of changes."""
    number, ring, manifest = partition.number, partition.ring, partition.manifest
    used = len(ring)
    for position in partition.positions.nonzero()[0].tolist():
        value = encode_position(ring, position)
        manifest.positions[position] = checksum(value) if ring.n[:used, :, position].any() else 0
        pipe.set(names.slots(number, position), value, ex=TTL_S)
    for place in sorted(partition.hours):
        value = encode_hour(ring, place)
        manifest.hours[place] = 0 if np.isnan(ring.peak[:used, :, place]).all() else checksum(value)
        pipe.set(names.peaks(number, place), value, ex=PEAKS_TTL_S)
    vitals = encode_vitals(ring)
    manifest.vitals = checksum(vitals)
    pipe.set(names.vitals(number), vitals, ex=TTL_S)
    size = len(vitals)
    if held(partition):
        of_base = {**header, "base": partition.write_number}
        base = partition.table.encode(ring, of_base)
        pipe.set(names.windows(number), base, ex=TTL_S)
        pipe.set(names.window_changes(number), partition.table.encode_changes(ring, of_base), ex=TTL_S)
        size += len(base)
    else:
        pipe.delete(names.windows(number), names.window_changes(number))
    queue_usage(pipe, names, partition, header)
    return Base(partition.position, header["written_at"], size, partition.write_number)


def _queue_facts(pipe: Any, names: Names, partition: Partition) -> None:
    number, manifest = partition.number, partition.manifest
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


def queue_usage(pipe: Any, names: Names, partition: Partition, header: dict[str, Any]) -> None:
    """Queue the usage by instance when it changed and is due; its header has its own offset."""
    usage, key = partition.usage, names.instance_usage(partition.number)
    if not usage.changed or not partition.usage_due:
        return
    if len(usage):
        value = encode_usage(usage, header)
        pipe.set(key, value, ex=TTL_S)
        partition.usage_sum = checksum(value)
    elif partition.usage_sum:
        pipe.delete(key)
        pipe.hdel(names.state(partition.number), "usage")
        partition.usage_sum = 0
    partition.usage_written_at = header["written_at"]
    usage.changed = partition.usage_due = False


def held(partition: Partition) -> int:
    """Return how many machines have windows."""
    return int((partition.ring.head[: len(partition.ring)] > NO_SLOT).sum())


def partition_of(partition: Partition, fields: Sequence[bytes | None], stored: Stored) -> Partition:
    """Fill the empty ``partition`` from the stored values and return it; ``fields`` are its `STATE_FIELDS`.

    Lost values stay empty; if there are any, ``rebuilt_at`` is set: the partition must be read from its log's start.
    """
    facts_version, written_at, raw_manifest, usage_sum = fields[len(POSITION_FIELDS) :]
    written = written_of(fields[: len(POSITION_FIELDS)])
    manifest = decode_manifest(raw_manifest)
    if manifest and not _same_write(manifest, written, written_at):
        manifest = None
    resumed = resume(stored, manifest)
    resumed.lost["state"] = int(manifest is None)
    partition.ring, partition.facts = resumed.ring, resumed.facts
    partition.recorded_at = float(resumed.ring.at[: len(resumed.ring)].max(initial=0.0))
    partition.facts_version = (_whole(facts_version) or 0) + 1  # a change may have waited to be told
    partition.written = written
    partition.topic_id, partition.next_offset, partition.write_number = written or Written("", 0, 0)
    partition.manifest = _manifest_of(stored, resumed)
    usage_position = _resume_usage(partition, stored.usage, _whole(usage_sum) or 0)
    resumed.lost["usage"] = int(usage_position is None)
    partition.lost = +resumed.lost
    if partition.lost:
        partition.rebuild(resumed.lost_positions, resumed.lost_hours)
        partition.facts_version += bool(partition.lost["facts"])
        log.error("store.damaged", extra={"values": {"partition": partition.number, **partition.lost}})
        return partition
    partition.forget_written()
    partition.refresh_table()
    partition.positions[:] = False
    partition.hours.clear()
    partition.changed_facts.clear()
    partition.all_facts = False
    partition.changed = partition.usage.changed = False
    if manifest:
        partition.resume_until, partition.next_offset = partition.next_offset, manifest.resume
    if usage_position and usage_position.topic_id == partition.topic_id:
        partition.next_offset = min(partition.next_offset, usage_position.offset)
    return partition


def _resume_usage(partition: Partition, value: bytes | None, total: int) -> Position | None:
    """Restore a partition's usage by instance; return its position, None when it is lost."""
    if not total:
        return Position("", 0) if partition.written is None else Position(*partition.written[:2])
    header = resume_usage(partition.usage, value, total)
    partition.usage_sum = total
    return None if header is None else Position(header.topic_id, header.offset)


def written_of(fields: Sequence[bytes | None]) -> Written | None:
    """Return the last write from its `POSITION_FIELDS`; None when it is absent or invalid."""
    topic_id, offset, write = fields
    number = _whole(offset)
    return None if number is None else Written((topic_id or b"").decode(errors="replace"), number, _whole(write) or 0)


def _whole(raw: bytes | None) -> int | None:
    """Return an offset or a version; None when it is not a valid number."""
    try:
        number = int(raw or b"")
    except ValueError:
        return None
    return number if 0 <= number < 2**62 else None


def _same_write(manifest: Manifest, written: Written | None, written_at: bytes | None) -> bool:
    """Return whether a manifest belongs to the write that set this position."""
    try:
        time_s = float(written_at or b"")
    except ValueError:
        return False
    return written is not None and (manifest.topic_id, manifest.offset) == written[:2] and manifest.written_at == time_s


def _manifest_of(stored: Stored, resumed: Resumed) -> Manifest:
    """Return the manifest of the stored values, for the next writes."""
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
