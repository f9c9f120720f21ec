"""A workload as a folder of tables: the arrays that an ``.npz`` of it would hold (`workload_file`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.replay.traces.find import read_table
from ops.replay.workload import CELLS_MAX, WorkloadError, row_of
from ops.replay.worlds.columns import AMOUNT_MAX, TABLES, TEXTS, TIME_MAX_S, Where, array_of, check_columns, in_tables
from scorer.snapshot.arrays import Bools, Floats, Integers

ON_GRID = 0.01
"""How far the time of a cell may be from its place, in cells."""


def read_folder(path: Path) -> tuple[dict[str, NDArray[Any]], Where]:
    """Return the arrays that an ``.npz`` of the same workload would hold, and where in the tables each value is.

    Raises WorkloadError.
    """
    if not any(path.glob("*.csv*")):
        files = ", ".join(f"{name}.csv" for name in TABLES)
        raise WorkloadError(f"{path.name}: is neither a workload ({files}) nor a recording")
    arrays = _columns(path, "machines") | _columns(path, "instances")
    where = in_tables(path.name, {name: _path(path, name).name for name in ("machines", "instances")})
    check_columns(arrays, where)  # before the usage, which is of these names
    table, header, lines = _table(path, "usage")
    if not lines:
        raise WorkloadError(f"{table}: has no lines")
    number_of = {str(name): number for number, name in enumerate(arrays["instance"])}
    place = header.index("instance")
    for row, line in enumerate(lines, 2):
        if line[place] not in number_of:
            raise WorkloadError(f"{table}: instance, row {row}: {line[place]!r} is not in instances.csv")
    rows = np.array([number_of[line[place]] for line in lines], np.int64)
    times_s = _numbers(table, header, lines, "ts")
    _refuse(~(np.abs(times_s) <= TIME_MAX_S), f"{table}: ts", f"expected a time of at most {TIME_MAX_S:g} s", times_s)
    steps_s = np.diff(np.unique(times_s))
    cell_s = float(steps_s.min()) if steps_s.size else 300.0
    at = (times_s - times_s.min()) / cell_s
    expected = f"expected a whole number of cells of {cell_s:g} s, the shortest step, after {times_s.min():.10g}"
    _refuse(np.abs(at - np.rint(at)) > ON_GRID, f"{table}: ts", expected, times_s)
    cells = np.rint(at).astype(np.int64)
    if (cells.max() + 1) * len(number_of) > CELLS_MAX:
        raise WorkloadError(f"{table}: ts: steps of {cell_s:g} s over {np.ptp(times_s):g} s are too many")
    arrays["ts"] = times_s.min() + np.arange(cells.max() + 1) * cell_s
    again = _second_in_cell(rows, cells)
    if again is not None:
        name = lines[again][place]
        raise WorkloadError(f"{table}: ts, row {again + 2}: {name!r} has a line in this cell of {cell_s:g} s already")
    for name in ("cpu_cores", "mem_mib"):
        if name in header:
            values = _numbers(table, header, lines, name)
            wrong = (values < 0) | (values > AMOUNT_MAX)
            _refuse(wrong, f"{table}: {name}", f"expected from 0 to {AMOUNT_MAX:g}", values)
            grid = np.full((len(number_of), len(arrays["ts"])), np.nan, np.float32)
            grid[rows, cells] = values
            arrays[name] = grid
    return arrays, where


def _refuse(wrong: Bools, column: str, expected: str, values: Floats) -> None:
    """Raise WorkloadError for the first wrong value of a column of a table."""
    if wrong.any():
        row = row_of(wrong, first=2)
        raise WorkloadError(f"{column}, row {row}: {expected}, got {values[row - 2]:.10g}")


def _second_in_cell(rows: Integers, cells: Integers) -> int | None:
    """Return the first line whose instance has another line in the same cell: one of the two would be lost."""
    both = rows * (cells.max() + 1) + cells
    order = np.argsort(both, kind="stable")
    again = order[1:][np.diff(both[order]) == 0]
    return int(again.min()) if again.size else None


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
    for column in TABLES[name]:
        if column not in header:
            raise WorkloadError(f"{shown}: has no column {column}")
    twice = next((column for at, column in enumerate(header) if column in header[:at]), None)
    if twice is not None:
        raise WorkloadError(f"{shown}: has two columns {twice}")
    for row, line in enumerate(lines, 2):
        if len(line) != len(header):
            raise WorkloadError(f"{shown}: row {row}: {len(line)} values, the header has {len(header)}")
    return shown, header, lines


def _columns(folder: Path, name: str) -> dict[str, NDArray[Any]]:
    table, header, lines = _table(folder, name)
    return {
        array: np.array([line[at] for line in lines], np.str_)
        if array in TEXTS
        else _numbers(table, header, lines, column)
        for at, column in enumerate(header)
        if (array := array_of(name, column))
    }


def _numbers(table: str, header: Sequence[str], lines: Sequence[Sequence[str]], column: str) -> Floats:
    """Return a column of numbers, NaN for an empty value."""
    at = header.index(column)
    found = np.full(len(lines), np.nan)
    for row, line in enumerate(lines):
        if line[at]:
            try:
                found[row] = float(line[at])
            except ValueError:
                raise WorkloadError(f"{table}: {column}, row {row + 2}: {line[at]!r} is no number") from None
    return found
