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

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ops.replay.traces.formats import array_names, read_arrays
from ops.replay.traces.tables import Table, read_table
from ops.replay.traces.trace import filled
from ops.replay.workload import CELLS_MAX, MINUTE_S, ORIGIN_S, Usage, Workload, WorkloadError, row_of
from ops.replay.worlds.minutes import minute_readings
from schemas.resources import CPU, MEMORY, PRIORITY_CLASSES, RESOURCES
from scorer.snapshot.arrays import Bools, Floats

Where = Callable[[str, int], str]
"""Returns the place of a value as text, from its column and its position there."""

ARRAYS = {
    "machine": "M", "cores": "M", "mem_capacity_mib": "M", "machine_labels": "M",
    "ts": "T", "slot_s": "T",
    "instance": "K", "asked_cores": "K", "asked_mem_mib": "K", "start_s": "K", "end_s": "K", "kind": "K", "labels": "K",
    "priority_class": "K", "expected_cores": "K", "expected_mem_mib": "K",
    "cpu_cores": "KT", "mem_mib": "KT", "fill_s": "",
}  # fmt: skip
"""The arrays of an ``.npz`` with their axes; other arrays are ignored."""
TEXTS = {"machine", "machine_labels", "instance", "kind", "labels", "priority_class"}
"""The columns of text; the others are numbers."""
TABLES = {
    "machines": ("machine", "cores"),
    "instances": ("instance", "asked_cores", "start_s", "end_s"),
    "usage": ("instance", "ts", "cpu_cores"),
}
"""The tables of a folder, with the columns that each must have."""
AMOUNT_MAX = 1e9
"""The largest number of cores or MiB."""
TIME_MAX_S = 1e11
"""The largest time, s, and the smallest with a minus."""


class _Numbers(NamedTuple):
    """The numbers that a column may hold."""

    expected: str
    may_miss: bool = False
    """NaN may stand for no value."""
    least: float = 0.0
    most: float = AMOUNT_MAX


NUMBERS = {
    "cores": _Numbers("above 0"),
    "mem_capacity_mib": _Numbers("above 0", may_miss=True),
    "asked_cores": _Numbers("of 0 or more"),
    "asked_mem_mib": _Numbers("of 0 or more"),
    "expected_cores": _Numbers("of 0 or more", may_miss=True),
    "expected_mem_mib": _Numbers("of 0 or more", may_miss=True),
    "start_s": _Numbers("", least=-TIME_MAX_S, most=TIME_MAX_S),
    "end_s": _Numbers("", may_miss=True, least=-TIME_MAX_S, most=TIME_MAX_S),
}
"""The columns of numbers but the usage, with what they may hold; checked in this order."""


def array_of(table: str, column: str) -> str:
    """Return the name of the array for a column of machines or instances; "" for any other column, which is ignored.

    >>> array_of("machines", "labels"), array_of("instances", "labels"), array_of("instances", "machine")
    ('machine_labels', 'labels', '')
    """
    name = "machine_labels" if (table, column) == ("machines", "labels") else column
    return name if ARRAYS.get(name) == {"machines": "M", "instances": "K"}[table] else ""


def in_arrays(source: str) -> Where:
    """Return the places of values in an ``.npz``, for errors: rows of its arrays count from 1.

    >>> in_arrays("mine.npz")("cores", 0)
    'mine.npz: cores, row 1'
    """
    return lambda column, position: f"{source}: {column}, row {position + 1}"


def in_tables(source: str, files: Mapping[str, str]) -> Where:
    """Return the places of values in a folder of tables, for errors: the header is row 1. ``files``: by table.

    >>> in_tables("mine", {"machines": "machines.csv"})("machine_labels", 0)
    'mine/machines.csv: labels, row 2'
    """

    def where(column: str, position: int) -> str:
        table = "machines" if ARRAYS[column] == "M" else "instances"
        return f"{source}/{files[table]}: {column.removeprefix('machine_')}, row {position + 2}"

    return where


def check_arrays(arrays: Mapping[str, NDArray[Any]], source: str) -> None:
    """Refuse arrays that are missing, have another shape, or have text in place of numbers. Raises WorkloadError."""
    for name in (*TABLES["machines"], *TABLES["instances"], "cpu_cores"):
        if name not in arrays:
            raise WorkloadError(f"{source}: has no {name}")
    if "ts" not in arrays and "slot_s" not in arrays:
        raise WorkloadError(f"{source}: has neither ts nor slot_s")
    cells = arrays["ts"] if "ts" in arrays else arrays["slot_s"]
    sizes = {"M": np.size(arrays["machine"]), "K": np.size(arrays["instance"]), "T": np.size(cells)}
    for name, axes in ARRAYS.items():
        if name not in arrays:
            continue
        expected = tuple(sizes[axis] for axis in axes)
        if np.shape(arrays[name]) != expected:
            raise WorkloadError(f"{source}: {name}: has the shape {np.shape(arrays[name])}, expected {expected}")
        kind = arrays[name].dtype
        if name not in TEXTS and kind.kind not in "iuf":
            raise WorkloadError(f"{source}: {name}: expected numbers, got {'text' if kind.kind in 'SU' else kind}")


def check_columns(arrays: Mapping[str, NDArray[Any]], where: Where) -> None:
    """Refuse duplicate names, and values that are not numbers or out of bounds. Raises WorkloadError."""
    for column in ("machine", "instance"):
        seen: set[str] = set()
        for position, name in enumerate(map(str, arrays[column])):
            if not name or name in seen:
                problem = f"{name!r} is there twice" if name else "expected a name"
                raise WorkloadError(f"{where(column, position)}: {problem}")
            seen.add(name)
    for name, numbers in NUMBERS.items():
        if name in arrays:
            _check_numbers(np.asarray(arrays[name], np.float64), name, numbers, where)
    early = np.asarray(arrays["end_s"], np.float64) <= np.asarray(arrays["start_s"], np.float64)
    if early.any():
        raise WorkloadError(f"{where('end_s', row_of(early, 0))}: the instance ends before it starts")


def _check_numbers(values: Floats, name: str, numbers: _Numbers, where: Where) -> None:
    with np.errstate(invalid="ignore"):
        good = values > 0 if numbers.expected == "above 0" else values >= numbers.least
        wrong = ~(good & (values <= numbers.most)) & ~(np.isnan(values) & numbers.may_miss)
    if wrong.any():
        at = row_of(wrong, 0)
        expected = f"expected a number {numbers.expected}".rstrip()
        if abs(values[at]) > numbers.most:
            expected = f"expected a number of at most {numbers.most:g}"
        raise WorkloadError(f"{where(name, at)}: {expected}, got {values[at]:g}")


def labels_of(arrays: Mapping[str, NDArray[Any]], name: str, where: Where) -> list[dict[str, str]]:
    """Return the labels in a column of ``key=value,key=value``; none without the column. Raises WorkloadError."""
    found = []
    for position, text in enumerate(arrays.get(name, ())):
        pairs = [pair.partition("=") for pair in str(text).split(",") if pair]
        if any(not key or not equals for key, equals, _ in pairs):
            raise WorkloadError(f"{where(name, position)}: expected key=value,key=value, got {str(text)!r}")
        found.append({key.strip(): value.strip() for key, _, value in pairs})
    return found


def classes_of(arrays: Mapping[str, NDArray[Any]], where: Where) -> Sequence[str]:
    """Return the priority classes, prod where none is given; none without the column. Raises WorkloadError."""
    found = [str(name) or PRIORITY_CLASSES[0] for name in arrays.get("priority_class", ())]
    for position, name in enumerate(found):
        if name not in PRIORITY_CLASSES:
            place = where("priority_class", position)
            raise WorkloadError(f"{place}: expected {', '.join(PRIORITY_CLASSES)}, got {name!r}")
    return found


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
    minutes, rows = int(len(starts_s) * cell_s / MINUTE_S), max(len(machines), len(instances))
    if not minutes:
        raise WorkloadError(f"{source}: ts: {len(starts_s)} cells of {cell_s:g} s are less than a minute")
    if minutes * rows > CELLS_MAX:
        raise WorkloadError(f"{source}: ts: {minutes:,} minutes of {rows:,} rows are too many: at most {CELLS_MAX:,}")
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
    both = rows * (cells.max() + 1) + cells
    order = np.argsort(both, kind="stable")
    repeated = order[1:][np.diff(both[order]) == 0]  # only one line of an instance and a cell could be used
    if repeated.size:
        again = int(repeated.min())
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
