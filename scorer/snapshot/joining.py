"""Joining: one column over all machines from the windows of all partitions.

During an upgrade workers with different settings may run. So each table's windows are joined by length, and its
resources by name.

A column is mended from the one of an earlier snapshot of the same shape, in a copy: only the rows of other versions are
read again. Where more than a `MENDED_MOST` part of the rows changed, it is joined anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.tables.alignment import resource_parts
from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import PERCENTILES, WindowTable, resource_axis
from scorer.snapshot.arrays import Floats, Integers

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
MENDED_MOST = 1 / 8
"""With a larger part of the rows changed, to join a column anew is as fast."""

_Key = tuple[str, int | None]
_Source = tuple[WindowTable, Integers | slice, Integers | slice]
"""A table, some rows of it, and the places of their values."""


class Columns:
    """The columns of one snapshot, [..., M] float64; each is made when it is first read, and read-only.

    ``gather``: the row among those of all tables of each machine, the one after the last for a machine without data;
    None where the machines are the rows of the tables, one after another.
    """

    def __init__(
        self,
        tables: Sequence[PartitionWindows],
        gather: Integers | None,
        versions: Integers,
        before: Columns | None = None,
    ) -> None:
        """``before``: the columns of an earlier snapshot of the same shape."""
        self.tables = tables
        self.gather = gather
        self.versions = versions
        self._found: dict[_Key, Floats] = {}
        self._latest: dict[_Key, tuple[Integers, Floats]] = {} if before is None else before._latest
        """The columns that were made last in snapshots of this shape, with the versions of their rows."""
        self._from: dict[str, tuple[Floats, Floats]] = {} if before is None else before._from
        """What was made last of a column, with that column."""
        self._changes: tuple[Integers | None, Integers, Sequence[_Source]] = (None, np.zeros(0, np.int64), [])
        self._asked: dict[_Key, None] = {}
        """The columns that were asked for."""
        self._followed: dict[_Key, None] = {}
        """Those that were made because the snapshot before was asked for them, or had made them so itself."""

    def get(self, name: str, window_s: int | None = None) -> Floats:
        """Return a column, of one window if it has a W axis; ``window_s`` 0 is the window that no table has."""
        self._asked[name, window_s] = None
        return self._made(name, window_s)

    def follow(self, before: Columns) -> None:
        """Make the columns that were asked for in the snapshot before, so that the next decision need not."""
        self._followed = before._asked.copy() or before._followed
        for name, window_s in self._followed:
            self._made(name, window_s)
        self._asked.clear()  # of what was asked for to make other values

    def made_from(self, column: Floats, name: str, compute: Callable[[Floats], Floats]) -> Floats:
        """Return ``compute(column)``, made once under this name while the column stays the same object."""
        before, found = self._from.get(name, (None, column))
        if before is not column:
            found = compute(column)
            found.flags.writeable = False
            self._from[name] = column, found
        return found

    def _made(self, name: str, window_s: int | None) -> Floats:
        key = name, window_s
        column = self._found.get(key)
        if column is None:
            column = self._mended(name, window_s)
            column.flags.writeable = False
            self._found[key] = column
            self._latest[key] = self.versions, column
        return column

    def _mended(self, name: str, window_s: int | None) -> Floats:
        if name == "class_mean":
            return np.stack([self.get(f"class_{one}", window_s) for one in PRIORITY_CLASSES])
        versions, before = self._latest.get((name, window_s), (None, None))
        if versions is None or before is None:
            return self._joined(name, window_s)
        rows, sources = self._changed_since(versions)
        if rows.size > self.versions.size * MENDED_MOST:
            return self._joined(name, window_s)
        if not rows.size:
            return before
        values = _read(name, window_s, sources, rows.size)
        if values.tobytes() == before[..., rows].tobytes():  # as of capacity, which hardly ever changes
            return before
        column = before.copy()
        column[..., rows] = values
        return column

    def _changed_since(self, versions: Integers) -> tuple[Integers, Sequence[_Source]]:
        """Return the rows with other versions, and where their values are."""
        known, rows, sources = self._changes
        if known is not versions:
            rows = np.flatnonzero(versions != self.versions)
            few = rows.size <= versions.size * MENDED_MOST
            sources = _sources(self.tables, rows if self.gather is None else self.gather[rows]) if few else []
            self._changes = versions, rows, sources
        return rows, sources

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


def _sources(tables: Sequence[PartitionWindows], rows: Integers) -> Sequence[_Source]:
    """Return where the values of these rows of all tables are."""
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
    """Return [..., count]: the values of these sources, ``absent`` where there are none."""
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
