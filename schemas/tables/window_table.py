"""The window table: machines of one partition as columns, in one Redis value.

The windows of a partition are two of them (`schemas.tables.partition_windows`).

Layout (little endian):

    8 bytes   magic ``WINDTBL`` and the major version as one byte
    4 bytes   length of the header, uint32
    header    JSON: ``crc32c`` (first: checksum of the whole value with zeros in its place, eight digits; of older
              writers ``minor`` is first, and nothing is verified), ``minor``, ``machines`` (rows), ``windows_s``,
              ``partition``, ``offset``, ``topic_id``, ``slot_s``, ``facts`` (version of the facts), ``written_at``,
              ``base`` (number of the write of the base; 0 outside Redis), ``names_bytes`` (length of the names),
              ``resources`` (names of the resource axis), ``columns``: [[name, dtype, shape], ...]
    columns   one after another, each starting at a multiple of 8 from the end of the header padding; the machine is
              the last axis of every column
    names     the machine ids, UTF-8, joined by newlines

Axes are named by letter: W windows in the order of ``windows_s``, R resources in the order of the header's
``resources``, Q the percentiles 50 90 95 99, M machines. A newer minor version adds columns, which an older reader
skips. A column the writer did not know is absent, so a reader looks it up by name. Another major version is refused.

**Resources** are aligned by name, as windows are (`schemas.tables.window_table`): one that the writer did not know is
blank, one that the reader does not know is ignored. An R axis may be shorter than the header's list.

| column          | dtype, shape  | meaning                                                                    |
|-----------------|---------------|----------------------------------------------------------------------------|
| at              | f8 [M]        | event time of the newest sample, not corrected for skew                    |
| skew            | f4 [M]        | learned clock skew in s, within ±5: machine clock minus broker clock       |
| end             | f8 [M]        | end of the newest slot: every window ends here                             |
| boot            | f8 [M]        | start of the agent that sent the newest sample                             |
| version         | i8 [M]        | number of the write in which the row changed last                          |
| interval_s      | f4 [M]        | the machine's publishing interval                                          |
| capacity        | f8 [R, M]     | NaN where unknown                                                          |
| mean            | f8 [W, R, M]  | mean of the 1 Hz readings, NaN when the window holds none                  |
| std             | f4 [W, R, M]  | population standard deviation of the readings                              |
| max             | f4 [W, R, M]  | largest reading                                                            |
| percentile      | f4 [W, R, Q, M] | over filled slot means, inverted_cdf                                     |
| filled          | u2 [W, R, M]  | filled slots                                                               |
| coverage        | f4 [W, R, M]  | filled share of the slots this machine's interval can fill, at most 1      |
| peak_today      | f4 [R, M]     | highest one-minute mean since local midnight                               |
| peak_yesterday  | f4 [R, M]     | the same of the day before                                                 |
| peak_today_s    | f4 [R, M]     | when that minute was, or the hour that holds it began, in s after peak_day |
| peak_yesterday_s | f4 [R, M]    | the same of yesterday's peak: below 0                                      |
| peak_day        | f8 [M]        | start of the local day that is "today": that of the newest slot            |
| peak_since      | f8 [M]        | first minute in the peaks; later than a day's start: partial               |
| class_<name>    | f4 [W, R, M]  | mean usage of one of `PRIORITY_CLASSES`; absent when no machine sends it   |

A writer may add columns that only it reads again (``resume_*``). The values a stream worker resumes from
(`streams.state.checkpoint`) are in the same encoding, with the same rule for resources.
"""

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from schemas.resources import RESOURCES

MAJOR = 1
MINOR = 0
PERCENTILES = (50, 90, 95, 99)
WARMING_COVERAGE = 0.5
"""A window less covered than this is warming."""

_CLASS = "class_"
_RESOURCE_AXES = dict.fromkeys(
    (
        "capacity", "mean", "std", "max", "filled", "coverage", "peak_today", "peak_yesterday", "peak_today_s",
        "peak_yesterday_s", "n", "m2", "peak", "recent", "daily",
    ),
    -2,
) | {"percentile": -3}  # fmt: skip
"""The R axis of a column, counted from the last; of usage by class it is -2."""

_MAGIC = b"WINDTBL"
_PREFIX = struct.Struct("<7sBI")
_SUM, _NO_SUM, _UNSUMMED = b'{"crc32c":"', b"00000000", b'{"minor":'
_SUM_AT = _PREFIX.size + len(_SUM)
_SUM_END = _SUM_AT + len(_NO_SUM)


class TableError(ValueError):
    """A window table that cannot be read; the message says why."""


class Header(msgspec.Struct, kw_only=True):
    """The header of a table; unknown fields are ignored."""

    minor: int = MINOR
    machines: int
    windows_s: tuple[int, ...]
    partition: int = 0
    offset: int = 0
    topic_id: str = ""
    slot_s: int = 10
    facts: int = 0
    written_at: float = 0.0
    base: int = 0
    names_bytes: int = 0
    resources: tuple[str, ...] = ()
    """Names of the resource axis, in its order."""
    columns: list[tuple[str, str, list[int]]]


@dataclass(frozen=True)
class WindowTable:
    """One decoded table; arrays are read-only views of the value that was read."""

    header: Header
    columns: Mapping[str, NDArray[np.generic]]
    names: bytes = field(repr=False)
    """The machine ids joined by newlines: equal bytes mean equal rows, so a reader need not split them again."""

    @property
    def machines(self) -> list[str]:
        return self.names.decode().split("\n") if self.names else []


_header_encoder = msgspec.json.Encoder()
_header_decoder = msgspec.json.Decoder(Header)


def resource_axis(name: str) -> int | None:
    """Return the position of a column's R axis, counted from the last; None: it has none.

    >>> resource_axis("mean"), resource_axis("class_prod"), resource_axis("at")
    (-2, -2, None)
    """
    return -2 if name.startswith(_CLASS) else _RESOURCE_AXES.get(name)


def encode_table(header: Header, columns: Mapping[str, NDArray[np.generic]], names: bytes) -> bytes:
    """Return the table as one value; ``header.columns`` is filled in from ``columns``.

    The R axis of the columns is that of ``header.resources``, and of `schemas.resources` if the header names none.
    """
    header.resources = header.resources or RESOURCES
    header.columns = [(name, column.dtype.str[1:], list(column.shape)) for name, column in columns.items()]
    header.names_bytes = len(names)
    head = _SUM + _NO_SUM + b'",' + _header_encoder.encode(header)[1:]
    head += b" " * (-(len(head) + _PREFIX.size) % 8)
    parts: list[bytes | memoryview] = [_PREFIX.pack(_MAGIC, MAJOR, len(head)), head]
    for column in columns.values():
        contiguous = np.ascontiguousarray(column)
        parts.append(contiguous.reshape(-1).view(np.uint8).data)
        if padding := -contiguous.nbytes % 8:
            parts.append(b"\0" * padding)
    parts.append(names)
    whole = 0
    for part in parts:
        whole = crc32c(part, whole)
    parts[1] = _SUM + b"%08x" % whole + head[_SUM_END - _PREFIX.size :]
    return b"".join(parts)


def decode_table(raw: bytes, partition: int | None = None) -> WindowTable:
    """Return the table in ``raw`` without copying it.

    Raises TableError for a value that is not a table, is cut short, or whose checksum is wrong. Likewise where it names
    fewer resources than an axis has, has another major version, or is not of ``partition``.
    """
    if len(raw) < _PREFIX.size or raw[:7] != _MAGIC:
        raise TableError("not a window table")
    _, major, header_bytes = _PREFIX.unpack_from(raw)
    if major != MAJOR:
        raise TableError(f"window table of major version {major}; this reader knows {MAJOR}")
    if raw[_PREFIX.size : _SUM_AT] == _SUM:
        whole = crc32c(memoryview(raw)[_SUM_END:], crc32c(_NO_SUM, crc32c(raw[:_SUM_AT])))
        if raw[_SUM_AT:_SUM_END] != b"%08x" % whole:
            raise TableError(f"window table is damaged: its checksum is {whole:08x}, it says {raw[_SUM_AT:_SUM_END]!r}")
    offset = _PREFIX.size + header_bytes
    if len(raw) < offset or not raw.startswith((_SUM, _UNSUMMED), _PREFIX.size):
        begin = raw[_PREFIX.size : _SUM_AT]
        raise TableError(f"window table is damaged: {len(raw)} bytes, its header alone has {offset}, from {begin!r} on")
    try:
        header = _header_decoder.decode(memoryview(raw)[_PREFIX.size : offset])
        columns: dict[str, NDArray[np.generic]] = {}
        for name, kind, shape in header.columns:
            dtype = np.dtype("<" + kind)
            count = math.prod(shape)
            if not shape or min(shape) < 0 or shape[-1] != header.machines:
                break
            columns[name] = np.frombuffer(raw, dtype, count, offset).reshape(shape)
            offset += count * dtype.itemsize
            offset += -count * dtype.itemsize % 8
        names = raw[offset:]
        rows = names.decode().count("\n") + 1
    except (msgspec.DecodeError, ValueError, TypeError, OverflowError, SyntaxError, RecursionError) as error:
        raise TableError(f"window table is damaged: {error}") from None
    if len(columns) != len(header.columns):
        raise TableError(f"window table is damaged: its columns do not fit {header.machines} machines")
    if header.names_bytes != len(names) or (names and rows != header.machines):
        raise TableError(f"window table is damaged: {len(names)} bytes of names for {header.machines} machines")
    if partition not in (None, header.partition):
        raise TableError(f"a table of partition {header.partition}, under the key of partition {partition}")
    if wrong := _disagreement(columns, header.resources):  # a value must not be read as another resource's
        raise TableError(f"window table is damaged: {wrong}")
    return WindowTable(header, columns, names)


def _disagreement(columns: Mapping[str, NDArray[np.generic]], named: Sequence[str]) -> str:
    """Return why the resource axes of these columns and the names of their resources disagree; "" when they agree."""
    if len(set(named)) != len(named):
        return f"a resource is listed twice among {', '.join(named)}"
    for name, column in columns.items():
        axis = resource_axis(name)
        if axis is None:
            continue
        if column.ndim < -axis:
            return f"{name} has axes {list(column.shape)}"
        if column.shape[axis] > len(named):
            return f"{name} has {column.shape[axis]} resources, {len(named)} are named"
    return ""


def resource_parts(table: WindowTable, name: str) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the parts of a column with an R axis: consecutive rows of `schemas.resources`, and their values.

    Resources that this process does not know are left out.
    """
    axis, column = resource_axis(name), table.columns.get(name)
    assert axis is not None, name
    if column is None:
        return
    after: Any = (slice(None),) * (-axis - 1)
    for place, count, row in _runs(table.header.resources[: column.shape[axis]]):
        yield slice(row, row + count), column[(..., slice(place, place + count), *after)]


@lru_cache(maxsize=64)
def _runs(names: tuple[str, ...]) -> tuple[tuple[int, int, int], ...]:
    """Return (place in ``names``, length, place in `schemas.resources`) of each sequence that is equal in both."""
    place, found = 0, []
    while place < len(names):
        if names[place] not in RESOURCES:
            place += 1
            continue
        row = RESOURCES.index(names[place])
        count = 1
        while names[place : place + count + 1] == RESOURCES[row : row + count + 1] and place + count < len(names):
            count += 1
        found.append((place, count, row))
        place += count
    return tuple(found)


def aligned(table: WindowTable, name: str) -> NDArray[Any] | None:
    """Return a column with its R axis in the order of `schemas.resources`; NaN where the table has nothing.

    In a column of whole numbers that is 0. A column without an R axis is returned unchanged, None for a missing one.
    """
    axis = resource_axis(name)
    if axis is None or name not in table.columns:
        return table.columns.get(name)
    parts = list(resource_parts(table, name))
    if len(parts) == 1 and parts[0][0] == slice(0, len(RESOURCES)):
        return parts[0][1]
    like = table.columns[name]
    shape = list(like.shape)
    shape[axis] = len(RESOURCES)
    whole: NDArray[Any] = np.full(shape, np.nan if like.dtype.kind == "f" else 0, like.dtype)
    target = np.moveaxis(whole, axis, 0)
    for rows, part in parts:
        target[rows] = np.moveaxis(part, axis, 0)
    return whole
