"""The window table: what is written is read, and what is damaged is refused, never misread in silence by its shape."""

from __future__ import annotations

import json
import struct
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from schemas.tables.window_table import MAJOR, Header, TableError, decode_table, encode_table, resource_axis
from tests.rows import each_row
from tests.schemas.test_golden import SUMMED, TABLE

KINDS = [np.float64, np.float32, np.uint16, np.uint32, np.int64, np.uint8, np.bool_]
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Header, dict[str, Any], list[str]]:
    """Any header, any machines, any columns of the kinds that are written; none is named as one with resources."""
    machines = draw(st.lists(NAMES, max_size=6, unique=True))
    columns = {}
    for name in draw(st.lists(NAMES.filter(lambda name: resource_axis(name) is None), max_size=6, unique=True)):
        axes = draw(st.lists(st.integers(0, 4), max_size=3))
        dtype = np.dtype(draw(st.sampled_from(KINDS)))
        columns[name] = draw(hnp.arrays(dtype, (*axes, len(machines))))
    header = Header(
        minor=draw(st.integers(0, 9)),
        machines=len(machines),
        windows_s=tuple(draw(st.lists(st.integers(0, 10_000), max_size=4))),
        partition=draw(st.integers(0, 2**31)),
        offset=draw(st.integers(0, 2**62)),
        topic_id=draw(st.text(max_size=20)),
        facts=draw(st.integers(0, 2**31)),
        written_at=draw(st.floats(0, 1e11)),
        columns=[],
    )
    return header, columns, machines


@given(table=tables())
@settings(deadline=None)
def test_what_is_written_is_read(table: tuple[Header, dict[str, Any], list[str]]) -> None:
    """Header, names and columns to the bit, NaN included, also with no machine or no column."""
    header, columns, machines = table
    got = decode_table(encode_table(header, columns, "\n".join(machines).encode()))
    assert got.header == msgspec.json.decode(msgspec.json.encode(header), type=Header)
    assert got.machines == machines
    assert got.columns.keys() == columns.keys()
    for name, column in columns.items():
        assert got.columns[name].dtype == column.dtype
        np.testing.assert_array_equal(got.columns[name], column, err_msg=name)


@given(table=tables(), data=st.data())
@settings(deadline=None)
def test_a_cut_table_is_refused(table: tuple[Header, dict[str, Any], list[str]], data: st.DataObject) -> None:
    header, columns, machines = table
    raw = encode_table(header, columns, "\n".join(machines).encode())
    kept = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(TableError):
        decode_table(raw[:kept])


def test_the_golden_table_is_refused_at_every_cut() -> None:
    """All 1,671 of them, and with anything behind it."""
    for kept in range(len(TABLE)):
        with pytest.raises(TableError):
            decode_table(TABLE[:kept])
    for more in (b"\0", b"\n", b"x", b"\nm-4"):
        with pytest.raises(TableError):
            decode_table(TABLE + more)


def test_no_wrong_bit_is_read_as_a_number() -> None:
    """Each bit of a table turned round: refused, but in the name of the checksum, which leaves all else as it was."""
    whole = decode_table(SUMMED)
    for bit in range(8 * len(SUMMED)):
        raw = bytearray(SUMMED)
        raw[bit // 8] ^= 1 << bit % 8
        try:
            table = decode_table(bytes(raw))
        except TableError:
            continue
        assert 12 <= bit // 8 < 23
        assert all(table.columns[name].tobytes() == column.tobytes() for name, column in whole.columns.items())


def test_a_wrong_checksum_is_told() -> None:
    with pytest.raises(TableError, match=r"^window table is damaged: its checksum is \w{8}, it says b'\w{8}'$"):
        decode_table(SUMMED[:-1] + b"5")


def test_any_wrong_byte_is_read_or_refused() -> None:
    """Every byte of the golden table changed in four ways: TableError, or a table of the same shape."""
    refused = 0
    for place in range(len(TABLE)):
        for flip in (0x01, 0x20, 0x80, 0xFF):
            raw = bytearray(TABLE)
            raw[place] ^= flip
            try:
                table = decode_table(bytes(raw))
            except TableError:
                refused += 1
            else:
                assert len(table.machines) == table.header.machines == 3
                assert all(column.shape[-1] == 3 for column in table.columns.values())
    assert refused > 1500


@given(raw=st.binary(max_size=300), head=st.binary(max_size=60))
def test_any_bytes_are_refused(raw: bytes, head: bytes) -> None:
    for value in (raw, b"WINDTBL" + raw, struct.pack("<7sBI", b"WINDTBL", MAJOR, len(head)) + head + raw):
        with pytest.raises(TableError):
            decode_table(value)


def with_header(body: bytes = b"\0" * 64, **fields: Any) -> bytes:
    """A table with this header; it is well formed but for what is given."""
    header = {"machines": 1, "windows_s": [300], "names_bytes": 2, "columns": [["a", "f8", [1]]]} | fields
    head = json.dumps({key: value for key, value in header.items() if value is not ...}).encode()
    return struct.pack("<7sBI", b"WINDTBL", 1, len(head)) + head + body


DAMAGED: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("another magic", b"WINDTBX" + TABLE[7:]),
    ("header longer than the value", TABLE[:8] + b"\xff\xff\xff\xff" + TABLE[12:]),
    ("header is no JSON", TABLE[:12] + b"x" + TABLE[13:]),
    ("no machines", with_header(machines=...)),
    ("no columns", with_header(columns=...)),
    ("machines are text", with_header(machines="3")),
    ("negative machines", with_header(machines=-1, columns=[["a", "f8", [-1]]])),
    ("column of unknown length", with_header(columns=[["a", "f8", [-1]]])),
    ("column without axes", with_header(columns=[["a", "f8", []]])),
    ("column of more machines", with_header(columns=[["a", "f8", [2]]])),
    ("column of fewer machines", with_header(columns=[["a", "f8", [0]]])),
    ("column of endless length", with_header(columns=[["a", "f8", [2**62, 4, 1]]])),
    ("column longer than the value", with_header(columns=[["a", "f8", [1000, 1]]])),
    ("column longer than a number", with_header(columns=[["a", "f8", [2**70, 1]]])),
    ("column with 90 axes", with_header(columns=[["a", "f8", [1] * 90]])),
    ("unknown kind", with_header(columns=[["a", "x9", [1]]])),
    ("no kind", with_header(columns=[["a", "", [1]]])),
    ("kind of objects", with_header(columns=[["a", "O", [1]]])),
    ("kind that is code", with_header(columns=[["a", "(1", [1]]])),
    ("kind without size", with_header(columns=[["a", "V0", [1]]])),
    ("column is a pair", with_header(columns=[["a", "f8"]])),
    ("names not UTF-8", with_header(b"\0" * 8 + b"\xff\xfe")),
    ("more names than machines", with_header(b"\0" * 8 + b"a\nb", names_bytes=3)),
    ("fewer names than machines", with_header(b"\0" * 16 + b"ab", machines=2, columns=[["a", "f8", [2]]])),
    ("names cut", with_header(b"\0" * 8 + b"a")),
    ("names missing", with_header(b"\0" * 8)),
    ("deep header", struct.pack("<7sBI", b"WINDTBL", 1, 9000) + b"[" * 9000),
]


@each_row(("name", "raw"), DAMAGED, ids=[row[0] for row in DAMAGED])
def test_a_damaged_table_is_refused(name: str, raw: bytes) -> None:
    """With TableError and nothing else; the message says why."""
    with pytest.raises(TableError, match=r"^(not a window table|window table )"):
        decode_table(raw)


def test_columns_are_read_only_views() -> None:
    """Nothing is copied, and nobody can change what others read."""
    table = decode_table(TABLE)
    with pytest.raises(ValueError, match="read-only"):
        table.columns["at"][0] = 0  # type: ignore[index]


def test_columns_need_not_be_contiguous() -> None:
    large = np.arange(60.0).reshape(3, 20)
    columns = {"sliced": large[:, :7], "turned": large[:, :7].T.copy().T}
    got = decode_table(encode_table(Header(machines=7, windows_s=(), columns=[]), columns, b""))
    for name in columns:
        np.testing.assert_array_equal(got.columns[name], large[:, :7])
