"""The usage of a recording's instances by minute, and that of their machines besides. Pure.

K lives are stretches of minutes, one behind the other: life k has the cells ``base[k]`` to ``base[k] + length[k]``.
A report counts for the minutes whose middle lies in its interval, a sample for its minute. A report counts only if it
comes from the machine on which the ledger has the instance.

Missing usage is filled in, and counted:

- a minute without a report, between others of the instance: the last one before holds, the first one before that;
- an instance without any report, or without any of a resource: its share of the machine's usage beyond the measured
  instances. Shares are in proportion to requests, and at most the request; they are equal where nothing is requested.
  On a machine that was not measured either, the usage is the request;
- a machine's minute without a sample: the last one before holds.

The usage of a machine beyond its instances is a load of its own, which stays there under every policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ops.record.entry import Figures
from ops.replay.traces.trace import filled
from ops.replay.workload import MINUTE_S
from scorer.snapshot.arrays import Bools, Floats, Integers

INTERVAL_MINUTES_MAX = 120


@dataclass(frozen=True, eq=False)
class Stretch:
    """The lives in time and place: minutes from the origin, rows of machines."""

    origin_s: float
    start: Integers
    length: Integers
    where: Sequence[Sequence[tuple[int, int]]]
    """For each instance: from which minute on which row, -1 for a machine that is not in the fleet."""

    @property
    def base(self) -> Integers:
        """[K] The first cell of each."""
        base: Integers = np.concatenate([[0], np.cumsum(self.length)[:-1]]).astype(np.int64)
        return base

    @property
    def cells(self) -> int:
        return int(self.length.sum())


class Used:
    def __init__(self, stretch: Stretch, machines: int, minutes: int, resources: int) -> None:
        self._stretch, self._base = stretch, stretch.base
        self.usage: Any = np.full((resources, stretch.cells), np.nan, np.float32)
        self._load = np.zeros((resources, machines, minutes), np.float32)
        self._weight = np.zeros((resources, machines, minutes), np.float32)

    @property
    def load(self) -> Any:
        """[R, M, T] what machines used; NaN where no sample is."""
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Any = self._load / self._weight
        return found

    def put_usage(self, figures: Figures, lives_of: Mapping[int, Sequence[int]]) -> None:
        """Add figures of instances; ``lives_of``: for each row of the figures the lives to which it may belong."""
        if not len(figures):
            return
        last = np.floor((figures.until_s - self._stretch.origin_s) / MINUTE_S - 0.5).astype(np.int64)
        first = np.floor((figures.until_s - figures.seconds - self._stretch.origin_s) / MINUTE_S + 0.5).astype(np.int64)
        first = np.maximum(first, last - INTERVAL_MINUTES_MAX)
        count = int(figures.row.max()) + 1
        for turn in range(max(map(len, lives_of.values()), default=0)):  # mostly an id is of one life
            one = np.full(count, -1, np.int64)
            for row, lives in lives_of.items():
                if turn < len(lives):
                    one[row] = lives[turn]
            self._put(one[figures.row], first, last, figures.values)

    def _put(self, life: Integers, first: Integers, last: Integers, values: Any) -> None:
        start, length = self._stretch.start[life], self._stretch.length[life]
        for step in range(int((last - first).max()) + 1):  # mostly a report is of one minute
            minute = first + step
            use = (life >= 0) & (minute <= last) & (minute >= start) & (minute < start + length)
            cells = self._base[life[use]] + minute[use] - start[use]
            self.usage[:, cells] = values[:, use]

    def put_load(self, figures: Figures, rows: Integers) -> None:
        """Add figures of machines; ``rows``: for each row of the figures the machine's row, -1 for none."""
        if not len(figures):
            return
        minute = np.floor((figures.until_s - self._stretch.origin_s) / MINUTE_S - 0.5).astype(np.int64)
        machine = rows[figures.row]
        known = (machine >= 0) & (minute >= 0) & (minute < self._load.shape[2])
        for resource, values in enumerate(figures.values):
            use = known & np.isfinite(values)
            at = (resource, machine[use], minute[use])
            np.add.at(self._load, at, (values[use] * figures.seconds[use]).astype(np.float32))
            np.add.at(self._weight, at, figures.seconds[use].astype(np.float32))


@dataclass(frozen=True, eq=False)
class Filled:
    """Usage and load without gaps, and how much was filled in."""

    usage: Floats
    """[r, cells]"""
    system: Floats
    """[r, M, T] load of no instance."""
    held: int
    """Minutes of instances that have the value of another minute."""
    shared: int
    """Instances whose usage is a share of their machine's."""
    asked: int
    """Instances without any report whose usage is their request, in some minutes at least."""
    unmeasured: int
    """Minutes of machines without a sample."""


def fill(usage: Floats, load: Floats, asked: Floats, stretch: Stretch) -> Filled:
    """Return the usage [r, cells] of resources with its gaps filled, from the machines' load and the requests."""
    usage = usage.copy()
    starts = stretch.base
    known = np.isfinite(usage).any(axis=0)
    owner = np.repeat(np.arange(len(starts)), stretch.length)
    reported = np.zeros(len(starts), np.bool_)
    reported[owner[known]] = True
    held = int(np.count_nonzero(~known & reported[owner]))
    for row in usage:
        _hold(row, owner)
    gaps = ~np.isfinite(load).any(axis=0)
    load = np.array([filled(each) for each in load])
    rest = load - _by_machine(np.nan_to_num(usage), stretch, load.shape)
    shared = _share(usage, np.maximum(rest, 0.0), asked, stretch)
    missing = np.flatnonzero(~np.isfinite(usage).all(axis=0))
    for resource, row in enumerate(usage):
        where = ~np.isfinite(row)
        row[where] = asked[resource, owner[where]]
    by_asked = set(owner[missing].tolist()) - set(np.flatnonzero(reported).tolist())
    system = np.nan_to_num(np.maximum(load - _by_machine(usage, stretch, load.shape), 0.0))
    return Filled(usage, system, held, len(shared - by_asked), len(by_asked), int(np.count_nonzero(gaps)))


def _hold(row: Floats, owner: Integers) -> None:
    """Fill the gaps of one resource within each life, in place: with the value before, else with the first after."""
    known = np.isfinite(row)
    if not known.any():
        return
    at = np.arange(len(row))
    before = np.maximum.accumulate(np.where(known, at, -1))
    after = np.minimum.accumulate(np.where(known, at, len(row))[::-1])[::-1]
    from_before = (before >= 0) & (owner[np.maximum(before, 0)] == owner)
    from_after = (after < len(row)) & (owner[np.minimum(after, len(row) - 1)] == owner)
    source = np.where(from_before, before, np.where(from_after, after, at))
    row[:] = row[source]


def _parts(stretch: Stretch, minutes: int) -> list[tuple[int, int, int, int]]:
    """Return (life, row, from, to): which minutes each life was on which machine of the fleet."""
    found = []
    for life, where in enumerate(stretch.where):
        end = int(stretch.start[life] + stretch.length[life])
        for number, (since, row) in enumerate(where):
            until = where[number + 1][0] if number + 1 < len(where) else end
            begin, stop = max(since, int(stretch.start[life])), min(until, end, minutes)
            if row >= 0 and begin < stop:
                found.append((life, row, begin, stop))
    return found


def _by_machine(usage: Floats, stretch: Stretch, shape: tuple[int, ...]) -> Floats:
    """Return [r, M, T]: the sum over the instances of each machine."""
    total, base = np.zeros(shape), stretch.base
    for life, row, begin, stop in _parts(stretch, shape[2]):
        at = int(base[life] - stretch.start[life])
        total[:, row, begin:stop] += usage[:, at + begin : at + stop]
    return total


def _share(usage: Floats, rest: Floats, asked: Floats, stretch: Stretch) -> set[int]:
    """Divide the rest of a machine's load among its instances without a report, in place; return which got a share."""
    base, parts = stretch.base, _parts(stretch, rest.shape[2])
    weights = np.zeros(rest.shape)
    wanted = np.where(asked > 0, asked, 1e-9)
    unknown = []
    for life, row, begin, stop in parts:
        at = int(base[life] - stretch.start[life])
        missing: Bools = ~np.isfinite(usage[:, at + begin : at + stop])
        if missing.any():
            unknown.append((life, row, begin, stop, at))
            weights[:, row, begin:stop] += missing * wanted[:, life, None]
    found = set()
    for life, row, begin, stop, at in unknown:
        cells = usage[:, at + begin : at + stop]
        share = rest[:, row, begin:stop] * wanted[:, life, None] / np.maximum(weights[:, row, begin:stop], 1e-12)
        most = np.where(asked[:, life, None] > 0, asked[:, life, None], np.inf)
        use = ~np.isfinite(cells) & np.isfinite(share)
        cells[use] = np.minimum(share, most)[use]
        if use.any():
            found.add(life)
    return found
