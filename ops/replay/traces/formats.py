"""Reads a trace or a file of lives. Its content tells the kind; each kind is read by one function."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.replay.traces.tables import Table, read_table
from ops.replay.traces.trace import DAY_S, Trace, checked, joined_by_job, of_days
from ops.replay.workload import CELLS_MAX, WorkloadError
from schemas.resources import CPU, MEMORY, NIC
from schemas.values.errors import shortened
from scorer.snapshot.arrays import Floats
from streams.load_generator.source.recording_file import Defaults, RecordingError, load_trace, read_npz

_CELL_S = 300.0
_MINUTE_S = 60.0
"""Cells of a recording that are no whole number of minutes, or no whole part of a day, are read as minutes."""
_SMD = ("cpu_r", "mem_u")
NAB_HEADER = ["series", "timestamp", "value"]
_LINE = 1e9
"""Bytes/s, more than any source of the public traces has: rates are read as parts of it."""
_SIZES_UNKNOWN = Defaults(cores=np.nan, memory=np.nan, nic=_LINE)
_FAMILIES = ("bitbrains", "gcd", "alibaba")
"""A file whose name has one of these in it is of that family; another is one by itself."""
DENSE_S = 9_936_000.0
OPENB = ("cpu_milli", "memory_mib", "creation_time", "deletion_time", "scheduled_time")
LOG_MEDIAN_S, LOG_SPREAD = 720.0, 1.9
"""Without a file: lives are log-normal with openb's median and its middle half."""
_SIZES = ((1.0, 0.3), (2.0, 0.25), (4.0, 0.25), (8.0, 0.15), (16.0, 0.05))
"""Without a file: cores and how often."""
_BYTES_PER_CORE = 4 * 2.0**30


@dataclass(frozen=True, eq=False)
class Lives:
    """Requests as they occur together: [N] each."""

    life_s: Floats
    cores: Floats
    memory_bytes: Floats


def planetlab(columns: Mapping[str, NDArray[Any]], source: str) -> Trace:
    """Return PlanetLab slivers: some days of CPU in whole percent, 300 s apart; a sliver is ``<host>_<slice>``.

    A sliver that was there on several of the days has them all, in order; its slice is its kind. Raises WorkloadError.
    """
    parts: list[NDArray[np.float32]] = []
    rows: dict[str, list[int]] = {}
    count = 0
    for day in columns["days"]:
        try:
            names, cpu = columns[f"machine_{day}"], columns[f"cpu_{day}"]
        except KeyError as error:
            raise WorkloadError(f"{source}: day {day} has no {error.args[0]}") from None
        if cpu.ndim != 2 or len(names) != len(cpu) or cpu.shape[1] != round(86_400 / _CELL_S):
            raise WorkloadError(
                f"{source}: cpu_{day}: {cpu.shape} is no row of 288 cells for each of {len(names)} names"
            )
        for row, name in enumerate(names):
            rows.setdefault(str(name), []).append(count + row)
        count += len(cpu)
        parts.append(cpu.astype(np.float32) / np.float32(100))
    if not parts:
        raise WorkloadError(f"{source}: days: there are none")
    return Trace(
        family="planetlab", cell_s=_CELL_S, cpu=np.concatenate(parts), memory=None, sources=list(rows.values()),
        names=list(rows), kinds=[name.partition("_")[2] or name for name in rows],
    )  # fmt: skip


def smd(columns: Mapping[str, NDArray[Any]], source: str) -> Trace:
    """Return the Server Machine Dataset: few servers, weeks of minutes; CPU and memory scaled to 0..1 for each server.

    Raises WorkloadError.
    """
    known = [str(name) for name in columns["columns"]]
    for name in _SMD:
        if name not in known:
            raise WorkloadError(f"{source}: columns: has no {name}; there are {', '.join(known)}")
    names = [str(name) for name in columns["machines"]]
    try:
        series = [columns[f"x_{name}"] for name in names]
    except KeyError as error:
        raise WorkloadError(f"{source}: has no {error.args[0]}") from None
    if not series:
        raise WorkloadError(f"{source}: machines: there are none")
    length = min(len(each) for each in series)
    cpu, memory = (np.array([each[:length, known.index(column)] for each in series], np.float32) for column in _SMD)
    return of_days("smd", _MINUTE_S, names, cpu, memory)


def nab(table: Table) -> Trace:
    """Return series of CloudWatch metrics, 300 s apart; those of CPU are percent, and only they are used.

    A series whose name has ``cpu`` in it is one source. Days begin at midnight. Each series has as many days as the
    shortest. Raises WorkloadError naming column and row.
    """
    source, _, lines = table
    found: dict[str, dict[int, float]] = {}
    for row, line in enumerate(lines, 2):
        name, timestamp, value = line
        if "cpu" not in name:
            continue
        try:
            at = datetime.fromisoformat(timestamp).replace(tzinfo=UTC).timestamp()
        except ValueError:
            raise WorkloadError(f"{source}: timestamp, row {row}: {timestamp!r} is no time") from None
        try:
            percent = float(value)
        except ValueError:
            raise WorkloadError(f"{source}: value, row {row}: {value!r} is no number") from None
        found.setdefault(name, {})[int(at // _CELL_S)] = percent / 100
    if not found:
        raise WorkloadError(f"{source}: series: none has cpu in its name")
    in_day = round(DAY_S / _CELL_S)
    starts = {name: -(-min(cells) // in_day) * in_day for name, cells in found.items()}
    length = min((max(cells) + 1 - starts[name]) // in_day * in_day for name, cells in found.items())
    if length * len(found) > CELLS_MAX:
        raise WorkloadError(f"{source}: timestamp: {length // in_day:,} days of {len(found):,} series are too many")
    cpu = np.full((len(found), max(length, 0)), np.nan, np.float32)
    for row, (name, cells) in enumerate(found.items()):
        for cell, share in cells.items():
            if 0 <= cell - starts[name] < length:
                cpu[row, cell - starts[name]] = share
    return of_days("nab", _CELL_S, list(found), cpu, None)


def recorded(path: Path) -> Trace:
    """Return any recording that ``windward fleet`` plays (`streams.load_generator.source.recording_file`).

    The public traces of this kind are Bitbrains (``.npz`` of a week, ``.csv.gz`` of a day, with sizes), the Google
    trace of 2011 (``.npz``, names ``gcd-<job>_<day>``: joined by job) and the hosts of Alibaba 2018 (``.csv.gz``). The
    first day begins where the file begins. Raises WorkloadError.
    """
    try:
        found = load_trace(path, _SIZES_UNKNOWN)
    except RecordingError as error:
        raise WorkloadError(str(error).removeprefix("recording: ")) from None
    cell_s, cpu, memory, nic = found.cell_s, *found.utilization[[CPU, MEMORY, NIC]]
    if DAY_S % cell_s or cell_s % _MINUTE_S:
        at = (np.arange(int(found.length_s // _MINUTE_S)) * _MINUTE_S / cell_s).astype(np.int64)
        cell_s, cpu, memory, nic = _MINUTE_S, cpu[:, at], memory[:, at], nic[:, at]
    cores, memory_bytes = found.capacity[CPU], found.capacity[MEMORY]
    family = next((name for name in _FAMILIES if name in path.name), path.name.partition(".")[0])
    rates = nic * _LINE if np.isfinite(nic).any() else None
    trace = of_days(family, cell_s, found.names, cpu, memory, _known(cores), _known(memory_bytes), rates)
    return joined_by_job(trace)


def _known(sizes: NDArray[np.float64]) -> NDArray[np.float64] | None:
    return sizes if np.isfinite(sizes).any() else None


def read_trace(path: Path) -> Trace:
    """Return the trace in a file of any of these formats; raises WorkloadError."""
    try:
        if path.name.endswith(".npz"):
            columns = read_arrays(path)
            if "days" in columns and any(name.startswith("cpu_") for name in columns):
                found = planetlab(columns, path.name)
            elif "machines" in columns and "columns" in columns:
                found = smd(columns, path.name)
            else:
                found = recorded(path)
        else:
            table = read_table(path)
            found = nab(table) if table.header == NAB_HEADER else recorded(path)
        return checked(found, path.name)
    except WorkloadError:
        raise
    except (TypeError, ValueError, IndexError) as error:
        raise WorkloadError(shortened(f"{path.name}: {error}")) from None


def openb(table: Table) -> Lives:
    """Return the lives in a table of openb: requests of a production cluster, for worlds whose trace has none.

    Used are requests for some CPU that were scheduled and deleted, and created from t = 9,936,000 s on, where arrivals
    are dense. In a file that ends before, the time of creation does not matter. A memory that is not given counts as 0.
    Raises WorkloadError naming column and row.
    """
    cpu, memory, created, deleted, scheduled = map(table.numbers, OPENB)
    used = np.isfinite(cpu) & np.isfinite(scheduled) & np.isfinite(deleted - created) & (deleted > created) & (cpu > 0)
    if (used & (created >= DENSE_S)).any():
        used &= created >= DENSE_S
    if not used.any():
        raise WorkloadError(f"{table.name}: no request was scheduled and deleted")
    memory_bytes = np.nan_to_num(memory[used], posinf=0.0, neginf=0.0) * 2.0**20
    return Lives((deleted - created)[used], cpu[used] / 1000, memory_bytes)


def without_file() -> Lives:
    """Return drawn lives and sizes with the median and middle half of openb's, without its data."""
    generator, count = np.random.default_rng(2023), 4_096
    life_s = LOG_MEDIAN_S * np.exp(LOG_SPREAD * generator.standard_normal(count))
    sizes, often = np.array(_SIZES).T
    cores = generator.choice(sizes, count, p=often)
    return Lives(life_s, cores, cores * _BYTES_PER_CORE)


def read_lives(path: Path | None) -> Lives:
    """Return sizes and lifetimes from a file of requests, or those assumed without one."""
    return openb(read_table(path, OPENB)) if path else without_file()


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz``; raises WorkloadError."""
    try:
        return read_npz(path)
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # zipfile, zlib and numpy do not document what they raise for a damaged archive
        raise WorkloadError(shortened(f"{path.name}: is no .npz of numpy: {error or type(error).__name__}")) from None


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays of an ``.npz``; none for an unreadable file."""
    try:
        with path.open("rb") as file:
            return list(getattr(np.load(file, allow_pickle=False), "files", ()))
    except Exception:  # as above; `read_arrays` says what is wrong
        return []
