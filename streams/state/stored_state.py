"""Makes a partition from its stored values; lost values are blank. Pure."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from streams.state.manifest import Manifest, checksum, decode_manifest
from streams.state.partition import Partition, Position
from streams.state.resume import Resumed, Stored, resume, resume_usage

log = logging.getLogger("windward.store")

STATE_FIELDS = ("topic_id", "offset", "facts", "written_at", "manifest", "usage")


def partition_of(partition: Partition, fields: Sequence[bytes | None], stored: Stored) -> Partition:
    """Return ``partition``, which is empty, filled from the stored values; ``fields`` are its `STATE_FIELDS`.

    Lost values are blank, and then ``rebuilt_at`` is set: the partition is to be read from the start of its log.
    """
    topic_id, offset, facts_version, written_at, raw_manifest, usage_sum = fields
    position = position_of([topic_id, offset])
    manifest = decode_manifest(raw_manifest)
    if manifest and position and not _same_write(manifest, position, written_at):
        log.info("store.unverified", extra={"values": {"partition": partition.number, "offset": position.offset}})
        manifest = None
    resumed = resume(stored, manifest)
    resumed.lost["state"] = int(position is None)
    partition.ring, partition.facts = resumed.ring, resumed.facts
    partition.recorded_at = float(resumed.ring.at[: len(resumed.ring)].max(initial=0.0))
    partition.facts_version = (_whole(facts_version) or 0) + 1  # a change may have waited to be told
    partition.written = position
    partition.topic_id, partition.next_offset = position or Position("", 0)
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
    if usage_position and usage_position.topic_id == partition.topic_id:
        partition.next_offset = min(partition.next_offset, usage_position.offset)
    return partition


def _resume_usage(partition: Partition, value: bytes | None, total: int) -> Position | None:
    """Restore a partition's usage by instance; return its position, None when it is lost."""
    if not total:
        return partition.written or Position("", 0)
    header = resume_usage(partition.usage, value, total)
    partition.usage_sum = total
    return None if header is None else Position(header.topic_id, header.offset)


def position_of(fields: list[bytes | None]) -> Position | None:
    """Return the position in a state's fields; None when it is absent or invalid."""
    topic_id, offset = fields
    number = _whole(offset)
    return None if number is None else Position((topic_id or b"").decode(errors="replace"), number)


def _whole(raw: bytes | None) -> int | None:
    """Return an offset or a version; None when it is not a valid number."""
    try:
        number = int(raw or b"")
    except ValueError:
        return None
    return number if 0 <= number < 2**62 else None


def _same_write(manifest: Manifest, position: Position, written_at: bytes | None) -> bool:
    """Return whether a manifest is of the write that set this position."""
    try:
        time_s = float(written_at or b"")
    except ValueError:
        return False
    return Position(manifest.topic_id, manifest.offset) == position and manifest.written_at == time_s


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
