"""A stream worker in small: resumes from the values in a folder, folds more messages, writes all values again.

    python resume_state.py < {"folder": "...", "lines": ["one message a line", ...]}

Imports only what the previous release has at the same place, so that its text runs there, too. Beside the values it
writes the window table, as ``table``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from streams.fold.peaks import Zone
from streams.fold.ring import HOURS, Ring, S
from streams.fold.table import Table
from streams.state.checkpoint import decode_ring, encode_hour, encode_position, encode_vitals
from streams.state.partition import Arrived, Partition

WINDOWS_S = (300, 900, 3600)


def resume_state(folder: Path, lines: list[str]) -> Partition:
    """Do it; return the state that was written."""
    held = {path.name: path.read_bytes() for path in folder.iterdir()}
    ring = Ring()
    if "vitals" in held:
        positions = {p: held[f"position-{p}"] for p in range(S) if f"position-{p}" in held}
        ring = decode_ring(held["vitals"], positions, {h: held[f"hour-{h}"] for h in range(HOURS)})
    partition = Partition(0, Table(WINDOWS_S, Zone()), ring)
    partition.fold([Arrived(n, line.encode(), json.loads(line)["at"], None) for n, line in enumerate(lines)])
    partition.refresh_table()
    (folder / "vitals").write_bytes(encode_vitals(partition.ring))
    for position in range(S):
        (folder / f"position-{position}").write_bytes(encode_position(partition.ring, position))
    for hour in range(HOURS):
        (folder / f"hour-{hour}").write_bytes(encode_hour(partition.ring, hour))
    (folder / "table").write_bytes(partition.table.encode(partition.ring, {}))
    return partition


if __name__ == "__main__":
    given = json.load(sys.stdin)
    resume_state(Path(given["folder"]), given["lines"])
