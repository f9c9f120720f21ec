"""A workload as a file: a recorded fleet (`streams.load_generator.source.recording_file`), with instances.

``.npz`` (numpy), M machines, K instances, T cells of one length:

| array                      | shape  | meaning                                                                     |
|----------------------------|--------|-----------------------------------------------------------------------------|
| machine                    | [M]    | names of the fleet's machines                                               |
| cores                      | [M]    | CPU capacity                                                                |
| mem_capacity_mib           | [M]    | optional: memory; it is not measured unless every machine has some          |
| machine_labels             | [M]    | optional: text ``key=value,key=value``                                      |
| ts or slot_s               | [T]    | start of each cell in s, evenly spaced; epoch seconds if after 2001; one    |
|                            |        | cell alone is 300 s long                                                    |
| instance                   | [K]    | names of the instances                                                      |
| asked_cores, asked_mem_mib | [K]    | requests; memory is optional; a given 0 differs from no amount              |
| start_s, end_s             | [K]    | when it starts and ends, in the time of ``ts``; what started before is       |
|                            |        | placed at the beginning; no end, NaN: it runs on                            |
| kind, labels               | [K]    | optional: text; labels as above                                             |
| priority_class             | [K]    | optional: text; prod where it is empty                                      |
| expected_cores,            | [K]    | optional: expected usage given by the deployer, NaN without                 |
| expected_mem_mib           |        |                                                                             |
| cpu_cores, mem_mib         | [K, T] | usage in cores, in MiB; NaN where there is no sample: the last one holds,   |
|                            |        | the first one before it; 0 where there is none                              |
| fill_s                     | []     | optional: history at the beginning, shown apart                             |

A folder holds the same: ``machines.csv`` and ``instances.csv`` with the columns above, and ``usage.csv`` with
``instance,ts,cpu_cores`` and optionally ``mem_mib``, one line an instance and cell, in any order; each may be ``.gz``.
Other arrays and columns are ignored.

Cells longer than a minute become minutes by a stated random rule, `ops.replay.worlds.minutes`; capacity bounds them.
Errors name file, column and row; rows of a table count from its header, which is row 1; those of an array from 1.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.replay.traces.formats import array_names, read_arrays
from ops.replay.traces.tables import Table, read_table
from ops.replay.traces.trace import filled
from ops.replay.workload import CELLS_MAX, MINUTE_S, ORIGIN_S, Usage, Workload, WorkloadError, row_of
from ops.replay.worlds.columns import (
    AMOUNT_MAX,
    TABLES,
    TEXTS,
    TIME_MAX_S,
    Where,
    array_of,
    check_arrays,
    check_columns,
    classes_of,
    in_arrays,
    in_tables,
    labels_of,
)
from ops.replay.worlds.minutes import minute_readings
from schemas.resources import CPU, MEMORY, RESOURCES
from scorer.snapshot.arrays import Bools, Floats, Integers

EPOCH_S_MIN = 1e9
NEVER_S = 2.0 * TIME_MAX_S
"""The end of an instance that has none: after the last cell of any workload."""
MIB = 2.0**20
ON_GRID = 0.01
"""How far the time of a cell may be from its place, in cells."""


def is_workload(path: Path) -> bool:
    """Return whether a path is a workload rather than a trace: a folder, or an ``.npz`` with instances."""
    return path.is_dir() or (path.name.endswith(".npz") and "instance" in array_names(path))


def workload_name(source: str) -> str:
    """Return the workload's name: that of the file or folder, up to the first dot."""
    return source.partition(".")[0]


def read_workload(path: Path) -> Workload:
    """Return the workload; raises WorkloadError naming file, column and row."""
    if path.is_dir():
        arrays, where = read_folder(path)
        return build(arrays, path.name, where)
    return build(read_arrays(path), path.name)


def build(arrays: Mapping[str, NDArray[Any]], source: str, where: Where | None = None) -> Workload:
    """Return the workload in named arrays; raises WorkloadError naming the place by ``where``."""
    where = where or in_arrays(source)
    check_arrays(arrays, source)
    for name in ("machine", "instance"):
        if not len(arrays[name]):
            raise WorkloadError(f"{source}: {name}: there are no {name}s")
    check_columns(arrays, where)
    starts_s = np.asarray(arrays["ts"] if "ts" in arrays else arrays["slot_s"], np.float64)
    begin_s, cell_s = _cells(starts_s, source)
    machines, instances = arrays["machine"], arrays["instance"]
    minutes = _minutes(len(starts_s), cell_s, max(len(machines), len(instances)), source)
    start_s = np.asarray(arrays["start_s"], np.float64) - begin_s
    end_s = np.nan_to_num(np.asarray(arrays["end_s"], np.float64), nan=NEVER_S) - begin_s
    capacity = np.full((len(RESOURCES), len(machines)), np.nan)
    capacity[CPU] = arrays["cores"]
    asked = np.zeros((len(RESOURCES), len(instances)))
    asked[CPU] = arrays["asked_cores"]
    if measured := "mem_capacity_mib" in arrays and "mem_mib" in arrays:
        capacity[MEMORY] = arrays["mem_capacity_mib"] * MIB
        asked[MEMORY] = np.rint(np.asarray(arrays.get("asked_mem_mib", 0.0), np.float64) * MIB)
    start = np.maximum(np.ceil(start_s / MINUTE_S), 0).astype(np.int64)
    life = np.maximum(np.rint((end_s - np.maximum(start_s, 0)) / MINUTE_S), 1).astype(np.int64)
    running = end_s > 0
    if not running.any():
        raise WorkloadError(f"{source}: instance: none runs after the first cell of ts begins")
    order = np.flatnonzero(running)[np.argsort(start[running], kind="stable")]
    usage = _usage(arrays, source, cell_s, capacity, order)
    fill_s = float(arrays.get("fill_s", 0.0))
    if not 0 <= fill_s <= TIME_MAX_S:
        raise WorkloadError(f"{source}: fill_s: expected 0 or more seconds, got {fill_s:g}")
    return Workload(
        name=workload_name(source),
        machines=[str(name) for name in machines],
        capacity=capacity,
        instances=[str(instances[k]) for k in order],
        asked=asked[:, order],
        given=(CPU, MEMORY) if measured and "asked_mem_mib" in arrays else (CPU,),
        start=start[order],
        life=life[order],
        usage=usage,
        minutes=minutes,
        fill_minutes=min(int(fill_s // MINUTE_S), minutes - 1),
        origin_s=int(begin_s) // MINUTE_S * MINUTE_S if begin_s >= EPOCH_S_MIN else ORIGIN_S,
        machine_labels=labels_of(arrays, "machine_labels", where),
        kinds=[str(arrays["kind"][k]) for k in order] if "kind" in arrays else (),
        labels=[found[k] for k in order] if (found := labels_of(arrays, "labels", where)) else (),
        classes=[given[k] for k in order] if (given := classes_of(arrays, where)) else (),
        expected=_expected(arrays)[:, order] if _expected(arrays).shape[1] else _expected(arrays),
    )


def _cells(starts_s: Floats, source: str) -> tuple[float, float]:
    """Return when the first cell begins and how long each is."""
    wrong = ~(np.abs(starts_s) <= TIME_MAX_S)
    if wrong.any():
        raise WorkloadError(f"{source}: ts, row {row_of(wrong)}: expected a time of at most {TIME_MAX_S:g} s")
    if not starts_s.size:
        raise WorkloadError(f"{source}: ts: there are no cells")
    steps_s = np.diff(starts_s)
    if not steps_s.size:
        return float(starts_s[0]), 300.0
    uneven = ~np.isclose(steps_s, steps_s[0]) | (steps_s <= 0)
    if uneven.any():
        raise WorkloadError(f"{source}: ts, row {row_of(uneven) + 1}: the times are not evenly spaced")
    return float(starts_s[0]), float(steps_s[0])


def _minutes(cells: int, cell_s: float, rows: int, source: str) -> int:
    """Return the length of a workload; ``rows``: its instances or its machines, whichever are more."""
    minutes = int(cells * cell_s / MINUTE_S)
    if not minutes:
        raise WorkloadError(f"{source}: ts: {cells} cells of {cell_s:g} s are less than a minute")
    if minutes * rows > CELLS_MAX:
        raise WorkloadError(f"{source}: ts: {minutes:,} minutes of {rows:,} rows are too many: at most {CELLS_MAX:,}")
    return minutes


def _usage(arrays: Mapping[str, NDArray[Any]], source: str, cell_s: float, capacity: Floats, order: Any) -> Usage:
    """Return the usage by minute; random values inside longer cells are the same for the same file."""
    values: list[NDArray[np.float32] | None] = []
    length = 0
    generator = np.random.default_rng(1)
    for resource in range(len(RESOURCES)):
        name, unit = {CPU: ("cpu_cores", 1.0), MEMORY: ("mem_mib", MIB)}.get(resource, ("", 1.0))
        if name not in arrays or np.isnan(capacity[resource]).all():
            values.append(None)
            continue
        with np.errstate(over="ignore"):
            cells = np.asarray(arrays[name], np.float32)[order]
        wrong = (cells < 0) | (cells > AMOUNT_MAX)
        if wrong.any():
            row, cell = np.argwhere(wrong)[0]
            place = f"{source}: {name}, row {order[row] + 1}, cell {cell + 1}"
            raise WorkloadError(f"{place}: expected from 0 to {AMOUNT_MAX:g}, got {cells[row, cell]:g}")
        cells = np.nan_to_num(filled(cells), nan=0.0) * np.float32(unit)
        readings = minute_readings(cells, cell_s, generator, most=float(np.nanmax(capacity[resource])))
        values.append(readings.reshape(-1))
        length = readings.shape[1]
    size = next((each.size for each in values if each is not None), 0)
    flat = np.array([np.full(size, np.nan, np.float32) if each is None else each for each in values], np.float32)
    count = len(order)
    return Usage.plain(flat, np.arange(count) * length, np.full(count, length), np.zeros(count, np.int64))


def _expected(arrays: Mapping[str, NDArray[Any]]) -> Floats:
    given = {CPU: ("expected_cores", 1.0), MEMORY: ("expected_mem_mib", MIB)}
    if not any(name in arrays for name, _ in given.values()):
        return np.full((len(RESOURCES), 0), np.nan)
    found = np.full((len(RESOURCES), len(arrays["instance"])), np.nan)
    for resource, (name, unit) in given.items():
        if name in arrays:
            found[resource] = np.asarray(arrays[name], np.float64) * unit
    return found


def read_folder(path: Path) -> tuple[dict[str, NDArray[Any]], Where]:
    """Return the arrays of the equivalent ``.npz``, and for each value its place in the tables.

    Raises WorkloadError.
    """
    if not any(path.glob("*.csv*")):
        files = ", ".join(f"{name}.csv" for name in TABLES)
        raise WorkloadError(f"{path.name}: is neither a workload ({files}) nor a recording")
    arrays = _columns(path, "machines") | _columns(path, "instances")
    where = in_tables(path.name, {name: _path(path, name).name for name in ("machines", "instances")})
    check_columns(arrays, where)  # before the usage, which is of these names
    usage = _table(path, "usage")
    table, names = usage.name, usage.texts("instance")
    if not names:
        raise WorkloadError(f"{table}: has no lines")
    number_of = {str(name): number for number, name in enumerate(arrays["instance"])}
    for row, name in enumerate(names, 2):
        if name not in number_of:
            raise WorkloadError(f"{table}: instance, row {row}: {name!r} is not in instances.csv")
    rows = np.array([number_of[name] for name in names], np.int64)
    times_s = usage.numbers("ts")
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
        raise WorkloadError(
            f"{table}: ts, row {again + 2}: {names[again]!r} has a line in this cell of {cell_s:g} s already"
        )
    for name in ("cpu_cores", "mem_mib"):
        if name in usage.header:
            values = usage.numbers(name)
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
    """Return the first line that repeats an instance and a cell: only one of such lines could be used."""
    both = rows * (cells.max() + 1) + cells
    order = np.argsort(both, kind="stable")
    again = order[1:][np.diff(both[order]) == 0]
    return int(again.min()) if again.size else None


def _path(folder: Path, name: str) -> Path:
    path = next((at for suffix in (".csv", ".csv.gz") if (at := folder / (name + suffix)).exists()), None)
    if path is None:
        raise WorkloadError(f"{folder.name}: has no {name}.csv")
    return path


def _table(folder: Path, name: str) -> Table:
    path = _path(folder, name)
    return read_table(path, TABLES[name], f"{folder.name}/{path.name}")


def _columns(folder: Path, name: str) -> dict[str, NDArray[Any]]:
    table = _table(folder, name)
    return {
        array: np.array(table.texts(column), np.str_) if array in TEXTS else table.numbers(column)
        for column in table.header
        if (array := array_of(name, column))
    }
