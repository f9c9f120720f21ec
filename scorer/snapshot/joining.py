"""Joining: one column over all machines from the window tables of all partitions.

During an upgrade workers with different settings may run. So each table's windows are joined by length, and its
resources by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.tables.alignment import resource_parts
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


def joined(name: str, tables: Sequence[WindowTable], gather: Integers | None, windows_s: tuple[int, ...]) -> Floats:
    """Return [..., M] float64: a column of the tables side by side, or, with ``gather``, of those rows in that order.

    The row after the last is that of a machine without data.
    """
    if name == "class_mean":
        return np.stack([joined(f"class_{one}", tables, gather, windows_s) for one in PRIORITY_CLASSES])
    if not by_window(name):
        return _side_by_side(name, tables, gather, None)
    parts = [joined_window(name, tables, gather, window_s) for window_s in windows_s]
    return np.stack(parts) if parts else np.empty((0, *_shape(name, tables, gather)))


def joined_window(name: str, tables: Sequence[WindowTable], gather: Integers | None, window_s: int) -> Floats:
    """Return [..., M]: one window of a column with a W axis. Windows that no decision reads are never joined."""
    if name == "class_mean":
        return np.stack([joined_window(f"class_{one}", tables, gather, window_s) for one in PRIORITY_CLASSES])
    return _side_by_side(name, tables, gather, window_s)


def by_window(name: str) -> bool:
    """Return whether a column has a W axis."""
    return "W" in (_LEADING_AXES["class_mean"] if name.startswith("class_") else _LEADING_AXES[name])


def _side_by_side(name: str, tables: Sequence[WindowTable], gather: Integers | None, window_s: int | None) -> Floats:
    parts = [_parts(table, name, window_s) for table in tables]
    whole = slice(0, _R if resource_axis(name) is not None else 1)
    if gather is None and len(tables) == 1 and len(parts[0]) == 1 and parts[0][0][0] == whole:
        return np.asarray(parts[0][0][1], np.float64)[...]
    absent, shape = _ABSENT.get(name, np.nan), _shape(name, tables, gather)
    found = np.empty(shape)
    if gather is not None:
        found[..., -1] = absent
    start = 0
    for table, held in zip(tables, parts, strict=True):
        stop = start + table.header.machines
        _lay(held, found[..., start:stop], absent, name)
        start = stop
    return found if gather is None else found.take(gather, axis=-1)


def _shape(name: str, tables: Sequence[WindowTable], gather: Integers | None) -> tuple[int, ...]:
    """Return the shape [..., rows] of a column, or of one window of it."""
    sizes = {"R": _R, "Q": _Q}
    axes = _LEADING_AXES["class_mean"][1:] if name.startswith("class_") else _LEADING_AXES[name]
    machines = sum(table.header.machines for table in tables)
    return (*(sizes[axis] for axis in axes if axis != "W"), machines + (gather is not None))


def _parts(table: WindowTable, name: str, window_s: int | None) -> list[tuple[slice, NDArray[Any]]]:
    """Return the parts of a column that a table has: rows of the R axis, and their values; one part without that axis.

    With ``window_s``, only that window. Empty when the table does not have the column.
    """
    if name not in table.columns or (window_s is not None and window_s not in table.header.windows_s):
        return []
    at = 0 if window_s is None else table.header.windows_s.index(window_s)
    parts = [(slice(0, 1), table.columns[name])] if resource_axis(name) is None else resource_parts(table, name)
    return [(rows, part if window_s is None else part[at]) for rows, part in parts]


def _lay(parts: list[tuple[slice, NDArray[Any]]], target: Floats, absent: float, name: str) -> None:
    """Write a table's parts to its rows of ``target`` [..., M], by the name of each resource; ``absent`` elsewhere."""
    axis = resource_axis(name)
    if axis is None:
        target[...] = parts[0][1] if parts else absent
        return
    after: Any = (slice(None),) * (-axis - 1)
    missing = set(range(_R))
    for rows, part in parts:
        target[(..., rows, *after)] = part
        missing.difference_update(range(rows.start, rows.stop))
    for row in missing:
        target[(..., row, *after)] = absent
