"""Checkpoint: the state of a partition as the values that a worker writes and resumes from. Pure.

Each position of the ring is one value with that position of all machines (`SLOTS`), so that a flush writes only the
changed positions. The same holds for each place of the hourly peaks. One small value holds the vitals. All are column
blocks in the window table's encoding, rows in the table's order. The key is the position, not the absolute slot with a
lifetime: a ring takes as much in Redis as in memory, and a silent machine keeps its last windows as long as its other
data.

Resources are aligned by name, as the encoding says: each value names its own. A worker resumes from values written
before a resource was added: its slots are empty there.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES
from schemas.tables.instance_table import COLUMNS
from schemas.tables.window_table import Header, TableError, decode_table, encode_table, resource_axis, resource_parts
from streams.fold.instance_usage import InstanceUsage, blank
from streams.fold.peaks import minute_means
from streams.fold.ring import MINUTE_SLOTS, NO_SLOT, PEAKS, RING_MINUTES, SLOTS, VITALS, Ring

_MISFIT = (ValueError, IndexError, TypeError, KeyError)
"""Numpy's errors for a column of the wrong shape."""

_CLASS_COLUMNS = {f"class_{name}": name for name in PRIORITY_CLASSES}


def encode_vitals(ring: Ring) -> bytes:
    """Return the machines and their vitals (`streams.fold.ring.VITALS`)."""
    used = len(ring)
    columns = {name: np.moveaxis(getattr(ring, name)[:used], 0, -1) for name in VITALS}
    return _encode(columns, used, "\n".join(ring.machines).encode())


def encode_position(ring: Ring, position: int) -> bytes:
    used = len(ring)
    columns: dict[str, NDArray[Any]] = {name: getattr(ring, name)[:used, ..., position].T for name in SLOTS}
    for name, means in ring.classes.items():
        if (there := means.at(position, used)) is not None:
            columns[f"class_{name}"] = there.T
    return _encode(columns, used)


def encode_hour(ring: Ring, place: int) -> bytes:
    """Return one place of the hourly peaks for all machines."""
    used = len(ring)
    return _encode({name: getattr(ring, name)[:used, ..., place].T for name in PEAKS}, used)


def decode_vitals(vitals: bytes) -> Ring:
    """Return a ring of these machines without slots or peaks.

    A value may have fewer rows than there are machines now. Columns of a newer minor version are ignored; those that an
    older one did not write are left blank. Raises TableError for a value that is not of this encoding.
    """
    table = decode_table(vitals)
    ring = Ring()
    ring.add(table.machines)
    used = len(ring)
    if used != table.header.machines:
        raise TableError(f"vitals are damaged: {used} machines, their header says {table.header.machines}")
    try:
        for name in VITALS.keys() & table.columns.keys():
            if resource_axis(name) is None:
                getattr(ring, name)[:used] = np.moveaxis(table.columns[name], -1, 0)
            else:
                for resources, part in resource_parts(table, name):
                    getattr(ring, name)[:used, resources] = part.T
    except _MISFIT as error:
        raise TableError(f"vitals are damaged: {error}") from None
    return ring


def restore_place(ring: Ring, raw: bytes, place: int) -> None:
    """Write the value of one position or hour into the ring; raises TableError as `decode_vitals`."""
    table = decode_table(raw)
    count = table.header.machines
    if count > len(ring):
        raise TableError(f"a place is damaged: {count} rows of {len(ring)} machines")
    try:
        for name, column in table.columns.items():
            if name in _CLASS_COLUMNS:
                means = ring.class_means(_CLASS_COLUMNS[name])
                for resources, part in resource_parts(table, name):
                    means.set_column(resources, place, part.T)
                continue
            if name not in SLOTS and name not in PEAKS:
                continue
            target: NDArray[Any] = getattr(ring, name)
            if resource_axis(name) is None:
                target[:count, ..., place] = column.T
                continue
            for resources, part in resource_parts(table, name):
                target[:count, resources, place] = part.T
    except _MISFIT as error:
        raise TableError(f"a place is damaged: {error}") from None


def blank_place(ring: Ring, place: int, columns: Mapping[str, object]) -> None:
    """Clear one place of these columns of `SLOTS` or `PEAKS`, and of the class means that belong to slots."""
    for name in columns:
        getattr(ring, name)[..., place] = (SLOTS | PEAKS)[name][2]
    if "n" in columns:
        for means in ring.classes.values():
            means.blank_position(place)


def restore_minutes(ring: Ring) -> None:
    """Compute the minutes that are not final from the slots."""
    rows = np.flatnonzero(ring.head[: len(ring)] > NO_SLOT)
    for back in range(RING_MINUTES):
        minutes = ring.head[rows] // MINUTE_SLOTS - back
        ring.minute[rows, :, minutes % RING_MINUTES] = minute_means(ring, rows, minutes)


def _encode(columns: dict[str, NDArray[Any]], rows: int, names: bytes = b"") -> bytes:
    return encode_table(Header(machines=rows, windows_s=(), columns=[]), columns, names)


def encode_usage(usage: InstanceUsage, header: Mapping[str, Any]) -> bytes:
    """Return the figures of all pairs; ``header``: the fields of `Header` other than the shape."""
    used = len(usage)
    columns: dict[str, NDArray[Any]] = {name: getattr(usage, name)[..., :used] for name in COLUMNS}
    head = Header(machines=used, windows_s=(), columns=[], **header)
    return encode_table(head, columns, "\n".join(usage.names).encode())


def restore_usage(usage: InstanceUsage, raw: bytes) -> Header:
    """Replace ``usage`` by the figures of a value, and return its header.

    Resources are aligned by name. Raises TableError for a value that is not of this encoding, and leaves ``usage``
    unchanged.
    """
    table = decode_table(raw)
    pairs = table.header.machines
    if len(set(table.machines)) != pairs:
        raise TableError("usage by instance is damaged: a pair is listed twice")
    columns: dict[str, NDArray[Any]] = {}
    try:
        for name in COLUMNS.keys() & table.columns.keys():
            columns[name] = blank(name, pairs)
            if resource_axis(name) is None:
                columns[name][...] = table.columns[name].reshape(columns[name].shape)
                continue
            for resources, part in resource_parts(table, name):
                columns[name][resources] = part
        usage.restore(table.machines, columns)
    except (ValueError, IndexError, TypeError) as error:
        raise TableError(f"usage by instance is damaged: {error}") from None
    return table.header
