"""Joining: one column over all machines from the windows of all partitions.

During an upgrade workers with different settings may run. So each table's windows are joined by length, and its
resources by name.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import PERCENTILES, WindowTable, resource_axis, resource_parts
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

    def of_rows(self, rows: Integers) -> "Columns":
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
