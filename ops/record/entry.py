r"""An entry: what one round of the recorder writes, all or nothing.

Entries are MessagePack maps; a reader ignores unknown names, and an absent field has its default. The first entry of a
file has the whole state: ``resources``, every machine in ``facts``, ``operator``, and all live instances (``full``);
its tables of names begin anew. Later entries have the changes.

A file is a line that says what it is, then frames:

    "windward recording 1\n"  ( length  checksum  content ) ...

length and checksum (CRC-32 of the content) are little-endian numbers of 4 bytes; the content is an entry, compressed by
zlib. Reading ends at the first frame that is not whole: a process was killed while it wrote it, or is writing it now.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

SPAN_S = 2**32 / 1000
"""The largest distance of a time from the first one of its columns, s."""
_KEPT = np.uint32(0xFFFFE000)
_HALF = np.uint32(0x1000)


class Packed(msgspec.Struct, frozen=True, omit_defaults=True):
    origin_s: float = 0.0
    row: bytes = b""
    until: bytes = b""
    seconds: bytes = b""
    values: bytes = b""


@dataclass(frozen=True, eq=False)
class Figures:
    """N figures of R resources: means over stretches of time.

    A figure says that row ``row`` had the mean ``values`` (one a resource, NaN: not known) over the ``seconds`` before
    ``until``. Values are kept to 11 binary digits (0.05 %), times to a thousandth of a second. Bytes of equal
    significance are stored next to each other, which compresses better: 1,000 machines with 15 instances each take
    136 MB a day, 6 bytes a figure of four resources, and 2.3 % of the messages they come from
    (`tests/bench/bench_record.py`).
    """

    row: NDArray[np.int64]
    until_s: NDArray[np.float64]
    seconds: NDArray[np.float64]
    values: NDArray[np.float32]
    """[R, N]"""

    def __len__(self) -> int:
        return len(self.row)


def none_of(resources: int) -> Figures:
    return Figures(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros((resources, 0), np.float32))


def rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the values to 11 binary digits; NaN stays.

    >>> rounded(np.array([1.0, 3.14159, 10e9], np.float32)).tolist()
    [1.0, 3.140625, 9999220736.0]
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return np.where(np.isfinite(values), ((bits + _HALF) & _KEPT).view(np.float32), np.float32(np.nan))


def pack(figures: Figures) -> Packed:
    """Return the figures as bytes; times must be within `SPAN_S` of the first."""
    if not len(figures):
        return Packed()
    origin_s = float(np.floor(figures.until_s.min()))
    return Packed(
        origin_s,
        _shuffled(figures.row.astype("<u4")),
        _shuffled(np.rint((figures.until_s - origin_s) * 1000).astype("<u4")),
        _shuffled(np.rint(figures.seconds * 1000).astype("<u4")),
        _shuffled(rounded(figures.values).astype("<f4")),
    )


def unpack(packed: Packed, resources: int) -> Figures:
    """Return the figures; raises ValueError for columns of different lengths."""
    row = _columns(packed.row, "<u4").astype(np.int64)
    until, seconds = _columns(packed.until, "<u4"), _columns(packed.seconds, "<u4")
    values = _columns(packed.values, "<f4")
    if not len(row) == len(until) == len(seconds) or len(values) != resources * len(row):
        raise ValueError(f"{len(row)} rows, {len(until)} times, {len(seconds)} lengths, {len(values)} values")
    return Figures(
        row,
        packed.origin_s + until / 1000,
        seconds / 1000,
        values.reshape(resources, len(row)).astype(np.float32),
    )


def _shuffled(column: NDArray[Any]) -> bytes:
    """Return the bytes of an array, those of equal significance together."""
    return column.reshape(-1).view(np.uint8).reshape(-1, column.itemsize).T.tobytes()


def _columns(raw: bytes, kind: str) -> NDArray[Any]:
    size = np.dtype(kind).itemsize
    if len(raw) % size:
        raise ValueError(f"{len(raw)} bytes are no whole number of {kind}")
    return np.ascontiguousarray(np.frombuffer(raw, np.uint8).reshape(size, -1).T).view(kind).reshape(-1)


class Facts(msgspec.Struct, frozen=True, omit_defaults=True):
    capacity: dict[str, float] = {}
    labels: dict[str, str] = {}


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry of the list of decisions: a placement or a move, done or refused."""

    stamp: str
    """Its id in the list, which begins with its time in ms."""
    method: str = ""
    ids: list[str] = []
    query: str = ""
    scorer: str = ""
    answer: bytes = b""
    """JSON, shortened."""


class Gap(msgspec.Struct, frozen=True, omit_defaults=True):
    """Data that a source no longer had when it was read."""

    source: str
    """samples, ledger or decisions."""
    since: float
    until: float
    lost: int = 0
    """Messages or changes lost; 0: how many is not known."""
    why: str = ""


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    topic_id: str = ""
    offsets: dict[str, int] = {}
    """By partition: the next offset."""
    epoch: str = ""
    change: int = 0
    decision: str = ""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    at: float
    """When it was written, epoch s."""
    version: str = ""
    resources: list[str] = []
    facts: dict[str, Facts] = {}
    gone: list[str] = []
    """Machines that are no longer known."""
    operator: dict[str, bytes] | None = None
    """Operators' rules by machine, JSON; None: unchanged."""
    full: bool = False
    """``instances`` has all live instances after the changed ones; else the changed ones only."""
    instances: list[bytes] = []
    """Records of the ledger, JSON (`scorer.ledger.record.instance`), in the order of their changes."""
    decisions: list[Decision] = []
    pairs: list[str] = []
    """Further rows of ``usage``: machine, tab, instance; an empty instance: usage of none of them."""
    usage: Packed = Packed()
    machines: list[str] = []
    """Further rows of ``load``."""
    load: Packed = Packed()
    gaps: list[Gap] = []
    refused: dict[str, int] = {}
    """Messages that were not used, by reason."""
    position: Position = Position()


encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Entry)


def decode(raw: bytes) -> Entry:
    """Return the entry; raises ValueError."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


HEADER = b"windward recording 1\n"
ENTRY_BYTES_MAX = 2**30
"""The largest size of an entry, compressed and uncompressed, bytes."""
_LEVEL = 6
_FRAME = struct.Struct("<II")


class RecordingError(ValueError):
    """A file that is no recording, or a damaged one; the message names it."""


@dataclass(frozen=True)
class Read:
    entry: Entry
    end: int


def frame(entry: Entry) -> bytes:
    content = zlib.compress(encode(entry), _LEVEL)
    return _FRAME.pack(len(content), zlib.crc32(content)) + content


def read_frames(raw: bytes, name: str) -> Iterator[Read]:
    """Yield the whole frames in a file's bytes; raises RecordingError for a file of another kind or a foreign frame."""
    if raw[: len(HEADER)] != HEADER:
        if HEADER.startswith(raw):  # the process was killed while it wrote the header
            return
        raise RecordingError(f"{name}: is no recording of this format")
    at = len(HEADER)
    while at + _FRAME.size <= len(raw):
        length, checksum = _FRAME.unpack_from(raw, at)
        content = raw[at + _FRAME.size : at + _FRAME.size + length]
        if len(content) < length or length > ENTRY_BYTES_MAX or zlib.crc32(content) != checksum:
            return
        at += _FRAME.size + length
        yield Read(_entry(content, name, at), at)


def _entry(content: bytes, name: str, end: int) -> Entry:
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(content, ENTRY_BYTES_MAX)
        return decode(plain)
    except (zlib.error, ValueError) as error:
        raise RecordingError(f"{name}: the entry that ends at byte {end} cannot be read: {error}") from None
