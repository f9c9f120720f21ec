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

Cells longer than a minute become minutes by a stated random rule, `ops.replay.minutes`; capacity bounds them.
Errors name file, column and row; rows of a table count from its header, which is row 1; those of an array from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.replay.minutes import minute_readings
from ops.replay.traces.find import array_names, read_arrays
from ops.replay.traces.trace import filled
from ops.replay.workload import CELLS_MAX, MINUTE_S, ORIGIN_S, Usage, Workload, WorkloadError, check, row_of
from ops.replay.worlds.columns import (
    AMOUNT_MAX,
    TIME_MAX_S,
    Where,
    check_arrays,
    check_columns,
    classes_of,
    in_arrays,
    labels_of,
)
from ops.replay.worlds.tables import read_folder
from schemas.resources import CPU, MEMORY, RESOURCES
from scorer.snapshot.arrays import Floats

EPOCH_S_MIN = 1e9
NEVER_S = 2.0 * TIME_MAX_S
"""The end of an instance that has none: after the last cell of any workload."""
MIB = 2.0**20


def is_workload(path: Path) -> bool:
    """Return whether a path is a workload rather than a trace: a folder, or an ``.npz`` with instances."""
    return path.is_dir() or (path.name.endswith(".npz") and "instance" in array_names(path))


def workload_name(source: str) -> str:
    """Return the name of the workload in a file or folder of this name: up to the first dot."""
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
    workload = Workload(
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
    return check(workload, source)


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
    """Return the usage in minutes; what is drawn inside longer cells is the same for the same file."""
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
    return Usage(
        values=flat,
        base=np.arange(count) * length,
        length=np.full(count, length),
        shift=np.zeros(count, np.int64),
        scale=np.ones((len(RESOURCES), count)),
        most=np.full((len(RESOURCES), count), np.inf),
    )


def _expected(arrays: Mapping[str, NDArray[Any]]) -> Floats:
    given = {CPU: ("expected_cores", 1.0), MEMORY: ("expected_mem_mib", MIB)}
    if not any(name in arrays for name, _ in given.values()):
        return np.full((len(RESOURCES), 0), np.nan)
    found = np.full((len(RESOURCES), len(arrays["instance"])), np.nan)
    for resource, (name, unit) in given.items():
        if name in arrays:
            found[resource] = np.asarray(arrays[name], np.float64) * unit
    return found
