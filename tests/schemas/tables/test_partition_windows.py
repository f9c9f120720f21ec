"""Windows as a base and the changes since it: put together, and refused where they do not fit."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from schemas.tables.alignment import aligned
from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import PERCENTILES, Header, TableError, WindowTable, decode_table, encode_table
from scorer.snapshot.builder import build_snapshot
from tests.rows import each_row
from tests.window_tables import unsummed


def table(names: list[str], base: int = 7, rows: list[int] | None = None, mean: float = 1.0, **more: Any) -> bytes:
    """Return a base of these machines, or changes of these rows."""
    count = len(names)
    columns: dict[str, Any] = {"at": np.full(count, 5.0), "mean": np.full((1, 2, count), mean)}
    columns["version"] = np.full(count, base)
    if rows is not None:
        columns["row"] = np.array(rows, np.uint32)
    header = Header(machines=count, windows_s=(300,), resources=("cpu", "memory"), base=base, columns=[])
    return encode_table(msgspec.structs.replace(header, **more), columns, "\n".join(names).encode())


def together(base: bytes, changes: bytes, previous: PartitionWindows | None = None) -> PartitionWindows:
    return PartitionWindows(decode_table(base), decode_table(changes), previous)


def means(whole: WindowTable) -> dict[str, float]:
    return dict(zip(whole.machines, whole.columns["mean"][0, 0].tolist(), strict=True))


def test_changes_are_put_on_their_base() -> None:
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


@each_row(
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
def test_what_does_not_fit_is_refused(changes: bytes, why: str) -> None:
    with pytest.raises(TableError, match=why):
        together(table(["a", "b", "c"]), changes)


@given(st.integers(1, 20), st.data())
def test_any_rows_of_a_base_may_change(machines: int, data: st.DataObject) -> None:
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


def made(resources: tuple[str, ...]) -> dict[str, Any]:
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


def value_of(resources: tuple[str, ...], columns: dict[str, Any] | None = None) -> bytes:
    """A table as a writer of these resources leaves it."""
    header = Header(machines=2, windows_s=WINDOWS_S, resources=resources, columns=[])
    return encode_table(header, columns or made(resources), b"a\nb")


def table_of(resources: tuple[str, ...]) -> WindowTable:
    return decode_table(value_of(resources))


def assert_aligned(table: WindowTable, resources: tuple[str, ...]) -> None:
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


@each_row(
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
def test_resources_are_aligned_by_name(resources: tuple[str, ...]) -> None:
    """A resource the writer did not know is blank, one this reader does not know is passed over."""
    assert_aligned(table_of(resources), resources)


def test_tables_of_writers_with_different_resources_are_joined() -> None:
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
def test_a_table_whose_axis_is_not_named_right_is_refused(resources: list[str], words: str) -> None:
    """A value must never be read as another resource's."""
    with pytest.raises(TableError, match=words):
        decode_table(unsummed(FIRST, resources=resources))


def test_the_header_fits_into_what_a_scorer_looks_at() -> None:
    """What tells one write from the next comes before the resources and the columns."""
    raw = value_of(RESOURCES)
    assert raw.index(b'"written_at"') < raw.index(b'"resources"') < raw.index(b'"columns"') < 2048
