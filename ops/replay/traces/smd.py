"""SMD, the Server Machine Dataset: few servers, weeks of minutes; CPU and memory scaled to 0..1 for each server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.replay.traces.trace import Trace, of_days
from ops.replay.workload import WorkloadError

CELL_S = 60.0
COLUMNS = ("cpu_r", "mem_u")


def is_this(columns: Mapping[str, Any]) -> bool:
    """Return whether the arrays of an ``.npz`` are of this kind."""
    return "machines" in columns and "columns" in columns


def convert(columns: Mapping[str, NDArray[Any]], source: str) -> Trace:
    """Return the trace; raises WorkloadError."""
    known = [str(name) for name in columns["columns"]]
    for name in COLUMNS:
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
    cpu, memory = (np.array([each[:length, known.index(column)] for each in series], np.float32) for column in COLUMNS)
    return of_days("smd", CELL_S, names, cpu, memory)
