"""The Snapshot: all data on the machines at one moment, as read-only numpy columns, machine axis last.

It is built every few tens of milliseconds (`scorer.snapshot.builder`). A column is made when it is first read, joined
from the windows of all partitions. Decisions read rows, not columns; the rows are updated from the changes of a
snapshot (`scorer.ranking.machines`). Letters as in `schemas.tables.window_table`: W windows, R resources, Q
percentiles, M machines.

During an upgrade workers with different settings may run. So each table's windows are joined by length, and its
resources by name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.messages.process import Pipeline
from schemas.resources import ALL, PRIORITY_CLASSES, RESOURCES
from schemas.tables.learned import Learned
from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import PERCENTILES, WARMING_COVERAGE, WindowTable, resource_axis, resource_parts
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.rules import MachineRules, Roster
from scorer.snapshot.usages import Usages

_R, _Q = len(RESOURCES), len(PERCENTILES)
_LEADING_AXES: dict[str, tuple[str, ...]] = {
    "at": (), "skew": (), "end": (), "boot": (), "interval_s": (), "peak_day": (), "peak_since": (),
    "capacity": ("R",), "peak_today": ("R",), "peak_yesterday": ("R",),
    "peak_today_s": ("R",), "peak_yesterday_s": ("R",),
    "mean": ("W", "R"), "std": ("W", "R"), "max": ("W", "R"), "filled": ("W", "R"), "coverage": ("W", "R"),
    "percentile": ("W", "R", "Q"), "class_mean": ("C", "W", "R"),
}  # fmt: skip
_ABSENT = {"filled": 0.0, "coverage": 0.0, "skew": 0.0}
"""The value of a column where nothing is known; NaN unless listed."""

_Key = tuple[str, int | None]
_Source = tuple[WindowTable, Integers | slice, Integers | slice]
"""A table, some rows of it, and the places of their values."""


class Columns:
    """The columns of one snapshot, [..., M] float64; each is made when it is first read, and read-only.

    ``gather``: each machine's row in all tables together, one past the end for a machine without data; None where the
    machines are the rows of the tables in their order.
    """

    def __init__(self, tables: Sequence[PartitionWindows], gather: Integers | None) -> None:
        self.tables = tables
        self.gather = gather
        self._found: dict[_Key, Floats] = {}

    def get(self, name: str, window_s: int | None = None) -> Floats:
        """Return a column, for one window if it has a W axis; ``window_s`` 0 stands for no window."""
        key = name, window_s
        column = self._found.get(key)
        if column is None:
            if name == "class_mean":
                column = np.stack([self.get(f"class_{one}", window_s) for one in PRIORITY_CLASSES])
            else:
                column = self._joined(name, window_s)
            column.flags.writeable = False
            self._found[key] = column
        return column

    def of_rows(self, rows: Integers) -> Columns:
        """Return the columns of some machines, so that a flush is read without the rest of the fleet."""
        return _FewColumns(self, rows)

    def _joined(self, name: str, window_s: int | None) -> Floats:
        """Return the column made from all tables."""
        count = sum(table.machines_count for table in self.tables)
        sources: list[_Source] = []
        start = 0
        for table in self.tables:
            sources.append((table.base, slice(None), slice(start, start + table.base.header.machines)))
            if table.changes is not None and table.rows.size:
                sources.append((table.changes, slice(None), start + table.rows))
            start += table.machines_count
        found = _read(name, window_s, sources, count + (self.gather is not None))
        return found if self.gather is None else found.take(self.gather, axis=-1)


class _FewColumns(Columns):
    """The columns of a part of the machines of other columns."""

    def __init__(self, of: Columns, rows: Integers) -> None:
        super().__init__(of.tables, rows if of.gather is None else of.gather[rows])
        assert self.gather is not None
        self._sources = _sources(self.tables, self.gather)

    def _joined(self, name: str, window_s: int | None) -> Floats:
        assert self.gather is not None
        return _read(name, window_s, self._sources, self.gather.size)


def _sources(tables: Sequence[PartitionWindows], rows: Integers) -> Sequence[_Source]:
    """Return table and position of these rows of all tables."""
    order = np.argsort(rows, kind="stable")
    starts = np.cumsum([0, *(table.machines_count for table in tables)])
    bounds = np.searchsorted(rows[order], starts)
    found: list[tuple[WindowTable, Integers, Integers]] = []
    for table, start, first, last in zip(tables, starts, bounds, bounds[1:], strict=False):
        places, local = order[first:last], rows[order[first:last]] - start
        if table.changes is None or not table.rows.size:
            found.append((table.base, local, places))
            continue
        at = np.minimum(np.searchsorted(table.rows, local), table.rows.size - 1)
        new = table.rows[at] == local
        found.append((table.changes, at[new], places[new]))
        found.append((table.base, local[~new], places[~new]))
    return [source for source in found if source[2].size]


def _read(name: str, window_s: int | None, sources: Sequence[_Source], count: int) -> Floats:
    """Return [..., count]: the values from these sources; ``absent`` where there is no value."""
    absent = _ABSENT.get(name, np.nan)
    sizes = {"R": _R, "Q": _Q}
    axes = _LEADING_AXES["class_mean"][1:] if name.startswith("class_") else _LEADING_AXES[name]
    found = np.full((*(sizes[axis] for axis in axes if axis != "W"), count), absent)
    axis = resource_axis(name)
    for table, rows, places in sources:
        for resources, part in _parts(table, name, window_s):
            target: Any = (..., places) if axis is None else (..., resources, *(slice(None),) * (-axis - 2), places)
            found[target] = part[..., rows]
    return found


def by_window(name: str) -> bool:
    """Return whether a column has a W axis."""
    return "W" in (_LEADING_AXES["class_mean"] if name.startswith("class_") else _LEADING_AXES[name])


def _parts(table: WindowTable, name: str, window_s: int | None) -> list[tuple[slice, NDArray[Any]]]:
    """Return the parts of a column that a table has: rows of the R axis, and their values; one part without that axis.

    With ``window_s``, only that window. Empty when the table does not have the column.
    """
    if name not in table.columns or (window_s is not None and window_s not in table.header.windows_s):
        return []
    at = 0 if window_s is None else table.header.windows_s.index(window_s)
    parts = [(slice(0, 1), table.columns[name])] if resource_axis(name) is None else resource_parts(table, name)
    return [(rows, part if window_s is None else part[at]) for rows, part in parts]


LONGEST_COVERED = 0
"""As a window: for each machine the longest one that is covered."""

_covering = [row for row, resource in enumerate(ALL) if resource.covers]
_in_a_row = _covering == list(range(len(_covering)))
_COVERING: list[int] | slice = slice(len(_covering)) if _in_a_row else _covering
"""The resources in which a window must be covered; a slice copies nothing."""


Read = Callable[[str, int], Floats]
"""From a column with a W axis and the place of a window on it to that window of the column, [..., M]."""


class ChosenWindows:
    """The windows of one decision: one for each machine. A column is joined when it is first read."""

    def __init__(self, read: Read, position: Integers, window_s: Floats, coverage: Floats, used: Sequence[int]) -> None:
        self._read = read
        self._used = used
        """The places that are in ``position``; not empty."""
        self.position = position
        """[M] place of the machine's window on the W axis."""
        self.window_s = window_s
        """[M] length of the window used."""
        self.coverage = coverage
        """[M] the least coverage over the resources the machine has."""
        self.warming: Bools = coverage < WARMING_COVERAGE
        """[M] less than half covered."""

    @cached_property
    def mean(self) -> Floats:
        """[R, M] mean usage; NaN where unknown."""
        return self.picked("mean")

    @cached_property
    def std(self) -> Floats:
        """[R, M] population standard deviation."""
        return self.picked("std")

    @cached_property
    def filled(self) -> Floats:
        """[R, M] filled slots."""
        return self.picked("filled")

    def picked(self, name: str) -> Floats:
        """Return [..., M]: each machine's own window of a column with a W axis; not a copy where all use the same."""
        first, *others = self._used
        found = self._read(name, first)
        if others:
            found = found.copy()
        for place in others:
            rows = np.flatnonzero(self.position == place)
            found[..., rows] = self._read(name, place)[..., rows]
        return found


def choose_windows(read: Read, windows_s: tuple[int, ...], window_s: int, machines: int) -> ChosenWindows:
    """Return one window length for all machines, or each machine's longest covered window.

    Where no window is covered, it is the longest of the best covered ones, and the machine is warming. While the
    longest one is covered on all machines, the usual case, the others are not read.
    """
    zero = np.zeros(machines, np.int64)
    if not windows_s:
        return ChosenWindows(read, zero, np.zeros(machines), np.zeros(machines), [0])
    longest = len(windows_s) - 1
    place = longest if window_s == LONGEST_COVERED else windows_s.index(window_s)
    position, coverage, used = zero + place, _least_coverage(read, place), [place]
    if window_s == LONGEST_COVERED and machines and coverage.min() < WARMING_COVERAGE:
        least = np.array([_least_coverage(read, each) for each in range(longest)] + [coverage])
        covered = least >= WARMING_COVERAGE
        best = np.where(covered.any(axis=0), np.argmax(covered[::-1], axis=0), np.argmax(least[::-1], axis=0))
        position = longest - best
        coverage = np.take_along_axis(least, position[None], axis=0)[0]
        used = np.flatnonzero(np.bincount(position)).tolist()
    return ChosenWindows(read, position, np.array(windows_s, np.float64)[position], coverage, used)


def _least_coverage(read: Read, place: int) -> Floats:
    """Return [M]: the least coverage of the counted resources that have data in the window; 0 without any."""
    coverage, mean = read("coverage", place)[_COVERING], read("mean", place)[_COVERING]
    somewhere_unknown = bool(np.isnan(mean.sum()))
    known = np.where(np.isfinite(mean), coverage, np.inf) if somewhere_unknown else coverage
    least: Floats = np.minimum.reduce(known, axis=0)
    if somewhere_unknown:
        least[np.isinf(least)] = 0.0
    return least


class Snapshot:
    """All data on the machines. Read-only; made by `scorer.snapshot.builder.build_snapshot`."""

    def __init__(
        self,
        columns: Columns,
        roster: Roster,
        rules: MachineRules,
        windows_s: tuple[int, ...],
        shape: int,
        versions: Integers,
        sources: Any,
    ) -> None:
        self.columns = columns
        self.roster = roster
        self.rules = rules
        self.windows_s = windows_s
        self.shape = shape
        """Equal in two snapshots whose rows are the same machines, with the same windows."""
        self.versions = versions
        """[M] Raised when anything of a machine changed: its windows, facts or rules (`scorer.snapshot.builder`)."""
        self.sources = sources
        self.learned: Learned | None = None
        """The learned use: the share of their requests that instances use; None while nothing is learned."""
        self.usages = Usages()
        """Usage by instance, as agents report it; look up only instances that the ledger has on that machine."""
        self.predicted: bytes | None = None
        """The predicted peaks as they are stored (`scorer.classes.prediction`); None while there are none."""
        self.pipeline = Pipeline()
        """The state of the stream's workers, from their heartbeats."""
        self._origin: Snapshot | None = None
        self._stacked: dict[str, Floats] = {}
        self._chosen: dict[int, ChosenWindows] = {}

    def __len__(self) -> int:
        return self.versions.size

    @property
    def origin(self) -> Snapshot:
        """The snapshot without the cordons of a what-if."""
        return self if self._origin is None else self._origin

    def of_rows(self, rows: Integers) -> Snapshot:
        """Return the data on the machines in these rows; ``names`` still has all machines."""
        rules, versions = self.rules.of_rows(rows), self.versions[rows]
        return Snapshot(self.columns.of_rows(rows), self.roster, rules, self.windows_s, 0, versions, None)

    @property
    def names(self) -> tuple[str, ...]:
        return self.roster.names

    def changed_since(self, other: Snapshot) -> Integers | None:
        """Return the rows that differ from those of ``other``, ascending; None when the shapes differ.

        Cordons of a what-if are patches beside the rows (`scorer.ranking.machines`), and no difference.
        """
        if self.shape != other.shape:
            return None
        same = self.versions is other.versions
        return np.zeros(0, np.int64) if same else np.flatnonzero(self.versions != other.versions)

    def with_use(
        self,
        learned: Learned | None = None,
        usages: Usages | None = None,
        predicted: bytes | None = None,
        pipeline: Pipeline = Pipeline(),  # noqa: B008
    ) -> Snapshot:
        """Return the snapshot with the use of instances, and the state of the pipeline."""
        found = copy.copy(self)
        found.pipeline = pipeline
        found.learned, found.usages, found.predicted = learned, usages or Usages(), predicted
        return found

    def with_cordon(self, machines: Iterable[str]) -> Snapshot:
        """Return the snapshot as if an operator had cordoned these machines, too; unknown names are ignored."""
        index = self.roster.index
        found = copy.copy(self)
        found._origin = self.origin
        found.rules = self.rules.with_cordon([index[name] for name in machines if name in index])
        return found

    def column(self, name: str) -> Floats:
        """Return a column of the window tables over all machines, as float64; made at the first call."""
        if not by_window(name):
            return self.columns.get(name)
        column = self._stacked.get(name)
        if column is None:
            parts = [self.window(name, place) for place in range(len(self.windows_s))]
            axis = int(name == "class_mean")  # the classes come first
            empty = np.expand_dims(self.window(name, 0), axis).take([], axis)
            column = self._stacked[name] = np.stack(parts, axis) if parts else empty
            column.flags.writeable = False
        return column

    @cached_property
    def partition(self) -> Integers:
        """[M] Partition of the table that each machine's row is read from; -1 for a machine without one."""
        tables, gather = self.columns.tables, self.columns.gather
        parts = [np.full(table.machines_count, table.header.partition, np.int64) for table in tables]
        joined = np.concatenate([*parts, np.full(1, -1, np.int64)])
        return joined[:-1] if gather is None else joined[gather]

    @cached_property
    def has_data(self) -> Bools:
        """[M] Whether the machine ever had a sample."""
        return np.isfinite(self.column("at"))

    @cached_property
    def seen_at(self) -> Floats:
        """[M] Event time of the newest sample, by the broker's clock; -inf without data.

        The age of a machine's data is now less this.
        """
        seen_at = self.column("at") - self.column("skew")
        if not np.isfinite(seen_at.sum()):
            seen_at = np.where(self.has_data, self.column("at") - np.nan_to_num(self.column("skew")), -np.inf)
        return seen_at

    @cached_property
    def machines_with_data(self) -> int:
        return int(np.count_nonzero(self.has_data))

    @cached_property
    def newest_at(self) -> float:
        """Event time of the newest sample of all machines; -inf without data."""
        return float(self.seen_at.max(initial=-np.inf))

    @cached_property
    def written_at(self) -> float:
        """When a worker last wrote windows, by its clock. No sample is newer, whatever its machine's clock said."""
        return max((table.header.written_at for table in self.columns.tables), default=0.0) or np.inf

    @cached_property
    def capacity(self) -> Floats:
        """[R, M] The operator's figure, else the window table's, else the agent's fact; NaN where unknown."""
        capacity = self.column("capacity")
        agent, operator = self.rules.capacity_agent, self.rules.capacity_operator
        if self.rules.has_capacity_agent and np.isnan(capacity.sum()):
            capacity = np.where(np.isfinite(capacity), capacity, agent)
        return capacity if self.rules.plain_allocatable else np.where(np.isfinite(operator), operator, capacity)

    @cached_property
    def allocatable(self) -> Floats:
        """[R, M] capacity * share - reserve, never below 0: the one basis of every comparison."""
        if self.rules.plain_allocatable:
            return self.capacity
        return np.maximum(self.capacity * self.rules.share - self.rules.reserve, 0.0)

    @cached_property
    def inverse_allocatable(self) -> Floats:
        """[R, M] 1 / allocatable; NaN where unknown or 0."""
        return inverse_of(self.allocatable)

    def windows(self, window_s: int = LONGEST_COVERED) -> ChosenWindows:
        """Return the columns of one window length, or of each machine's longest covered window.

        Where no window is covered, it is the longest of the best covered ones, and the machine is warming.

        Raises KeyError for a length that no table has.
        """
        chosen = self._chosen.get(window_s)
        if chosen is None:
            if window_s != LONGEST_COVERED and window_s not in self.windows_s:
                raise KeyError(window_s)
            read = partial(_window, self.columns, self.windows_s)  # of the snapshot's own method it would be a cycle
            chosen = self._chosen[window_s] = choose_windows(read, self.windows_s, window_s, len(self))
        return chosen

    def window(self, name: str, place: int) -> Floats:
        """Return [..., M]: one window of a column with a W axis, by its place in `windows_s`; made at the first call.

        Without any window it holds the values of machines without data.
        """
        return _window(self.columns, self.windows_s, name, place)


def inverse_of(column: Floats) -> Floats:
    """Return 1 / x for each number; NaN for 0."""
    with np.errstate(divide="ignore"):
        inverse = 1.0 / column
    if np.isinf(inverse).any():
        inverse[np.isinf(inverse)] = np.nan
    return inverse


def _window(columns: Columns, windows_s: Sequence[int], name: str, place: int) -> Floats:
    return columns.get(name, windows_s[place] if windows_s else 0)


@dataclass
class Latest:
    """The newest snapshot, shared by the thread that builds snapshots and the thread that decides.

    Each field is written by one of the two threads; to assign and to read one is atomic.
    """

    snapshot: Snapshot | None = None
    """Written by the thread that builds snapshots; None before the first."""
    rules_version: bytes | None = None
    """The version of the operators' rules in the snapshot, or an older one; written after the snapshot."""
    ledger_machines: Iterable[str] = ()
    """Machines that hold instances, written by the thread that decides: a snapshot has them even without windows."""
