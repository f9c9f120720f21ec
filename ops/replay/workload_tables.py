"""A workload as a folder of tables: the arrays that an ``.npz`` of it would hold (`ops.replay.workload_file`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.replay.traces.find import read_table
from ops.replay.workload import WorkloadError, finite
from ops.replay.workload import row_of as row_of_first
from ops.replay.workload_columns import Where, check_columns, in_tables
from scorer.snapshot.arrays import Floats, Integers

CELLS_MAX = 200_000_000
_NUMBERS = {
    "cores", "mem_capacity_mib", "asked_cores", "asked_mem_mib", "start_s", "end_s", "expected_cores",
    "expected_mem_mib",
}  # fmt: skip
"""Columns of the tables that hold numbers; an empty value is none."""


def read_folder(path: Path) -> tuple[dict[str, NDArray[Any]], Where]:
    """Return the arrays that an ``.npz`` of the same workload would hold, and where in the tables each value is.

    Raises WorkloadError.
    """
    arrays = _columns(path, "machines", {"labels": "machine_labels"}) | _columns(path, "instances", {})
    where = in_tables(path.name, {name: _path(path, name).name for name in ("machines", "instances")})
    check_columns(arrays, where)
    table, header, lines = _table(path, "usage")
    for name in ("instance", "ts", "cpu_cores"):
        if name not in header:
            raise WorkloadError(f"{table}: has no column {name}")
    if "instance" not in arrays:
        raise WorkloadError(f"{path.name}/instances.csv: has no column instance")
    if not lines:
        raise WorkloadError(f"{table}: has no lines")
    row_of = {str(name): row for row, name in enumerate(arrays["instance"])}
    place = header.index("instance")
    for row, line in enumerate(lines, 2):
        if line[place] not in row_of:
            raise WorkloadError(f"{table}: instance, row {row}: {line[place]!r} is not in instances.csv")
    rows = np.array([row_of[line[place]] for line in lines], np.int64)
    times_s = _numbers(table, header, lines, "ts")
    finite(times_s, "ts", table, first=2)
    steps_s = np.diff(np.unique(times_s))
    cell_s = float(np.median(steps_s)) if steps_s.size else 300.0
    cells = np.floor((times_s - times_s.min()) / cell_s + 1e-9).astype(np.int64)
    if (cells.max(initial=0) + 1) * len(row_of) > CELLS_MAX:
        raise WorkloadError(f"{table}: ts: steps of {cell_s:g} s over {np.ptp(times_s):g} s are too many")
    arrays["ts"] = times_s.min() + np.arange(cells.max(initial=0) + 1) * cell_s
    arrays["cell_s"] = np.array(cell_s)
    _check_once(rows, cells, table, lines, place)
    for name in ("cpu_cores", "mem_mib"):
        if name in header:
            values = _numbers(table, header, lines, name)
            wrong = (values < 0) | np.isinf(values)
            if wrong.any():
                at = row_of_first(wrong, first=0)
                raise WorkloadError(f"{table}: {name}, row {at + 2}: expected 0 or more, got {values[at]:g}")
            grid = np.full((len(row_of), len(arrays["ts"])), np.nan, np.float32)
            grid[rows, cells] = values
            arrays[name] = grid
    return arrays, where


def _check_once(rows: Integers, cells: Integers, table: str, lines: Sequence[Sequence[str]], place: int) -> None:
    """Refuse a second line of an instance in one cell: one of the two would be lost."""
    both = rows * (cells.max(initial=0) + 1) + cells
    order = np.argsort(both, kind="stable")
    again = order[1:][np.diff(both[order]) == 0]
    if again.size:
        at = int(again.min())
        raise WorkloadError(f"{table}: ts, row {at + 2}: {lines[at][place]!r} has a line in this cell already")


def _path(folder: Path, name: str) -> Path:
    path = next((at for suffix in (".csv", ".csv.gz") if (at := folder / (name + suffix)).exists()), None)
    if path is None:
        raise WorkloadError(f"{folder.name}: has no {name}.csv")
    return path


def _table(folder: Path, name: str) -> tuple[str, list[str], list[list[str]]]:
    """Return what a table is called in messages, its header and its lines, each as long as the header."""
    path = _path(folder, name)
    header, lines = read_table(path)
    shown = f"{folder.name}/{path.name}"
    for row, line in enumerate(lines, 2):
        if len(line) != len(header):
            raise WorkloadError(f"{shown}: row {row}: {len(line)} values, the header has {len(header)}")
    return shown, header, lines


def _columns(folder: Path, name: str, renamed: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    table, header, lines = _table(folder, name)
    return {
        renamed.get(column, column): _numbers(table, header, lines, column)
        if column in _NUMBERS
        else np.array([line[at] for line in lines])
        for at, column in enumerate(header)
    }


def _numbers(table: str, header: Sequence[str], lines: Sequence[Sequence[str]], column: str) -> Floats:
    at = header.index(column)
    found = np.full(len(lines), np.nan)
    for row, line in enumerate(lines):
        if line[at]:
            try:
                found[row] = float(line[at])
            except ValueError:
                raise WorkloadError(f"{table}: {column}, row {row + 2}: {line[at]!r} is no number") from None
    return found
