"""The ring: one hour of event-time slots of every machine in a partition, as arrays.

A slot covers ``SLOT_S`` seconds; slot k holds the interval whose end lies in (k, k + 1] slot lengths since 1970. Slot k
of a machine lives at position ``k % RING_SLOTS`` and is valid while ``head - RING_SLOTS < k <= head``, head being the
machine's newest slot. Each machine has a head of its own: samples of one machine never age another.

Axes: M machines (rows in order of appearance), R resources, S positions, H hours of peaks.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.names import RING_SLOTS, SLOT_S
from schemas.resources import RESOURCES

Rows = NDArray[np.intp]
_SHAPE = (len(RESOURCES), RING_SLOTS)


class ClassMeans:
    """Mean usage [R, S] by one priority class, of the machines that send the class; NaN where no value is given.

    As a full array one class would cost 5.8 kB a machine: 57 MB in a partition of 10,000 machines, even if only one of
    them sends it. Here a machine gets a place K with its first value, and loses it with its last.
    """

    def __init__(self) -> None:
        self._places: Rows = np.empty(0, np.intp)
        """By row the place of a machine, -1 for none; rows beyond the end have none."""
        self._used = 0
        self._values: NDArray[np.float32] = np.empty((0, *_SHAPE), np.float32)

    @classmethod
    def of(cls, values: NDArray[np.float32]) -> "ClassMeans":
        """Return the means [k, R, S] of the rows 0 to k - 1."""
        means = cls()
        means._values, means._used, means._places = values, len(values), np.arange(len(values))
        return means

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._places.nbytes

    def means(self, rows: Rows) -> NDArray[np.float32]:
        """Return the means of some rows, [k, R, S], as a copy."""
        found = np.full((len(rows), *_SHAPE), np.nan, np.float32)
        places = self._of(rows)
        held = places >= 0
        found[held] = self._values[places[held]]
        return found

    def at(self, position: int, rows: int) -> NDArray[np.float32] | None:
        """Return one position of the first ``rows`` rows, [rows, R]; None when no machine has a value there."""
        places = self._of(np.arange(rows))
        held = places >= 0
        there = self._values[places[held], :, position]
        if np.isnan(there).all():
            return None
        found = np.full((rows, _SHAPE[0]), np.nan, np.float32)
        found[held] = there
        return found

    def set(self, row: int, position: int, means: Any) -> None:
        """Set the means [R] of one slot of one machine."""
        place = self._make_places(np.array([row]))[0]
        self._values[place, :, position] = means

    def set_column(self, resources: slice, position: int, means: NDArray[np.floating[Any]]) -> None:
        """Set some resources of one position of the first rows, [rows, r]; a row of NaN alone gets no place."""
        places = self._of(np.arange(len(means)))
        rows = np.flatnonzero((places >= 0) | ~np.isnan(means).all(axis=1))
        places = self._make_places(rows)
        self._values[places, resources, position] = means[rows]

    def blank(self, rows: Rows, positions: NDArray[np.int64]) -> None:
        places = self._of(rows)
        held = places >= 0
        self._values[places[held], :, positions[held]] = np.nan

    def blank_position(self, position: int) -> None:
        self._values[: self._used, :, position] = np.nan

    def keep(self, rows: Rows) -> None:
        """Drop all rows except these, which are renumbered in their order, and all machines without a value."""
        places = self._of(rows)
        held = places >= 0
        values = self._values[places[held]]
        given = ~np.isnan(values).all(axis=(1, 2))
        self._values = values[given]
        self._used = len(self._values)
        self._places = np.full(len(rows), -1, np.intp)
        self._places[np.flatnonzero(held)[given]] = np.arange(self._used)

    def _of(self, rows: Rows) -> Rows:
        inside = rows < len(self._places)
        if inside.all():
            return self._places[rows]
        found = np.full(len(rows), -1, np.intp)
        found[inside] = self._places[rows[inside]]
        return found

    def _make_places(self, rows: Rows) -> Rows:
        """Return the places of distinct rows; a row without one gets a new place."""
        if len(rows) and rows.max() >= len(self._places):
            self._places = np.pad(self._places, (0, rows.max() + 1 - len(self._places)), constant_values=-1)
        new = rows[self._places[rows] < 0]
        if len(new):
            needed = self._used + len(new)
            if needed > len(self._values):
                grown = np.full((max(needed, len(self._values) * 9 // 8 + 4), *_SHAPE), np.nan, np.float32)
                grown[: self._used] = self._values[: self._used]
                self._values = grown
            self._places[new] = np.arange(self._used, needed)
            self._used = needed
        return self._places[rows]


R = len(RESOURCES)
S = RING_SLOTS
MINUTE_SLOTS = 60 // SLOT_S
RING_MINUTES = S // MINUTE_SLOTS
HOURS = 50
NO_SLOT = -(2**40)
"""Head of a machine that has sent no sample."""

VITALS: dict[str, tuple[type[np.generic], tuple[int, ...], float]] = {
    "head": (np.int64, (), NO_SLOT),  # newest slot
    "at": (np.float64, (), 0),  # event time, boot, number and interval of the newest sample
    "boot": (np.float64, (), 0),
    "seq": (np.float64, (), 0),
    "interval_s": (np.float32, (), SLOT_S),
    "capacity": (np.float64, (R,), np.nan),
    "delay_hour": (np.int64, (), 0),  # least delay of the newest hour and of the one before: learned clock skew
    "delay": (np.float32, (2,), np.inf),
    "peak_hour": (np.int64, (), NO_SLOT),  # newest hour that has a place in `peak`
    "first_minute": (np.int64, (), -NO_SLOT),  # first minute that the peaks include
    "owner": (np.uint64, (), 0),  # the host that has the name, since when and until when: streams.fold.refusals
    "owner_since": (np.float64, (), 0),
    "owner_until": (np.float64, (), 0),
}
"""Per machine: dtype, further axes, value of an unused row."""

SLOTS: dict[str, tuple[type[np.generic], tuple[int, ...], float]] = {
    "n": (np.uint16, (R, S), 0),  # readings; 0: empty
    "mean": (np.float64, (R, S), 0),
    "m2": (np.float32, (R, S), 0),
    "max": (np.float32, (R, S), 0),
    "slot_boot": (np.uint32, (S,), 0),
    "slot_seq": (np.uint32, (S,), 0),
}
PEAKS: dict[str, tuple[type[np.generic], tuple[int, ...], float]] = {
    "peak": (np.float32, (R, HOURS), np.nan),  # highest one-minute mean of each hour, of its final minutes
}
MINUTES: dict[str, tuple[type[np.generic], tuple[int, ...], float]] = {
    "minute": (np.float32, (R, RING_MINUTES), np.nan),  # means of the minutes not final, kept for speed
}
_ALL = VITALS | SLOTS | PEAKS | MINUTES


class Ring:
    """The state of one partition; `fold` writes it, `windows` and `peaks` read it.

    8 bytes a slot and machine, and 18 more for each resource (means in float64: float32 would cost a std error of 4e-5
    at 64 GiB ± 1 MiB): about 7.7 kB a machine and resource in all. Arrays grow by an eighth, so that memory
    follows the fleet. Usage by priority class costs 4 bytes a slot and resource more, where it is sent.
    """

    head: NDArray[np.int64]
    at: NDArray[np.float64]
    boot: NDArray[np.float64]
    seq: NDArray[np.float64]
    interval_s: NDArray[np.float32]
    capacity: NDArray[np.float64]
    delay_hour: NDArray[np.int64]
    delay: NDArray[np.float32]
    peak_hour: NDArray[np.int64]
    first_minute: NDArray[np.int64]
    owner: NDArray[np.uint64]
    owner_since: NDArray[np.float64]
    owner_until: NDArray[np.float64]
    n: NDArray[np.uint16]
    mean: NDArray[np.float64]
    m2: NDArray[np.float32]
    max: NDArray[np.float32]
    slot_boot: NDArray[np.uint32]
    slot_seq: NDArray[np.uint32]
    peak: NDArray[np.float32]
    minute: NDArray[np.float32]

    def __init__(self) -> None:
        self.machines: list[str] = []
        self.row: dict[str, int] = {}
        self.classes: dict[str, ClassMeans] = {}
        """Mean usage by priority class."""
        for name in _ALL:
            setattr(self, name, _blank(name, 0))

    def __len__(self) -> int:
        return len(self.machines)

    def add(self, machines: Iterable[str]) -> None:
        for machine in machines:
            if machine not in self.row:
                self.row[machine] = len(self.machines)
                self.machines.append(machine)
        if len(self.machines) > len(self.head):
            self._grow(max(len(self.machines), len(self.head) + len(self.head) // 8 + 16))

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all machines except those in ``rows``, which keep their order."""
        self.machines = [self.machines[row] for row in rows]
        self.row = {machine: row for row, machine in enumerate(self.machines)}
        for name in _ALL:
            setattr(self, name, getattr(self, name)[rows])
        for means in self.classes.values():
            means.keep(rows)

    def class_means(self, name: str) -> ClassMeans:
        """Return the means of one priority class, made at the first call."""
        return self.classes.setdefault(name, ClassMeans())

    def trim(self) -> None:
        """Free the memory of priority classes for machines that no longer send them."""
        for means in self.classes.values():
            means.keep(np.arange(len(self)))

    @property
    def nbytes(self) -> int:
        arrays: list[NDArray[Any]] = [getattr(self, name) for name in _ALL]
        return sum(array.nbytes for array in arrays) + sum(means.nbytes for means in self.classes.values())

    def _grow(self, rows: int) -> None:
        """Copy into larger arrays, one at a time, so that only one exists twice."""
        used = len(self.head)
        for name in _ALL:
            grown = _blank(name, rows)
            grown[:used] = getattr(self, name)
            setattr(self, name, grown)


def joined(parts: Sequence[tuple[Ring, NDArray[np.intp]]]) -> Ring:
    """Return some rows of several rings as one ring without names; it is a copy, for reading."""
    ring = Ring()
    for name in _ALL:
        setattr(ring, name, np.concatenate([getattr(part, name).take(rows, axis=0) for part, rows in parts]))
    for name in {name for part, _ in parts for name in part.classes}:
        means = [part.classes.get(name, _NO_MEANS).means(rows) for part, rows in parts]
        ring.classes[name] = ClassMeans.of(np.concatenate(means))
    return ring


_NO_MEANS = ClassMeans()


def _blank(name: str, rows: int) -> NDArray[Any]:
    dtype, axes, value = _ALL[name]
    # np.zeros leaves untouched pages to the kernel; np.full would not.
    return np.zeros((rows, *axes), dtype) if value == 0 else np.full((rows, *axes), value, dtype)


def slot_of(at: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the slot for intervals that end at ``at`` (epoch s); an end on a boundary belongs to the earlier slot.

    >>> slot_of(np.array([10.0, 10.5, 20.0]))
    array([0, 1, 1])
    """
    return np.ceil(at / SLOT_S).astype(np.int64) - 1
