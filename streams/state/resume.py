"""Resumes a partition: checks stored values against their manifest, and finds which were lost. Pure.

A value is lost when it is absent or differs from what was written. Without the manifest the state is lost, and each
value that can be read is kept. A lost value is left empty, so that no window counts it as covered, and the partition is
read again from the start of its log. Samples set lost slots again; slots that were not lost do not change.

    vitals    have the machine of each row: without them every slot and peak is lost, too
    slots     filled again as far as Kafka has the samples; the others stay uncovered
    peaks     made again as far as Kafka has the samples (`LostHours`); else known from a later time
    facts     read again from the log, and sent by the agents every few minutes
    usage     of instances: applied again as far as Kafka has the samples; ``since`` of each pair says from when
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import MachineFacts
from schemas.tables.window_table import Header, TableError
from schemas.values.read_json import read_or
from streams.fold.batch import Batch
from streams.fold.fold import fold
from streams.fold.instance_usage import InstanceUsage
from streams.fold.ring import HOURS, MINUTE_SLOTS, NO_SLOT, PEAKS, SLOTS, Ring, S
from streams.state.checkpoint import blank_place, decode_vitals, restore_minutes, restore_place, restore_usage
from streams.state.manifest import Manifest, checksum

KINDS = ("state", "vitals", "slots", "peaks", "facts", "usage")
"""The kinds of values that can be lost."""


@dataclass
class Stored:
    """The stored values of a partition, as they were read."""

    vitals: bytes | None
    positions: Mapping[int, bytes | None]
    hours: Mapping[int, bytes | None]
    facts: Mapping[bytes, bytes]
    usage: bytes | None = None


@dataclass
class Resumed:
    """The state restored from the stored values, and a list of the lost ones."""

    ring: Ring
    facts: dict[str, bytes]
    lost: Counter[str] = field(default_factory=Counter)
    """By kind, how many values were lost."""
    lost_positions: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(S, np.bool_))
    lost_hours: set[int] = field(default_factory=set)
    """Places of the hourly peaks."""


def resume(stored: Stored, manifest: Manifest | None) -> Resumed:
    """Return the restored state; ``manifest``: that of the last write, None without one."""
    resumed = Resumed(Ring(), {})
    _resume_facts(stored.facts, manifest, resumed)
    found = _resume_vitals(stored.vitals, manifest)
    if found is None:
        resumed.lost["vitals"] += 1
        return resumed
    ring = resumed.ring = found
    slot_sums, hour_sums = (manifest.positions, manifest.hours) if manifest else (None, None)
    for position in range(S):
        if not _restore(ring, position, stored.positions.get(position), slot_sums, SLOTS):
            resumed.lost_positions[position] = True
    resumed.lost["slots"] += int(resumed.lost_positions.sum())
    for place in range(HOURS):
        if not _restore(ring, place, stored.hours.get(place), hour_sums, PEAKS):
            resumed.lost_hours.add(place)
    resumed.lost["peaks"] += len(resumed.lost_hours)
    restore_minutes(ring)
    return resumed


def _resume_vitals(value: bytes | None, manifest: Manifest | None) -> Ring | None:
    """Return a ring of the machines in the vitals; None when these are lost."""
    if value is None or (manifest and checksum(value) != manifest.vitals):
        return None
    try:
        return decode_vitals(value)
    except TableError:
        return None


def _restore(
    ring: Ring, place: int, value: bytes | None, sums: NDArray[np.uint32] | None, columns: Mapping[str, object]
) -> bool:
    """Write one value into the ring; return False when it is lost."""
    if sums is not None and not sums[place]:
        return True  # the value was empty
    if value is None:
        return sums is None
    if sums is not None and checksum(value) != sums[place]:
        return False
    try:
        restore_place(ring, value, place)
    except TableError:
        blank_place(ring, place, columns)
        return False
    return True


def uncover(ring: Ring, lost_positions: NDArray[np.bool_]) -> int:
    """Set the first minute of the peaks after the lost positions that stayed empty; return their number."""
    used = len(ring)
    blank = [int(p) for p in np.flatnonzero(lost_positions) if not ring.n[:used, :, p].any()]
    head = ring.head[:used]
    for position in blank:
        minute = (head - (head - position) % S) // MINUTE_SLOTS + 1
        known = (head > NO_SLOT) & (ring.first_minute[:used] != -NO_SLOT)
        ring.first_minute[:used] = np.where(
            known, np.maximum(ring.first_minute[:used], minute), ring.first_minute[:used]
        )
    return len(blank)


def _resume_facts(values: Mapping[bytes, bytes], manifest: Manifest | None, resumed: Resumed) -> None:
    total = 0
    for raw_machine, value in values.items():
        total += checksum(raw_machine + b"\0" + value)
        said = read_or(value, MachineFacts, None)
        if said is not None and said.machine.encode() == raw_machine:
            resumed.facts[said.machine] = value
        else:
            resumed.lost["facts"] += 1
    if manifest and (total, len(values)) != (manifest.facts_sum, manifest.facts_count):
        resumed.lost["facts"] += max(1, manifest.facts_count - len(values))


def resume_usage(usage: InstanceUsage, value: bytes | None, total: int) -> Header | None:
    """Restore ``usage`` from the stored value and return its header; None when it is lost.

    ``total`` is the checksum of the value that was written.
    """
    if value is None or checksum(value) != total:
        return None
    try:
        return restore_usage(usage, value)
    except TableError:
        return None


class LostHours:
    """Restores hours of the peaks whose stored value was lost, from the log, by a ring folded anew.

    The minutes of a final hour have left the ring, or are about to. When their samples are read again, they are late or
    change no slots. So the log is also folded into a second, empty ring, and at its end the lost hours are copied from
    there. That ring costs as much memory as the partition, while the log is read.

    When the worker ends meanwhile the hours stay lost: the peaks are then known from the time after them.
    """

    def __init__(self, places: set[int], ring: Ring, shift_minutes: int) -> None:
        """Record which minutes ``ring`` has, and set its peaks to begin after the lost hours."""
        used = len(ring)
        self.places = sorted(places)
        self._known = dict(zip(ring.machines, ring.first_minute[:used].tolist(), strict=True))
        self._again = Ring()
        newest, known = ring.peak_hour[:used], ring.first_minute[:used]
        for place in self.places:
            after = (newest - (newest - place) % HOURS + 1) * 60 - shift_minutes
            known = np.where((newest > NO_SLOT) & (known != -NO_SLOT), np.maximum(known, after), known)
        ring.first_minute[:used] = known

    def fold(self, batch: Batch, shift_minutes: int) -> None:
        """Fold samples of the log into the second ring."""
        fold(self._again, batch, shift_minutes)

    def restore(self, ring: Ring, shift_minutes: int) -> None:
        """Copy the lost hours into ``ring``.

        Where the log begins within a lost hour, the peaks are known from the log's first minute on. Where it begins
        after the hour, they are known from the hour's end on.
        """
        again = self._again
        machines = [machine for machine in ring.machines if machine in again.row and machine in self._known]
        rows = np.array([ring.row[machine] for machine in machines], np.intp)
        from_rows = np.array([again.row[machine] for machine in machines], np.intp)
        known = np.array([self._known[machine] for machine in machines], np.int64)
        newest, from_newest = ring.peak_hour[rows], again.peak_hour[from_rows]
        told = again.first_minute[from_rows]
        for place in self.places:
            hour = newest - (newest - place) % HOURS
            same = (hour == from_newest - (from_newest - place) % HOURS) & (newest > NO_SLOT)
            peaks = again.peak[from_rows[same], :, place]
            ring.peak[rows[same], :, place] = np.fmax(ring.peak[rows[same], :, place], peaks)
            start = hour * 60 - shift_minutes
            known = np.where(start < told, np.maximum(known, np.minimum(told, start + 60)), known)
        ring.first_minute[rows] = np.minimum(ring.first_minute[rows], known)
