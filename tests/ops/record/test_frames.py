"""Entries in a file: read back equal, whatever is cut off; a damaged file is told by name."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.record.entry import Entry, decode, encode
from ops.record.frames import HEADER, RecordingError, frame, read_frames
from tests.ops.record.entries import later, rich

ENTRIES = [rich(1e9), later(1e9 + 60), Entry(at=1e9 + 120)]
FILE = HEADER + b"".join(map(frame, ENTRIES))


def test_what_is_written_is_read_equal() -> None:
    """Each entry, with where it ends."""
    found = list(read_frames(FILE, "x.record"))
    assert [one.entry for one in found] == ENTRIES
    assert found[-1].end == len(FILE)


@given(cut=st.integers(0, len(FILE)))
def test_a_file_that_was_cut_has_its_whole_entries(cut: int) -> None:
    """At any byte: what was complete before is there, nothing else."""
    found = list(read_frames(FILE[:cut], "x.record"))
    ends = [one.end for one in read_frames(FILE, "x.record")]
    assert [one.entry for one in found] == ENTRIES[: sum(end <= cut for end in ends)]


@given(at=st.integers(len(HEADER), len(FILE) - 1), bits=st.integers(1, 255))
def test_a_changed_byte_never_changes_an_entry(at: int, bits: int) -> None:
    """By the checksum: entries before it are read, the one with the byte is not."""
    damaged = bytearray(FILE)
    damaged[at] ^= bits
    found = [one.entry for one in read_frames(bytes(damaged), "x.record")]
    assert found == ENTRIES[: len(found)]
    assert len(found) < len(ENTRIES)


@pytest.mark.parametrize(
    ("what", "raw"),
    [
        ("another format", b"windward recording 2\n"),
        ("no recording", b"PAR1"),
        ("no MessagePack", HEADER + struct.pack("<II", 9, zlib.crc32(b"xxxxxxxxx")) + b"xxxxxxxxx"),
        ("no entry", HEADER + struct.pack("<II", len(z := zlib.compress(b"\x93\x01")), zlib.crc32(z)) + z),
    ],
)
def test_what_is_no_recording_is_refused(what: str, raw: bytes) -> None:
    """The message names the file."""
    with pytest.raises(RecordingError, match=r"x\.record"):
        list(read_frames(raw, "x.record"))


def test_a_newer_field_is_passed_over() -> None:
    """And an absent one has its default: an older entry is read, too."""
    import msgspec

    newer = {**msgspec.msgpack.decode(encode(Entry(at=1.0))), "more": [1, 2]}
    assert decode(msgspec.msgpack.encode(newer)) == Entry(at=1.0)
