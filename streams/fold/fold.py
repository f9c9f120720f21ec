"""The fold: a batch of samples into the ring. Pure; the order of the samples and repeated ones change nothing.

- A slot of a machine is **set**, never added to; of two samples for one slot the larger (readings, boot, seq) wins.
- A sample older than its machine's ring is late: it is counted and dropped, and does not make the machine fresh.
- The newest sample (by event time) sets capacity, interval and boot.
- Skew is learned from the delay between a sample's end and the broker's time stamp: the least of the last one to two
  hours of event time, which a backlog cannot lower. A delay beyond ``SKEW_MAX_S`` is not skew but age.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import usages
from schemas.resources import PRIORITY_CLASSES
from streams.fold.batch import Batch
from streams.fold.peaks import finalise, refresh_minutes
from streams.fold.ring import MINUTE_SLOTS, NO_SLOT, RING_MINUTES, Ring, S

SKEW_MAX_S = 5.0
ACTIVE_S = 180.0
"""A machine with a sample younger than this is active, however short its interval."""
DAY_S = 86_400.0
_WAVE_SLOTS = S - 60
"""Slots one wave may move a machine's head, so that no minute leaves the ring in the wave that filled it."""


@dataclass
class Folded:
    """The result of folding a batch: counts by outcome, and the parts that must be written again."""

    accepted: int = 0
    duplicate: int = 0
    late: int = 0
    positions: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(S, np.bool_))
    hours: set[int] = field(default_factory=set)
    rows: NDArray[np.intp] = field(default_factory=lambda: np.empty(0, np.intp))


def fold(ring: Ring, batch: Batch, shift_minutes: int = 0) -> Folded:
    """Fold a batch into the ring; return the changes. ``shift_minutes`` aligns the hours (`peaks.Zone`)."""
    result = Folded()
    if not len(batch):
        return result
    ring.add(batch.machines)
    rows = np.fromiter(map(ring.row.__getitem__, batch.machines), np.intp, len(batch))
    result.rows = np.unique(rows)
    left = np.arange(len(batch))
    while len(left):
        wave = _wave(ring.head[rows[left]], rows[left], batch.slot[left])
        _fold_wave(ring, batch, rows, left[wave], shift_minutes, result)
        left = left[~wave]
    return result


def _wave(head: NDArray[np.int64], rows: NDArray[np.intp], slots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return [K]: the samples that can be folded together with the same result as one by one.

    The samples of each machine are taken in their order, and end before the first one that

    - would move its head too far at once;
    - is so far behind the wave's first sample that the wave may push it out of the ring;
    - belongs to a minute that this wave makes final.
    """
    near = S - MINUTE_SLOTS - _WAVE_SLOTS
    if ((slots <= head + _WAVE_SLOTS) & (slots > head - near)).all():
        return np.ones(len(rows), np.bool_)
    order = np.argsort(rows, kind="stable")
    rows, head, slots = rows[order], head[order], slots[order]
    start = np.searchsorted(rows, rows, side="left")
    base = np.maximum(head, slots[start])
    running = _running_head(rows, slots, head)
    oldest = slots // MINUTE_SLOTS + RING_MINUTES
    final = (slots > running - S) & (oldest <= running // MINUTE_SLOTS) & (oldest > head // MINUTE_SLOTS)
    stop = final | (slots > base + _WAVE_SLOTS) | ((slots > head) & (slots <= base - near))
    counted = np.cumsum(stop)
    chosen = np.empty(len(rows), np.bool_)
    chosen[order] = counted == (counted - stop)[start]
    return chosen


def _fold_wave(
    ring: Ring, batch: Batch, all_rows: NDArray[np.intp], index: NDArray[np.intp], shift: int, result: Folded
) -> None:
    order = index[np.argsort(all_rows[index], kind="stable")]
    rows, slots = all_rows[order], batch.slot[order]
    in_time = slots > _running_head(rows, slots, ring.head[rows]) - S
    if not in_time.all():
        result.late += len(order) - int(in_time.sum())
        order, rows, slots = order[in_time], rows[in_time], slots[in_time]
    if not len(order):
        return
    _learn_delay(ring, rows, batch.at[order], batch.recorded_at[order])

    # Samples at or before the head first: their minutes may become final when the head moves.
    old = slots <= ring.head[rows]
    if old.any():
        _set_slots(ring, batch, order[old], rows[old], slots[old], result)
    _move_heads(ring, rows, slots, shift, result)
    new = ~old & (slots > ring.head[rows] - S)
    result.late += int((~old & ~new).sum())
    if new.any():
        _set_slots(ring, batch, order[new], rows[new], slots[new], result)
    _note_newest(ring, batch, order, rows)


def _running_head(rows: NDArray[np.intp], slots: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each machine's head just before each sample; rows are sorted, equal rows in order of arrival."""
    last = _last(rows)
    if last.all():
        return head
    group: NDArray[np.int64] = np.cumsum(last) - last
    lift = group * np.int64(2**44)
    newest = np.maximum.accumulate(np.maximum(slots, head) + lift) - lift
    running = head.copy()
    followed = np.flatnonzero(~last)
    running[followed + 1] = newest[followed]
    return running


def _last(groups: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return which entries are the last of their group; entries of a group are adjacent."""
    last = np.ones(len(groups), np.bool_)
    np.not_equal(groups[1:], groups[:-1], out=last[:-1])
    return last


def _best(groups: NDArray[np.generic], *ranks: NDArray[np.generic]) -> NDArray[np.intp]:
    """Return the index of the best entry of each group: by the first rank, then the next; groups in any order."""
    ordered = np.argsort(groups, kind="stable")
    if _last(groups[ordered]).all():
        return ordered
    ordered = np.lexsort((*reversed(ranks), groups))
    return ordered[_last(groups[ordered])]


def _move_heads(ring: Ring, rows: NDArray[np.intp], slots: NDArray[np.int64], shift: int, result: Folded) -> None:
    """Move heads to the newest slots; before that finish the minutes that leave, and clear the slots between."""
    last = np.flatnonzero(_last(rows))
    machines, newest = rows[last], slots
    if len(last) < len(rows):
        newest = np.maximum.reduceat(slots, np.concatenate([[0], last[:-1] + 1]))
    moved = newest > ring.head[machines]
    machines, newest = machines[moved], newest[moved]
    if not len(machines):
        return
    result.hours.update(finalise(ring, machines, newest, shift).tolist())
    steps = np.minimum(newest - ring.head[machines], S)
    which = np.repeat(np.arange(len(machines)), steps)
    back = np.arange(len(which)) - np.repeat(np.cumsum(steps) - steps, steps)
    positions = (newest[which] - back) % S
    known = ring.head[machines][which] > NO_SLOT
    which, positions = which[known], positions[known]
    ring.n[machines[which], :, positions] = 0
    ring.m2[machines[which], :, positions] = 0
    ring.max[machines[which], :, positions] = 0
    ring.slot_boot[machines[which], positions] = 0
    ring.slot_seq[machines[which], positions] = 0
    for means in ring.classes.values():
        means.blank(machines[which], positions)
    result.positions[positions] = True
    ring.head[machines] = newest


def _set_slots(
    ring: Ring, batch: Batch, order: NDArray[np.intp], rows: NDArray[np.intp], slots: NDArray[np.int64], result: Folded
) -> None:
    """Set each slot to the best of its new samples, if that is better than the stored one."""
    positions = slots % S
    readings = batch.n[order].sum(axis=1)
    boot, seq = batch.boot[order], batch.seq[order]
    cells = rows * S + positions
    best = _best(cells, readings, boot, seq)
    at_row, at_position = rows[best], positions[best]
    stored = ring.n[at_row, :, at_position].sum(axis=1, dtype=np.float64)
    stored_boot, stored_seq = ring.slot_boot[at_row, at_position], ring.slot_seq[at_row, at_position]
    beats = (readings[best] > stored) | (
        (readings[best] == stored)
        & ((boot[best] > stored_boot) | ((boot[best] == stored_boot) & (seq[best] > stored_seq)))
    )
    chosen = best[beats]
    result.accepted += len(chosen)
    result.duplicate += len(order) - len(chosen)
    if not len(chosen):
        return
    source, row, position = order[chosen], rows[chosen], positions[chosen]
    ring.n[row, :, position] = batch.n[source]
    ring.mean[row, :, position] = batch.mean[source]
    ring.m2[row, :, position] = batch.m2[source]
    ring.max[row, :, position] = batch.max[source]
    ring.slot_boot[row, position] = boot[chosen]
    ring.slot_seq[row, position] = seq[chosen]
    _set_classes(ring, batch, source, row, position)
    result.positions[position] = True
    refresh_minutes(ring, row, slots[chosen])


def _set_classes(
    ring: Ring, batch: Batch, source: NDArray[np.intp], row: NDArray[np.intp], position: NDArray[np.int64]
) -> None:
    for means in ring.classes.values():
        means.blank(row, position)
    if not batch.classes:
        return
    place = dict(zip(source.tolist(), zip(row.tolist(), position.tolist(), strict=True), strict=True))
    for index, sample in batch.classes:
        if index in place:
            at_row, at_position = place[index]
            for name, usage in (sample.classes or {}).items():
                if name in PRIORITY_CLASSES:
                    ring.class_means(name).set(at_row, at_position, usages(usage))


def _note_newest(ring: Ring, batch: Batch, order: NDArray[np.intp], rows: NDArray[np.intp]) -> None:
    """Take capacity, interval and boot from each machine's newest sample; ties go to the later boot and number."""
    best = _best(rows, batch.at[order], batch.boot[order], batch.seq[order])
    source, row = order[best], rows[best]
    at, boot, seq = batch.at[source], batch.boot[source], batch.seq[source]
    newer = (at > ring.at[row]) | (
        (at == ring.at[row]) & ((boot > ring.boot[row]) | ((boot == ring.boot[row]) & (seq > ring.seq[row])))
    )
    source, row = source[newer], row[newer]
    ring.at[row], ring.boot[row], ring.seq[row] = at[newer], boot[newer], seq[newer]
    ring.interval_s[row] = batch.interval_s[source]
    ring.capacity[row] = batch.capacity[source]


def _learn_delay(ring: Ring, rows: NDArray[np.intp], at: NDArray[np.float64], recorded_at: NDArray[np.float64]) -> None:
    """Keep the smallest delay of the newest hour of event time, and that of the hour before."""
    delay = (recorded_at - at).astype(np.float32)
    live = np.abs(delay) <= SKEW_MAX_S
    if not live.any():
        return
    rows, delay, hours = rows[live], delay[live], (at[live] // 3600).astype(np.int64)
    unique = np.unique(rows)
    before = ring.delay_hour[unique]
    np.maximum.at(ring.delay_hour, rows, hours)
    steps = ring.delay_hour[unique] - before
    ring.delay[unique[steps == 1], 1] = ring.delay[unique[steps == 1], 0]
    ring.delay[unique[steps > 1], 1] = np.inf
    ring.delay[unique[steps > 0], 0] = np.inf
    back = ring.delay_hour[rows] - hours
    kept = back <= 1
    np.minimum.at(ring.delay, (rows[kept], back[kept]), delay[kept])


def skew_s(ring: Ring, rows: NDArray[np.intp]) -> NDArray[np.float32]:
    """Return each machine's clock less the broker's, within ±``SKEW_MAX_S``; 0 where it is unknown."""
    least = ring.delay[rows].min(axis=1)
    return np.where(np.isfinite(least), -least, np.float32(0)).astype(np.float32)


def active(ring: Ring, now_s: float) -> int:
    """Return the number of machines with a sample within three of their intervals, or ``ACTIVE_S`` if longer."""
    machines = len(ring)
    lately = np.maximum(ACTIVE_S, 3.0 * ring.interval_s[:machines].astype(np.float64))
    return int(np.count_nonzero(ring.at[:machines] > now_s - lately))


def heard(ring: Ring, now_s: float, silent_s: float) -> NDArray[np.intp]:
    """Return the rows to keep: their newest sample is at most ``silent_s`` old, and not a day ahead."""
    at = ring.at[: len(ring)]
    return np.flatnonzero((at >= now_s - silent_s) & (at <= now_s + DAY_S))
