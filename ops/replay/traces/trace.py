"""A trace: the load of some sources (VMs, hosts, jobs) as whole days, as a share of each source's size."""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ops.replay.workload import WorkloadError
from scorer.snapshot.arrays import Floats

DAY_S = 86_400
RATE_PERCENT = 95
"""A source's network is of this percentile of its rates."""
Part = Literal["all", "tuning", "held-out"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """D days of load; a source has one or several, in a row."""

    family: str
    cell_s: float
    cpu: NDArray[np.float32]
    """[D, T] 0 to 1 of the source's size; no NaN."""
    memory: NDArray[np.float32] | None
    """[D, T] likewise, or None: not measured."""
    sources: Sequence[Sequence[int]]
    """The days of each source, as rows."""
    names: Sequence[str]
    """The names of the sources."""
    cores: Floats | None = None
    memory_bytes: Floats | None = None
    """The sizes of the sources; None: the trace has none."""
    kinds: Sequence[str] = ()
    """The kinds of the sources, or empty."""
    nic: NDArray[np.float32] | None = None
    """[D, T] bytes/s; NaN in all days of a source whose network was not measured; or None: that of none."""


def of_days(
    family: str,
    cell_s: float,
    names: Sequence[str],
    cpu: NDArray[np.float32],
    memory: NDArray[np.float32] | None,
    cores: Floats | None = None,
    memory_bytes: Floats | None = None,
    nic: NDArray[np.float32] | None = None,
) -> Trace:
    """Return the trace of [S, T] series of consecutive days: gaps are filled with the last value known.

    A source without any reading of cores or memory, or with a size of zero, is left out; so is an incomplete last day.
    Raises ValueError for less than a day, or when no source is left.
    """
    cells = round(DAY_S / cell_s)
    days = cpu.shape[1] // cells
    if not days:
        raise ValueError(f"holds {cpu.shape[1] * cell_s / 3600:.3g} hours, at least one day is needed")
    used = np.isfinite(cpu).any(axis=1)
    if memory is not None and np.isfinite(memory).any():
        used &= np.isfinite(memory).any(axis=1)
    else:
        memory = None
    for size in (cores, memory_bytes):
        if size is not None:
            used &= np.nan_to_num(size) > 0
    if not used.any():
        raise ValueError("no machine has any reading")
    chosen = np.flatnonzero(used)
    by_day = (len(chosen) * days, cells)
    return Trace(
        family=family,
        cell_s=cell_s,
        cpu=filled(cpu[chosen, : days * cells]).reshape(by_day),
        memory=None if memory is None else filled(memory[chosen, : days * cells]).reshape(by_day),
        sources=[range(at * days, (at + 1) * days) for at in range(len(chosen))],
        names=[names[at] for at in chosen.tolist()],
        cores=None if cores is None else cores[chosen],
        memory_bytes=None if memory_bytes is None else memory_bytes[chosen],
        nic=None if nic is None else filled(nic[chosen, : days * cells]).reshape(by_day),
    )


def checked(trace: Trace, source: str) -> Trace:
    """Return the trace with loads above 1 cut to 1; raises WorkloadError for one below 0 or not finite."""
    for name, loads in (("cpu", trace.cpu), ("memory", trace.memory)):
        if loads is None:
            continue
        wrong = ~(np.isfinite(loads) & (loads >= 0)).all(axis=1)
        if wrong.any():
            rows = set(np.flatnonzero(wrong).tolist())
            whose = next(each for each, days in zip(trace.names, trace.sources, strict=True) if rows & set(days))
            raise WorkloadError(f"{source}: {name} of {whose!r}: expected numbers of 0 or more")
        np.minimum(loads, 1.0, out=loads)
    return trace


def joined_by_job(trace: Trace) -> Trace:
    """Return the trace with sources named ``gcd-<job>_<day>`` joined to one source a job, its days in order."""
    named = [re.fullmatch(r"(gcd-.+)_(\d+)", name) for name in trace.names]
    if not all(named):
        return trace
    jobs: dict[str, list[tuple[int, int]]] = {}
    for at, match in enumerate(named):
        assert match is not None
        jobs.setdefault(match[1], []).append((int(match[2]), at))
    rows = [[row for _, at in sorted(days) for row in trace.sources[at]] for days in jobs.values()]
    return replace(trace, sources=rows, names=list(jobs), cores=None, memory_bytes=None, kinds=list(jobs))


def part_of(trace: Trace, part: Part) -> Trace:
    """Return a part of the trace; ``tuning`` and ``held-out`` have no source in common.

    A source is for tuning if the checksum of its name is even, and then with the first half of its days (rounded up);
    held out are the other sources with the other half, or with their one day. A trace of fewer than 16 sources is not
    divided: each is in both parts, with the days of that half, so a source of one day has it in both.
    """
    if part == "all":
        return trace
    few = len(trace.sources) < 16
    chosen, rows = [], []
    for at, (name, days) in enumerate(zip(trace.names, trace.sources, strict=True)):
        half = (len(days) + 1) // 2
        tuning = zlib.crc32(name.encode()) % 2 == 0
        if few or tuning == (part == "tuning"):
            mine = days[:half] if part == "tuning" else (days[half:] or days)
            chosen.append(at)
            rows.append(list(mine))
    return _with_sources(trace, chosen, rows)


def with_rates(trace: Trace) -> tuple[Trace, Floats]:
    """Return the sources that have a network rate, their rates as parts of the size [S], and the sizes in bytes/s.

    The size is the 95th percentile of the own rate. Raises WorkloadError where there is none.
    """
    if trace.nic is None:
        raise WorkloadError(f"{trace.family}: has no network rates; leave out --nic")
    sizes = np.array([np.percentile(trace.nic[np.asarray(days)], RATE_PERCENT) for days in trace.sources])
    chosen = np.flatnonzero(sizes > 0).tolist()
    if not chosen:
        raise WorkloadError(f"{trace.family}: no source uses the network; leave out --nic")
    parts = np.zeros_like(trace.nic)
    for at in chosen:
        days = np.asarray(trace.sources[at])
        parts[days] = trace.nic[days] / sizes[at]
    return _with_sources(replace(trace, nic=parts), chosen, [trace.sources[at] for at in chosen]), sizes[chosen]


def _with_sources(trace: Trace, chosen: Sequence[int], rows: Sequence[Sequence[int]]) -> Trace:
    """Return the trace with these sources alone, with these days of each."""
    return replace(
        trace,
        sources=rows,
        names=[trace.names[at] for at in chosen],
        cores=None if trace.cores is None else trace.cores[chosen],
        memory_bytes=None if trace.memory_bytes is None else trace.memory_bytes[chosen],
        kinds=[trace.kinds[at] for at in chosen] if trace.kinds else (),
    )


def filled(series: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return [S, T] with gaps filled by the last value before them; gaps at the start by the first value."""
    known = np.isfinite(series)
    at = np.where(known, np.arange(series.shape[1]), 0)
    last = np.maximum.accumulate(at, axis=1)
    first = np.argmax(known, axis=1)
    last = np.maximum(last, first[:, None])
    return np.take_along_axis(series, last, axis=1)
