"""The commands that write a partition's state: slots, hours, vitals, facts, windows and offset. Pure.

They are queued on a pipeline, which the store sends as one transaction. Each value's checksum goes into the manifest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.messages.worker import Worker
from schemas.names import SILENT_S, Names
from streams.fold.ring import HOURS, NO_SLOT
from streams.state.checkpoint import encode_hour, encode_position, encode_vitals
from streams.state.instance_checkpoint import encode_usage
from streams.state.manifest import checksum
from streams.state.partition import Partition

TTL_S = SILENT_S + 3600
"""The keys of a partition that is not written for a day and an hour expire."""

PEAKS_TTL_S = (HOURS + 2) * 3600
"""A final hour is never written again, and is needed until the hour begins that reuses its place."""


def queue_writes(pipe: Any, names: Names, partition: Partition, now_s: float, version: str) -> None:
    """Queue on a pipeline every command that writes what changed since the last write; the manifest follows."""
    number, ring, manifest = partition.number, partition.ring, partition.manifest
    used, machines = len(ring), held(partition)
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
    if machines:
        pipe.set(names.windows(number), partition.table.encode(ring, header), ex=TTL_S)
    else:
        pipe.delete(names.windows(number))
    queue_usage(pipe, names, partition, header)
    manifest.topic_id, manifest.offset = partition.position
    manifest.written_at = now_s
    state = {
        "topic_id": partition.topic_id,
        "offset": partition.position.offset,
        "facts": partition.facts_version,
        "written_at": now_s,
        "manifest": manifest.encode(),
        "worker": Worker(version=version, written_at=now_s, name_taken=partition.taken_lately(now_s)).encode(),
    }
    if partition.usage_sum:
        state["usage"] = partition.usage_sum
    pipe.hset(names.state(number), mapping=state)
    pipe.expire(names.state(number), TTL_S)


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
