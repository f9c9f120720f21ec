"""PlanetLab slivers: some days of CPU in whole percent, 300 s apart; a sliver is ``<host>_<slice>``.

A sliver that was there on several of the days has them all, in order; its slice is its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ops.replay.traces.trace import Trace
from ops.replay.workload import WorkloadError

CELL_S = 300.0


def is_this(columns: Mapping[str, Any]) -> bool:
    """Return whether the arrays of an ``.npz`` are of this kind."""
    return "days" in columns and any(name.startswith("cpu_") for name in columns)


def convert(columns: Mapping[str, NDArray[Any]], source: str) -> Trace:
    """Return the trace; raises WorkloadError."""
    parts: list[NDArray[np.float32]] = []
    rows: dict[str, list[int]] = {}
    count = 0
    for day in columns["days"]:
        try:
            names, cpu = columns[f"machine_{day}"], columns[f"cpu_{day}"]
        except KeyError as error:
            raise WorkloadError(f"{source}: day {day} has no {error.args[0]}") from None
        if cpu.ndim != 2 or len(names) != len(cpu) or cpu.shape[1] != round(86_400 / CELL_S):
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
        family="planetlab", cell_s=CELL_S, cpu=np.concatenate(parts), memory=None, sources=list(rows.values()),
        names=list(rows), kinds=[name.partition("_")[2] or name for name in rows],
    )  # fmt: skip
