"""The state of a partition as values: what a worker writes and resumes from. Pure.

One value a ring position holds that position of all machines (`SLOTS`), so that a flush writes only the positions that
changed; likewise one a place of the hourly peaks; one small value holds the vitals. All are column blocks in the window
table's encoding, rows in the table's order. By position and not by absolute slot with a lifetime: a ring then costs
exactly what it costs in memory, and the last windows of a machine that fell silent survive as long as they should.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES
from schemas.window_table import Header, decode_table, encode_table
from streams.peaks import minute_means
from streams.ring import MINUTE_SLOTS, NO_SLOT, PEAKS, RING_MINUTES, SLOTS, VITALS, Ring

_CLASS_COLUMNS = {f"class_{name}": name for name in PRIORITY_CLASSES}


def encode_vitals(ring: Ring) -> bytes:
    """Return the machines and the small facts about them."""
    used = len(ring)
    columns = {name: np.moveaxis(getattr(ring, name)[:used], 0, -1) for name in VITALS}
    return _encode(columns, used, "\n".join(ring.machines).encode())


def encode_position(ring: Ring, position: int) -> bytes:
    """Return one position of the ring for all machines."""
    used = len(ring)
    columns: dict[str, NDArray[Any]] = {name: getattr(ring, name)[:used, ..., position].T for name in SLOTS}
    columns |= {f"class_{name}": values[:used, :, position].T for name, values in ring.classes.items()}
    return _encode(columns, used)


def encode_hour(ring: Ring, place: int) -> bytes:
    """Return one place of the hourly peaks for all machines."""
    used = len(ring)
    return _encode({name: getattr(ring, name)[:used, ..., place].T for name in PEAKS}, used)


def decode_ring(vitals: bytes, positions: dict[int, bytes], hours: dict[int, bytes]) -> Ring:
    """Return the ring that these values describe. A value may have fewer rows than there are machines now.

    Columns of a newer minor version are ignored; those an older one did not write are left blank. Raises TableError for
    a value that is not of this encoding.
    """
    table = decode_table(vitals)
    ring = Ring()
    ring.add(table.machines)
    used = len(ring)
    for name in VITALS.keys() & table.columns.keys():
        getattr(ring, name)[:used] = np.moveaxis(table.columns[name], -1, 0)
    for position, raw in positions.items():
        _restore(ring, raw, position)
    for place, raw in hours.items():
        _restore(ring, raw, place)
    rows = np.flatnonzero(ring.head[:used] > NO_SLOT)
    for back in range(RING_MINUTES):
        minutes = ring.head[rows] // MINUTE_SLOTS - back
        ring.minute[rows, :, minutes % RING_MINUTES] = minute_means(ring, rows, minutes)
    return ring


def _restore(ring: Ring, raw: bytes, place: int) -> None:
    for name, column in decode_table(raw).columns.items():
        count = column.shape[-1]
        if name in _CLASS_COLUMNS:
            target: NDArray[Any] = ring.class_means(_CLASS_COLUMNS[name])
        elif name in SLOTS or name in PEAKS:
            target = getattr(ring, name)
        else:
            continue
        target[:count, ..., place] = column.T


def _encode(columns: dict[str, NDArray[Any]], rows: int, names: bytes = b"") -> bytes:
    return encode_table(Header(machines=rows, windows_s=(), columns=[]), columns, names)
