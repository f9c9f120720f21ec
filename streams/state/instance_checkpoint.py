"""Usage by instance as one value, which the scorer reads and from which a worker resumes. Pure.

The value is written less often than the rest of the state, so it has its own offset in the log: a worker that resumes
reads from there. Samples that are read again change no slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from schemas.tables.alignment import resource_parts
from schemas.tables.instance_table import COLUMNS
from schemas.tables.window_table import Header, TableError, decode_table, encode_table, resource_axis
from streams.fold.instance_usage import InstanceUsage, blank


def encode_usage(usage: InstanceUsage, header: Mapping[str, Any]) -> bytes:
    """Return the figures of all pairs; ``header`` has the fields of `Header` besides the shape."""
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
