"""Entries in a file: read back equal, whatever is cut off; figures packed and unpacked; damage is told by name."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ops.record.entry import (
    HEADER,
    Entry,
    Figures,
    RecordingError,
    decode,
    encode,
    frame,
    pack,
    read_frames,
    rounded,
    unpack,
)
from tests.ops.record.entries import figures, later, rich

ENTRIES = [rich(1e9), later(1e9 + 60), Entry(at=1e9 + 120)]
FILE = HEADER + b"".join(map(frame, ENTRIES))


@given(cut=st.integers(0, len(FILE)))
def test_a_file_that_was_cut_has_its_whole_entries(cut):
    found = list(read_frames(FILE[:cut], "x.record"))
    ends = [one.end for one in read_frames(FILE, "x.record")]
    assert ends == [len(HEADER + b"".join(map(frame, ENTRIES[:count]))) for count in (1, 2, 3)]
    assert [one.entry for one in found] == ENTRIES[: sum(end <= cut for end in ends)]


@given(at=st.integers(len(HEADER), len(FILE) - 1), bits=st.integers(1, 255))
def test_a_changed_byte_never_changes_an_entry(at, bits):
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
def test_what_is_no_recording_is_refused(what, raw):
    with pytest.raises(RecordingError, match=r"x\.record"):
        list(read_frames(raw, "x.record"))


def test_a_newer_field_is_passed_over():
    import msgspec

    newer = {**msgspec.msgpack.decode(encode(Entry(at=1.0))), "more": [1, 2]}
    assert decode(msgspec.msgpack.encode(newer)) == Entry(at=1.0)


counts = st.integers(0, 30)


@given(data=st.data(), count=counts, resources=st.integers(1, 5))
def test_what_is_packed_is_unpacked_equal(data, count, resources):
    """Rows as they are, times to a thousandth of a second, values to 11 binary digits, unknown ones unknown."""
    values = data.draw(
        arrays(np.float32, (resources, count), elements=st.floats(0, 2.0**53, width=32) | st.just(np.nan))
    )
    given = Figures(
        data.draw(arrays(np.int64, count, elements=st.integers(0, 2**31))),
        1.7e9 + data.draw(arrays(np.float64, count, elements=st.floats(0, 1e5))),
        data.draw(arrays(np.float64, count, elements=st.floats(0, 7200))),
        values,
    )
    found = unpack(pack(given), resources)
    np.testing.assert_array_equal(found.row, given.row)
    np.testing.assert_allclose(found.until_s, given.until_s, rtol=0, atol=0.001)
    np.testing.assert_allclose(found.seconds, given.seconds, rtol=0, atol=0.001)
    np.testing.assert_array_equal(found.values, rounded(values))
    np.testing.assert_allclose(found.values, values, rtol=2**-11, atol=1e-37)


def test_rounding_is_done_once():
    """What was read from a recording may be recorded again without a change."""
    values = rounded(np.random.default_rng(1).uniform(0, 1e9, 1000).astype(np.float32))
    np.testing.assert_array_equal(rounded(values), values)


def test_columns_that_do_not_fit_are_refused():
    packed = pack(figures([0, 1], [5.0, 6.0], [2.0, 3.0]))
    with pytest.raises(ValueError, match="2 rows"):
        unpack(packed, 3)
    with pytest.raises(ValueError, match="whole number"):
        unpack(type(packed)(0.0, packed.row[:-1], packed.until, packed.seconds, packed.values), 4)
