"""Any recording that ``windward fleet`` plays (`streams.load_generator.source.recording_file`), as a trace.

The public traces of this kind are Bitbrains (``.npz`` of a week, ``.csv.gz`` of a day, with sizes), the Google trace of
2011 (``.npz``, names ``gcd-<job>_<day>``: joined by job) and the hosts of Alibaba 2018 (``.csv.gz``).

The first day begins where the file begins.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ops.replay.traces.trace import DAY_S, Trace, joined_by_job, of_days
from ops.replay.workload import WorkloadError
from schemas.resources import CPU, MEMORY, NIC
from streams.load_generator.source.recording_file import Defaults, RecordingError, load_trace

_LINE = 1e9
"""Bytes/s, more than any source of the public traces has: rates are read as parts of it."""
_SIZES_UNKNOWN = Defaults(cores=np.nan, memory=np.nan, nic=_LINE)
_FAMILIES = ("bitbrains", "gcd", "alibaba")
"""A file whose name has one of these in it is of that family; another is one by itself."""
_CELL_S = 60.0
"""Cells that are no whole number of minutes, or no whole part of a day, are read as cells of this length."""


def read(path: Path) -> Trace:
    """Return the trace; raises WorkloadError."""
    try:
        found = load_trace(path, _SIZES_UNKNOWN)
    except RecordingError as error:
        raise WorkloadError(str(error).removeprefix("recording: ")) from None
    cell_s, cpu, memory, nic = found.cell_s, *found.utilization[[CPU, MEMORY, NIC]]
    if DAY_S % cell_s or cell_s % _CELL_S:
        at = (np.arange(int(found.length_s // _CELL_S)) * _CELL_S / cell_s).astype(np.int64)
        cell_s, cpu, memory, nic = _CELL_S, cpu[:, at], memory[:, at], nic[:, at]
    cores, memory_bytes = found.capacity[CPU], found.capacity[MEMORY]
    family = next((name for name in _FAMILIES if name in path.name), path.name.partition(".")[0])
    rates = nic * _LINE if np.isfinite(nic).any() else None
    trace = of_days(family, cell_s, found.names, cpu, memory, _known(cores), _known(memory_bytes), rates)
    return joined_by_job(trace)


def _known(sizes: NDArray[np.float64]) -> NDArray[np.float64] | None:
    return sizes if np.isfinite(sizes).any() else None
