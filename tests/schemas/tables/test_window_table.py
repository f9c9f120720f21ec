"""The window table: what is written is read, and what is damaged is refused, never misread in silence by its shape."""

import json
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from schemas.resources import RESOURCES
from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import (
    MAJOR,
    PERCENTILES,
    Header,
    TableError,
    aligned,
    decode_table,
    encode_table,
    resource_axis,
)
from scorer.snapshot.builder import build_snapshot
from tests.test_golden import SUMMED, TABLE
from tests.window_tables import unsummed

KINDS = [np.float64, np.float32, np.uint16, np.uint32, np.int64, np.uint8, np.bool_]
NAMES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)


@st.composite
def tables(draw):
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
def test_what_is_written_is_read(table):
    """Header, names and columns to the bit, NaN included, also with no machine or no column."""
    header, columns, machines = table
    got = decode_table(encode_table(header, columns, "\n".join(machines).encode()))
    assert got.header == msgspec.json.decode(msgspec.json.encode(header), type=Header)
    assert got.machines == machines
    assert got.columns.keys() == columns.keys()
    for name, column in columns.items():
        assert got.columns[name].dtype == column.dtype
        np.testing.assert_array_equal(got.columns[name], column, err_msg=name)


def test_the_golden_table_is_refused_at_every_cut():
    for kept in range(len(TABLE)):
        with pytest.raises(TableError):
            decode_table(TABLE[:kept])
    for more in (b"\0", b"\n", b"x", b"\nm-4"):
        with pytest.raises(TableError):
            decode_table(TABLE + more)


def test_no_wrong_bit_is_read_as_a_number():
    """Each bit of a table turned round, and the checksum's name beside it, which older writers had not."""
    for bit in range(8 * len(SUMMED)):
        raw = bytearray(SUMMED)
        raw[bit // 8] ^= 1 << bit % 8
        for value in (bytes(raw), bytes(raw).replace(b"crc32c", b"crc32d")):
            with pytest.raises(TableError):
                decode_table(value)


def test_a_wrong_checksum_is_told():
    with pytest.raises(TableError, match=r"^window table is damaged: its checksum is \w{8}, it says b'\w{8}'$"):
        decode_table(SUMMED[:-1] + b"5")


@given(raw=st.binary(max_size=300), head=st.binary(max_size=60))
def test_any_bytes_are_refused(raw, head):
    for value in (raw, b"WINDTBL" + raw, struct.pack("<7sBI", b"WINDTBL", MAJOR, len(head)) + head + raw):
        with pytest.raises(TableError):
            decode_table(value)


def with_header(body=b"\0" * 64, **fields):
    """A table with this header; it is well formed but for what is given."""
    header = {"machines": 1, "windows_s": [300], "names_bytes": 2, "columns": [["a", "f8", [1]]]} | fields
    head = json.dumps({key: value for key, value in header.items() if value is not ...}).encode()
    return struct.pack("<7sBI", b"WINDTBL", 1, len(head)) + head + body


DAMAGED = [
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


@pytest.mark.parametrize(("name", "raw"), DAMAGED, ids=[row[0] for row in DAMAGED])
def test_a_damaged_table_is_refused(name, raw):
    with pytest.raises(TableError, match=r"^(not a window table|window table )"):
        decode_table(raw)


def test_columns_are_read_only_views():
    """Nothing is copied, and nobody can change what others read."""
    table = decode_table(TABLE)
    with pytest.raises(ValueError, match="read-only"):
        table.columns["at"][0] = 0


def test_columns_need_not_be_contiguous():
    large = np.arange(60.0).reshape(3, 20)
    columns = {"sliced": large[:, :7], "turned": large[:, :7].T.copy().T}
    got = decode_table(encode_table(Header(machines=7, windows_s=(), columns=[]), columns, b""))
    for name in columns:
        np.testing.assert_array_equal(got.columns[name], large[:, :7])


def table(names, base=7, rows=None, mean=1.0, **more):
    count = len(names)
    columns = {"at": np.full(count, 5.0), "mean": np.full((1, 2, count), mean)}
    columns["version"] = np.full(count, base)
    if rows is not None:
        columns["row"] = np.array(rows, np.uint32)
    header = Header(machines=count, windows_s=(300,), resources=("cpu", "memory"), base=base, columns=[])
    return encode_table(msgspec.structs.replace(header, **more), columns, "\n".join(names).encode())


def together(base, changes, previous=None):
    return PartitionWindows(decode_table(base), decode_table(changes), previous)


def means(whole):
    return dict(zip(whole.machines, whole.columns["mean"][0, 0].tolist(), strict=True))


def test_changes_are_put_on_their_base():
    """Changed rows have the new values, machines after the base's are added; names stay the same object while equal."""
    base = table(["a", "b", "c"])
    none = together(base, table([], rows=[]))
    assert means(none.whole()) == {"a": 1, "b": 1, "c": 1}
    some = together(base, table(["b", "d", "e"], rows=[1, 3, 4], mean=2.0), none)
    assert means(some.whole()) == {"a": 1, "b": 2, "c": 1, "d": 2, "e": 2}
    assert (some.machines_count, some.whole().header.machines, some.machines) == (5, 5, ["a", "b", "c", "d", "e"])
    again = together(base, table(["a", "b", "d", "e"], rows=[0, 1, 3, 4], mean=3.0), some)
    assert again.names is some.names
    np.testing.assert_array_equal(again.versions, [7] * 5)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (table(["b"], base=8, rows=[1]), "changes since base 8; this is base 7"),
        (table(["b"]), "they have no rows"),
        (table(["b", "a"], rows=[1, 0]), "not ascending"),
        (table(["b", "b"], rows=[1, 1]), "not ascending"),
        (table(["e"], rows=[4]), "some are left out"),
        (table(["b"], rows=[1], windows_s=(900,)), "other columns"),
        (table(["b"], rows=[1], resources=("memory", "cpu")), "other columns"),
        (table(["b"], rows=[1], partition=3), "other columns"),
    ],
)
def test_what_does_not_fit_is_refused(changes, why):
    with pytest.raises(TableError, match=why):
        together(table(["a", "b", "c"]), changes)


@given(st.integers(1, 20), st.data())
def test_any_rows_of_a_base_may_change(machines, data):
    """The whole table is the base with these rows replaced."""
    names = [f"m{row}" for row in range(machines)]
    added = data.draw(st.integers(0, 5))
    rows = sorted(data.draw(st.sets(st.integers(0, machines - 1)))) + list(range(machines, machines + added))
    names += [f"m{row}" for row in range(machines, machines + added)]
    windows = together(table(names[:machines]), table([names[row] for row in rows], rows=rows, mean=2.0))
    assert means(windows.whole()) == {name: 2.0 if row in rows else 1.0 for row, name in enumerate(names)}


THREE = ("cpu", "memory", "nic")
MACHINES = ["a", "b"]
WINDOWS_S = (300, 900)


def made(resources):
    """Columns in which a resource is known by its numbers, whatever its place: the length of its name, and steps."""
    r = np.array([len(name) + ord(name[0]) for name in resources], np.float64)
    m, w = np.arange(len(MACHINES)) / 4, np.arange(len(WINDOWS_S))[:, None, None] * 100.0
    by_resource = 1000.0 * r[:, None] + m
    return {
        "at": 50.0 + m,
        "capacity": by_resource,
        "mean": w + by_resource,
        "std": (w + by_resource).astype("f4"),
        "percentile": np.repeat((w + by_resource)[:, :, None, :], len(PERCENTILES), axis=2).astype("f4"),
        "filled": (w + r[:, None] + m * 4).astype("u2"),
        "coverage": np.ones((len(WINDOWS_S), len(resources), len(MACHINES)), "f4"),
        "peak_today": by_resource.astype("f4"),
        "class_prod": (w + by_resource).astype("f4"),
    }


def value_of(resources, columns=None):
    """A table as a writer of these resources leaves it."""
    header = Header(machines=2, windows_s=WINDOWS_S, resources=resources, columns=[])
    return encode_table(header, columns or made(resources), b"a\nb")


def table_of(resources):
    return decode_table(value_of(resources))


def assert_aligned(table, resources):
    """What the writer knew is at its place by name; the rest of what this process knows is blank."""
    whole = made(RESOURCES)
    known = [row for row, name in enumerate(RESOURCES) if name in resources]
    blank = [row for row, name in enumerate(RESOURCES) if name not in resources]
    snapshot = build_snapshot([table], {}, {})
    for name, wanted in whole.items():
        got = aligned(table, name)
        assert got is not None, name
        seen = snapshot.column("class_mean")[0] if name == "class_prod" else snapshot.column(name)
        if name == "at":
            np.testing.assert_array_equal(got, wanted)
            continue
        axis = -3 if name == "percentile" else -2
        for values in (got, seen):
            np.testing.assert_array_equal(values.take(known, axis), wanted.take(known, axis), err_msg=name)
            rest = values.take(blank, axis).astype(float)
            assert (np.isnan(rest) | (rest == 0)).all(), name
            assert name in ("filled", "coverage") or np.isnan(rest).all(), name


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param(RESOURCES, id="ours"),
        pytest.param(THREE, id="without the last"),
        pytest.param((*RESOURCES, "gpu"), id="one more at the end"),
        pytest.param(("cpu", "memory", "nic", "gpu", *RESOURCES[3:]), id="one more before ours"),
        pytest.param(("gpu", "memory", "cpu"), id="another order, one missing, one unknown"),
        pytest.param(("cpu",), id="one alone"),
        pytest.param(("gpu", "fpga"), id="none of ours"),
    ],
)
def test_resources_are_aligned_by_name(resources):
    """A resource the writer did not know is blank, one this reader does not know is passed over."""
    assert_aligned(table_of(resources), resources)


def test_tables_of_writers_with_different_resources_are_joined():
    other = decode_table(unsummed(value_of(("gpu", "memory", "cpu"))).replace(b"a\nb", b"c\nd"))
    snapshot = build_snapshot([table_of(RESOURCES), other, decode_table(FIRST)], {}, {})
    assert snapshot.names == ("a", "b", "c", "d")
    mean = snapshot.column("mean")
    np.testing.assert_array_equal(mean[:, :2, :2], mean[:, :2, 2:])
    assert np.isnan(mean[:, 2:, 2:]).all()


FIRST = value_of(THREE)


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (["cpu", "memory"], "3 resources, 2 are named"),
        (["cpu", "nic", "cpu"], "a resource is listed twice among cpu, nic, cpu"),
    ],
)
def test_a_table_whose_axis_is_not_named_right_is_refused(resources, words):
    """A value must never be read as another resource's."""
    with pytest.raises(TableError, match=words):
        decode_table(unsummed(FIRST, resources=resources))


def test_the_header_fits_into_what_a_scorer_looks_at():
    """What tells one write from the next comes before the resources and the columns."""
    raw = value_of(RESOURCES)
    assert raw.index(b'"written_at"') < raw.index(b'"resources"') < raw.index(b'"columns"') < 2048
