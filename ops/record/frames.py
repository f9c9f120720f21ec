r"""Entries in a file: a line that says what it is, then frames.

    "windward recording 1\n"  ( length  checksum  content ) ...

length and checksum (CRC-32 of the content) are little-endian numbers of 4 bytes; the content is an entry
(`ops.record.entry`), compressed by zlib. Reading ends at the first frame that is not whole: a process was killed while
it wrote it, or is writing it now.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from ops.record.entry import Entry, decode, encode

HEADER = b"windward recording 1\n"
ENTRY_BYTES_MAX = 2**30
"""The largest size of an entry, compressed and uncompressed, bytes."""
_LEVEL = 6
_FRAME = struct.Struct("<II")


class RecordingError(ValueError):
    """A file is no recording, or a damaged one; the message names it."""


@dataclass(frozen=True)
class Read:
    """An entry, and where its frame ends."""

    entry: Entry
    end: int


def frame(entry: Entry) -> bytes:
    """Return the bytes of one entry."""
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
