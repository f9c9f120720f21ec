"""NAB: series of CloudWatch metrics, 300 s apart; those of CPU are percent, and only they are used.

Columns ``series,timestamp,value``; a series whose name has ``cpu`` in it is one source. Days begin at midnight.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from ops.replay.traces.trace import DAY_S, Trace, of_days
from ops.replay.workload import WorkloadError

CELL_S = 300.0
HEADER = ["series", "timestamp", "value"]


def convert(lines: Sequence[Sequence[str]], source: str) -> Trace:
    """Return the trace of a table without its header; raises WorkloadError naming column and row."""
    found: dict[str, dict[int, float]] = {}
    for row, line in enumerate(lines, 2):
        if len(line) != len(HEADER):
            raise WorkloadError(f"{source}: row {row}: {len(line)} values, expected {len(HEADER)}")
        name, timestamp, value = line
        if "cpu" not in name:
            continue
        try:
            at = datetime.fromisoformat(timestamp).replace(tzinfo=UTC).timestamp()
        except ValueError:
            raise WorkloadError(f"{source}: timestamp, row {row}: {timestamp!r} is no time") from None
        try:
            found.setdefault(name, {})[int(at // CELL_S)] = float(value) / 100
        except ValueError:
            raise WorkloadError(f"{source}: value, row {row}: {value!r} is no number") from None
    if not found:
        raise WorkloadError(f"{source}: series: none has cpu in its name")
    in_day = round(DAY_S / CELL_S)
    starts = {name: -(-min(cells) // in_day) * in_day for name, cells in found.items()}
    length = min((max(cells) + 1 - starts[name]) // in_day * in_day for name, cells in found.items())
    cpu = np.full((len(found), max(length, 0)), np.nan, np.float32)
    for at_row, (name, cells) in enumerate(found.items()):
        for cell, percent in cells.items():
            if 0 <= cell - starts[name] < length:
                cpu[at_row, cell - starts[name]] = percent
    return of_days("nab", CELL_S, list(found), np.clip(cpu, 0.0, 1.0), None)
