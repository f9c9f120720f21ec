"""A recorded fleet: reads a load trace from a file, and replays it as if it happened now.

``.npz`` (numpy), M machines and T cells of one length:

| array            | shape  | meaning                                                                        |
|------------------|--------|--------------------------------------------------------------------------------|
| machine          | [M]    | names                                                                          |
| ts or slot_s     | [T]    | start of each cell in s, evenly spaced                                         |
| cpu_pct, mem_pct | [M, T] | percent of the machine's capacity, NaN where there is no sample; clamped to 100 |
| rx_kbps, tx_kbps | [M, T] | optional: kilobytes (1000 bytes) a second received and sent, NaN likewise      |
| cores            | [M]    | optional; else the setting ``cores``                                           |
| mem_capacity_mib | [M]    | optional; else the setting ``memory``                                          |
| phase_s          | [M]    | optional: seconds into the cell at which the machine was sampled               |

``.csv`` or ``.csv.gz``: a header and one line a machine and time, in any order: ``machine,ts,cpu_pct,mem_pct`` and
optionally ``rx_kbps,tx_kbps,cores,mem_capacity_mib``; an empty value is no sample. Times become cells of the median
step between two lines of a machine (the last line of a cell counts). Other columns are ignored.

The NIC's usage is the busier of received and sent; its capacity is in no trace and comes from a setting. A capacity of
zero or NaN makes a resource unknown.
"""

import csv
import gzip
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import Rejected, check_machine_id
from schemas.resources import CPU, MEMORY, NIC, RESOURCES
from schemas.values.errors import shortened
from streams.load_generator.source.source import Float, Machines

CELLS_MAX = 100_000_000
"""The most cells (machines times moments) of a trace, for the memory that they take: 16 bytes a cell."""
CELL_S_MAX = 31 * 86_400.0
CAPACITY_MAX = 1e16
"""The largest capacity in a sample: `schemas.messages.sample`."""


class RecordingError(ValueError):
    """A recording that cannot be replayed; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """Capacities where the trace gives none, in base units."""

    cores: float
    memory: float
    nic: float


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The content of a file: utilization [R, M, T] of 0 to 1 (NaN: no sample), capacities, and the cells' length."""

    names: list[str]
    utilization: NDArray[np.float32]
    capacity: Float
    cell_s: float
    phase_s: Float

    @property
    def length_s(self) -> float:
        return float(self.utilization.shape[-1] * self.cell_s)


def load_trace(path: Path, defaults: Defaults) -> Trace:
    """Return the trace in a file; raises RecordingError for one that is missing, foreign or damaged."""
    readers = {".npz": read_npz, ".csv": _read_csv, ".csv.gz": _read_csv}
    kind = next((suffix for suffix in readers if path.name.endswith(suffix)), None)
    if kind is None:
        raise RecordingError(f"recording: {path.name} is neither .npz, .csv nor .csv.gz")
    try:
        arrays = readers[kind](path)
        return _build(arrays, defaults)
    except OSError as error:
        raise RecordingError(f"recording: {path} cannot be read: {error.strerror or error}") from None
    except KeyError as error:
        raise RecordingError(f"recording: {path.name} has no {error.args[0]}") from None
    except Exception as error:  # zipfile, zlib and numpy do not document what they raise for a damaged archive
        raise RecordingError(shortened(f"recording: {path.name}: {error or type(error).__name__}")) from None


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file of numpy; raises the errors of zipfile, zlib and numpy for a damaged one."""
    with path.open("rb") as file:
        arrays = np.load(file, allow_pickle=False)
        if not hasattr(arrays, "files"):
            raise ValueError("holds one array without a name")
        return {name: arrays[name] for name in arrays.files}


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays that an ``.npz`` of the same trace would hold."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.name.endswith(".gz") else raw).decode()
    lines = csv.reader(io.StringIO(text))
    header = next(lines, [])
    rows = [line for line in lines if line]
    for name in ("machine", "ts", "cpu_pct", "mem_pct"):
        if name not in header:
            raise KeyError(name)
    if not rows:
        raise ValueError("has no lines")
    if any(len(row) != len(header) for row in rows):
        raise ValueError("has a line with more or fewer values than the header")
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    names, machine = np.unique(np.array(columns["machine"]), return_inverse=True)
    numbers = {
        name: np.array([float(value) if value else np.nan for value in columns[name]])
        for name in ("ts", "cpu_pct", "mem_pct", "rx_kbps", "tx_kbps", "cores", "mem_capacity_mib")
        if name in columns
    }
    times_s = numbers.pop("ts")
    if not np.isfinite(times_s).all():
        raise ValueError("has a line without a time")
    order = np.lexsort((times_s, machine))
    steps_s = np.diff(times_s[order])[np.diff(machine[order]) == 0]
    steps_s = steps_s[steps_s > 0]
    cell_s = float(np.median(steps_s)) if len(steps_s) else 300.0
    moments = np.ptp(times_s) / cell_s + 1
    if not moments * len(names) <= CELLS_MAX:
        raise ValueError(f"has times from {times_s.min():g} to {times_s.max():g} in steps of {cell_s:g} s: too many")
    cells = np.floor((times_s[order] - times_s.min()) / cell_s).astype(np.int64)
    arrays: dict[str, NDArray[Any]] = {"machine": names, "ts": np.arange(cells.max() + 1) * cell_s}
    arrays["cell_s"] = np.array(cell_s)
    for name, values in numbers.items():
        grid = np.full((len(names), len(arrays["ts"])), np.nan)
        grid[machine[order], cells] = values[order]
        one_each = name in ("cores", "mem_capacity_mib")
        arrays[name] = np.nanmax(np.where(np.isnan(grid), -np.inf, grid), axis=1) if one_each else grid
    return arrays


def _build(arrays: Mapping[str, NDArray[Any]], defaults: Defaults) -> Trace:
    """Return the trace from named arrays; raises KeyError for a missing one, ValueError for one that does not fit."""
    names = [str(name) for name in arrays["machine"]]
    _check_names(names)
    cpu = np.asarray(arrays["cpu_pct"], np.float32)
    shape = (len(names), cpu.shape[-1])
    starts_s = np.asarray(arrays["ts"] if "ts" in arrays else arrays["slot_s"], np.float64)
    cell_s = float(arrays["cell_s"]) if "cell_s" in arrays else _cell_s(starts_s)
    phase_s = np.broadcast_to(np.asarray(arrays.get("phase_s", 0.0), np.float64), len(names))
    if not (np.isfinite(starts_s).all() and 0 < cell_s <= CELL_S_MAX and (np.abs(phase_s) <= CELL_S_MAX).all()):
        raise ValueError(f"has times that cannot be replayed: steps of {cell_s:g} s, at most {CELL_S_MAX:g} s")
    capacity = np.full((len(RESOURCES), len(names)), np.nan)
    capacity[CPU] = np.asarray(arrays.get("cores", defaults.cores), np.float64)
    capacity[MEMORY] = defaults.memory
    if "mem_capacity_mib" in arrays:
        capacity[MEMORY] = np.asarray(arrays["mem_capacity_mib"], np.float64) * 2**20
    utilization = np.full((len(RESOURCES), *shape), np.nan, np.float32)
    utilization[CPU] = cpu / 100
    utilization[MEMORY] = np.asarray(arrays["mem_pct"], np.float32) / 100
    if "rx_kbps" in arrays and "tx_kbps" in arrays:
        capacity[NIC] = defaults.nic
        utilization[NIC] = np.fmax(arrays["rx_kbps"], arrays["tx_kbps"]) * 1_000 / defaults.nic
    if len(starts_s) != shape[1] or not shape[1]:
        raise ValueError(f"has {len(starts_s)} times and {shape[1]} cells")
    if np.nanmin(utilization, initial=0) < 0 or np.isinf(utilization).any():
        raise ValueError("has a negative or infinite value")
    if np.nanmax(capacity, initial=0) > CAPACITY_MAX:
        raise ValueError(f"has a capacity of {np.nanmax(capacity):g}: at most {CAPACITY_MAX:g}")
    np.minimum(utilization, 1.0, out=utilization)
    return Trace(
        names=names,
        utilization=utilization,
        capacity=np.where(capacity > 0, capacity, np.nan),
        cell_s=cell_s,
        phase_s=phase_s,
    )


def _check_names(names: list[str]) -> None:
    if not names:
        raise ValueError("has no machines")
    if len(set(names)) != len(names):
        raise ValueError("names a machine twice")
    for name in names:
        try:
            check_machine_id(name)
        except Rejected as error:
            raise ValueError(f"machine {error.detail}") from None


def _cell_s(starts_s: Float) -> float:
    steps_s = np.diff(starts_s)
    if not len(steps_s):
        return 300.0
    if steps_s.min() <= 0 or not np.allclose(steps_s, steps_s[0]):
        raise ValueError("has times that are not evenly spaced")
    return float(steps_s[0])


class Recording:
    """A trace replayed so that its moment ``start_s`` falls on ``origin_s``, epoch s.

    Every reading is the value of the cell that contains its time. No variation is added within a cell: an interval
    within one has a standard deviation of zero and a maximum equal to its mean. Where the trace has no sample the
    resource is left out; without any sample nothing is published. ``speed`` seconds of the trace pass in each second;
    after its end it begins again. Event times are always those of the wall clock, since a message from the future would
    be refused.
    """

    def __init__(
        self,
        trace: Trace,
        *,
        origin_s: float,
        start_s: float = 0.0,
        speed: float = 1.0,
        count: int | None = None,
    ) -> None:
        if not 0 <= start_s < trace.length_s:
            raise RecordingError(f"start_s: the recording is {trace.length_s:g} s long, got {start_s:g}")
        if count is not None and count > len(trace.names):
            raise RecordingError(f"machines: the recording has {len(trace.names)}, got {count}")
        chosen = slice(count)
        names = trace.names[chosen]
        self.machines = Machines(names=names, labels=[{} for _ in names], capacity=trace.capacity[:, chosen])
        self._trace = trace
        self._origin_s = origin_s
        self._start_s = start_s
        self._speed = speed

    def usage(self, rows: NDArray[np.int64], times_s: Float) -> Float:
        """Return usage in the resources' units, [R, K, m]; NaN where the trace has no sample."""
        trace = self._trace
        position_s = self._start_s + (times_s - self._origin_s) * self._speed
        cells = np.floor((position_s - trace.phase_s[rows]) / trace.cell_s).astype(np.int64)
        utilization = trace.utilization[:, rows, cells % trace.utilization.shape[-1]].astype(np.float64)
        return utilization * self.machines.capacity[:, None, rows]
