"""NAB: series of CloudWatch metrics, 300 s apart; those of CPU are percent, and only they are used.

Columns ``series,timestamp,value``; a series whose name has ``cpu`` in it is one source. Days begin at midnight. Each
series has as many days as the shortest.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from ops.replay.traces.tables import Table
from ops.replay.traces.trace import DAY_S, Trace, of_days
from ops.replay.workload import CELLS_MAX, WorkloadError

CELL_S = 300.0
HEADER = ["series", "timestamp", "value"]


def convert(table: Table) -> Trace:
    """Return the trace of a table; raises WorkloadError naming column and row."""
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
        found.setdefault(name, {})[int(at // CELL_S)] = percent / 100
    if not found:
        raise WorkloadError(f"{source}: series: none has cpu in its name")
    in_day = round(DAY_S / CELL_S)
    starts = {name: -(-min(cells) // in_day) * in_day for name, cells in found.items()}
    length = min((max(cells) + 1 - starts[name]) // in_day * in_day for name, cells in found.items())
    if length * len(found) > CELLS_MAX:
        raise WorkloadError(f"{source}: timestamp: {length // in_day:,} days of {len(found):,} series are too many")
    cpu = np.full((len(found), max(length, 0)), np.nan, np.float32)
    for row, (name, cells) in enumerate(found.items()):
        for cell, share in cells.items():
            if 0 <= cell - starts[name] < length:
                cpu[row, cell - starts[name]] = share
    return of_days("nab", CELL_S, list(found), cpu, None)
