"""Small fleets for tests: window tables written as the stream app writes them."""

import json
import time
from contextlib import closing

import msgspec
import numpy as np

from schemas.resources import RESOURCES
from schemas.tables.partition_windows import ROW, VERSION
from schemas.tables.window_table import PERCENTILES, Header, TableError, decode_table, encode_table
from scorer.wire import Wire

WINDOWS_S = (300, 900, 3600)
GIB = 2.0**30


def window_table(
    machines, *, utilization=0.2, capacity=(16.0, 64 * GIB, 1.25e9), at=None, facts=0, offset=0, partition=0
):
    """Return a table of machines of one size, each carrying a share of it, with full windows.

    ``capacity`` is of the first resources; of the others nothing is known.
    """
    count, windows, resources = len(machines), len(WINDOWS_S), len(RESOURCES)
    now = time.time() if at is None else at
    number = time.time_ns()
    known = [*capacity, *[np.nan] * (resources - len(capacity))]
    size = np.repeat(np.array(known)[:, None], count, axis=1)
    mean = np.broadcast_to(size * np.asarray(utilization), (windows, resources, count))
    columns = {
        "at": np.full(count, now),
        "skew": np.zeros(count, np.float32),
        "end": np.full(count, now),
        "boot": np.full(count, now - 1e5),
        VERSION: np.full(count, number),
        "interval_s": np.full(count, 10, np.float32),
        "capacity": size,
        "mean": mean,
        "std": (mean * 0.1).astype(np.float32),
        "max": (mean * 1.3).astype(np.float32),
        "percentile": np.repeat(mean[:, :, None, :], len(PERCENTILES), axis=2).astype(np.float32),
        "filled": (np.array(WINDOWS_S)[:, None, None] // 10 * np.isfinite(mean)).astype(np.uint16),
        "coverage": np.isfinite(mean).astype(np.float32),
        "peak_today": (mean[0] * 1.2).astype(np.float32),
        "peak_yesterday": (mean[0] * 1.2).astype(np.float32),
        "peak_since": np.full(count, now - 1e5),
    }
    header = Header(
        machines=count, windows_s=WINDOWS_S, facts=facts, offset=offset, written_at=now, topic_id="test", columns=[],
        partition=partition, base=number,
    )  # fmt: skip
    return encode_table(header, columns, "\n".join(machines).encode())


def of_partition(raw, partition):
    """Return a table as the stream app writes it for another partition."""
    table = decode_table(raw)
    return encode_table(msgspec.structs.replace(table.header, partition=partition), table.columns, table.names)


def unsummed(raw, **header):
    """Return a table as writers before the checksum left it, with another header: to damage it, and to be read."""
    length = int.from_bytes(raw[8:12], "little")
    fields = json.loads(raw[12 : 12 + length]) | header
    fields.pop("crc32c", None)
    head = json.dumps(fields, separators=(",", ":")).encode()
    head += b" " * (-(12 + len(head)) % 8)
    return raw[:8] + len(head).to_bytes(4, "little") + head + raw[12 + length :]


def no_changes(base):
    table = decode_table(base)
    columns = {name: column[..., :0] for name, column in table.columns.items()} | {ROW: np.zeros(0, np.uint32)}
    return encode_table(msgspec.structs.replace(table.header, machines=0), columns, b"")


def changes_of(base, rows, **figures):
    """Return the changes of a base of `window_table` in which these rows changed; ``figures`` are its arguments."""
    table = decode_table(base)
    changed = decode_table(window_table([table.machines[row] for row in rows], **figures))
    header = msgspec.structs.replace(changed.header, base=table.header.base, partition=table.header.partition)
    return encode_table(header, {**changed.columns, ROW: np.array(rows, np.uint32)}, changed.names)


def values(names, tables):
    """Return by key what the stream app stores of one table a partition; a value that is none is stored as it is."""
    found = {}
    for partition, raw in enumerate(tables):
        try:
            base = of_partition(raw, partition) if partition else raw
            changes = no_changes(base)
        except TableError:
            base = changes = raw
        found |= {names.windows(partition): base, names.window_changes(partition): changes}
    return found


def publish(to, names, tables, facts=()):
    """Write one table a partition, and the facts of the machines in each; to a URL over a connection of its own."""
    commands = [("SET", key, value) for key, value in values(names, tables).items()]
    for partition, said in enumerate(facts):
        for machine, one in said.items():
            commands.append(("HSET", names.facts(partition), machine, msgspec.json.encode(one)))
    written = ",".join(str(partition) for partition in range(len(tables)))
    commands += [("SET", names.partitions, len(tables)), ("PUBLISH", names.changed, written)]
    if isinstance(to, str):
        with closing(Wire({"url": to})) as wire:
            wire.ask(commands)
    else:
        to.ask(commands)
