"""Windows as a base and the changes since it: put together, and refused where they do not fit."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import Header, TableError, WindowTable, decode_table, encode_table
from tests.rows import each_row


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
    """Return the windows in two values."""
    return PartitionWindows(decode_table(base), decode_table(changes), previous)


def means(whole: WindowTable) -> dict[str, float]:
    """Return the mean by machine."""
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
    """Changes of another base, and rows that cannot be."""
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
