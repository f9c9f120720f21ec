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
    follows the fleet.
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

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in _ALL)

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
    return ring


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
