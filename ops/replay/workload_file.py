"""A workload as a file: the format of a recorded fleet (`streams.load_generator.recording_file`), with instances.

``.npz`` (numpy), M machines, K instances, T cells of one length:

| array                      | shape  | meaning                                                                     |
|----------------------------|--------|-----------------------------------------------------------------------------|
| machine                    | [M]    | names of the fleet's machines                                               |
| cores                      | [M]    | CPU capacity                                                                |
| mem_capacity_mib           | [M]    | optional: memory; without it memory is not measured                         |
| machine_labels             | [M]    | optional: text ``key=value,key=value``                                      |
| ts or slot_s               | [T]    | start of each cell in s, evenly spaced; epoch seconds if after 2001         |
| instance                   | [K]    | names of the instances                                                      |
| asked_cores, asked_mem_mib | [K]    | requests; memory is optional; a given 0 differs from no amount              |
| start_s, end_s             | [K]    | when it starts and ends, in the time of ``ts``; what started before is       |
|                            |        | placed at the beginning                                                     |
| kind, labels               | [K]    | optional: text; labels as above                                             |
| priority_class             | [K]    | optional: text; prod where it is empty                                      |
| expected_cores,            | [K]    | optional: expected usage given by the deployer, NaN without                 |
| expected_mem_mib           |        |                                                                             |
| cpu_cores, mem_mib         | [K, T] | usage in cores, in MiB; NaN where there is no sample: the last one holds    |
| fill_s                     | []     | optional: history at the beginning, shown apart                             |

A folder holds the same: ``machines.csv`` and ``instances.csv`` with the columns above, and ``usage.csv`` with
``instance,ts,cpu_cores`` and optionally ``mem_mib``, one line an instance and cell, in any order; each may be ``.gz``.

Cells longer than a minute become minutes by a stated random rule, `ops.replay.minutes`; capacity bounds them.
Errors name file, column and row; rows of a table count from its header, which is row 1; those of an array from 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.replay.minutes import minute_readings
from ops.replay.traces.find import read_arrays
from ops.replay.workload import MINUTE_S, ORIGIN_S, Usage, Workload, WorkloadError, check, finite, row_of
from ops.replay.workload_columns import Where, check_columns, classes_of, in_arrays, labels_of
from ops.replay.workload_tables import read_folder
from schemas.resources import CPU, MEMORY, RESOURCES
from scorer.snapshot.arrays import Floats

EPOCH_S_MIN = 1e9
MIB = 2.0**20


def is_workload(path: Path) -> bool:
    """Return whether a path is a workload rather than a trace: a folder, or an ``.npz`` with instances."""
    if path.is_dir():
        return True
    return path.name.endswith(".npz") and path.exists() and "instance" in _names(path)


def _names(path: Path) -> Sequence[str]:
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            return list(getattr(found, "files", ()))
    except (OSError, ValueError):
        return ()


def read_workload(path: Path) -> Workload:
    """Return the workload; raises WorkloadError naming file, column and row."""
    if path.is_dir():
        arrays, where = read_folder(path)
        return build(arrays, path.name, where)
    return build(read_arrays(path), path.name)


def build(arrays: Mapping[str, NDArray[Any]], source: str, where: Where | None = None) -> Workload:
    """Return the workload in named arrays; raises WorkloadError naming the place by ``where``."""
    where = where or in_arrays(source)
    for name in ("machine", "cores", "instance", "asked_cores", "start_s", "end_s", "cpu_cores"):
        if name not in arrays:
            raise WorkloadError(f"{source}: has no {name}")
    starts_s = arrays["ts"] if "ts" in arrays else arrays.get("slot_s")
    if starts_s is None:
        raise WorkloadError(f"{source}: has neither ts nor slot_s")
    machines, instances = arrays["machine"], arrays["instance"]
    _check_shapes(arrays, source, len(machines), len(instances), len(starts_s))
    check_columns(arrays, where)
    begin_s, cell_s = _cells(np.asarray(starts_s, np.float64), source)
    start_s, end_s = (np.asarray(arrays[name], np.float64) - begin_s for name in ("start_s", "end_s"))
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
    minutes = int(len(starts_s) * cell_s / MINUTE_S)
    fill = float(arrays["fill_s"]) if "fill_s" in arrays else 0.0
    workload = Workload(
        name=source.partition(".")[0],
        machines=[str(name) for name in machines],
        capacity=capacity,
        instances=[str(instances[k]) for k in order],
        asked=asked[:, order],
        given=(CPU, MEMORY) if measured and "asked_mem_mib" in arrays else (CPU,),
        start=start[order],
        life=life[order],
        usage=usage,
        minutes=minutes,
        fill_minutes=min(int(fill // MINUTE_S), minutes - 1),
        origin_s=int(begin_s) // MINUTE_S * MINUTE_S if begin_s >= EPOCH_S_MIN else ORIGIN_S,
        machine_labels=labels_of(arrays, "machine_labels", where),
        kinds=[str(arrays["kind"][k]) for k in order] if "kind" in arrays else (),
        labels=[found[k] for k in order] if (found := labels_of(arrays, "labels", where)) else (),
        classes=[given[k] for k in order] if (given := classes_of(arrays, where)) else (),
        expected=_expected(arrays)[:, order] if _expected(arrays).shape[1] else _expected(arrays),
    )
    return check(workload, source)


def _check_shapes(arrays: Mapping[str, NDArray[Any]], source: str, machines: int, instances: int, cells: int) -> None:
    expected: dict[str, tuple[int, ...]] = dict.fromkeys(("cores", "mem_capacity_mib", "machine_labels"), (machines,))
    expected |= dict.fromkeys(
        (
            "asked_cores",
            "asked_mem_mib",
            "start_s",
            "end_s",
            "kind",
            "labels",
            "priority_class",
            "expected_cores",
            "expected_mem_mib",
        ),
        (instances,),
    )
    expected |= dict.fromkeys(("cpu_cores", "mem_mib"), (instances, cells))
    for name, shape in expected.items():
        if name in arrays and np.shape(arrays[name]) != shape:
            raise WorkloadError(f"{source}: {name}: has the shape {np.shape(arrays[name])}, expected {shape}")


def _cells(starts_s: Floats, source: str) -> tuple[float, float]:
    """Return when the first cell begins and how long each is."""
    finite(starts_s, "ts", source)
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
    """Return the usage in minutes; what is drawn inside longer cells is the same for the same file."""
    values: list[NDArray[np.float32] | None] = []
    length = 0
    generator = np.random.default_rng(1)
    for resource in range(len(RESOURCES)):
        name, unit = {CPU: ("cpu_cores", 1.0), MEMORY: ("mem_mib", MIB)}.get(resource, ("", 1.0))
        if name not in arrays or np.isnan(capacity[resource]).all():
            values.append(None)
            continue
        cells = np.asarray(arrays[name], np.float32)[order]
        wrong = (cells < 0) | np.isinf(cells)
        if wrong.any():
            row, cell = np.argwhere(wrong)[0]
            raise WorkloadError(
                f"{source}: {name}, row {order[row] + 1}, cell {cell + 1}: expected 0 or more, got {cells[row, cell]:g}"
            )
        cells = _held(cells) * np.float32(unit)
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


def _held(cells: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cells with each gap as the last value before it, as the first one before that; 0 where none is."""
    known = np.isfinite(cells)
    last = np.maximum.accumulate(np.where(known, np.arange(cells.shape[1]), 0), axis=1)
    held = np.take_along_axis(cells, np.maximum(last, np.argmax(known, axis=1)[:, None]), axis=1)
    return np.nan_to_num(held, nan=0.0)


def _expected(arrays: Mapping[str, NDArray[Any]]) -> Floats:
    given = {CPU: ("expected_cores", 1.0), MEMORY: ("expected_mem_mib", MIB)}
    if not any(name in arrays for name, _ in given.values()):
        return np.full((len(RESOURCES), 0), np.nan)
    found = np.full((len(RESOURCES), len(arrays["instance"])), np.nan)
    for resource, (name, unit) in given.items():
        if name in arrays:
            found[resource] = np.asarray(arrays[name], np.float64) * unit
    return found
