"""Tables with different windows side by side, and what is not in them."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import WindowTable, decode_table, encode_table
from scorer.snapshot import joining
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.joining import Columns
from scorer.snapshot.snapshot import Snapshot
from tests.rows import each_row
from tests.scorer.snapshot.tables import table


def test_tables_with_other_windows_are_aligned() -> None:
    """While workers with two settings run, each table's windows count under their own length."""
    snapshot = build_snapshot([table(["a"]), table(["b"], mean=2.0, windows_s=(300, 900))], {}, {})
    assert snapshot.windows_s == (300, 900, 3600)
    assert snapshot.windows(300).mean[0].tolist() == [1, 2]
    assert np.isnan(snapshot.windows(900).mean[0, 0])
    assert snapshot.windows().window_s.tolist() == [3600, 900]


def test_what_a_table_does_not_have_is_covered_by_nothing() -> None:
    """A window or a machine without data is covered and filled by 0, never by an unknown share; its skew is 0."""
    tables = [table(["a"]), table(["b"], windows_s=(300, 900))]
    beyond_the_last = np.array([0, 1, 2])
    columns = Columns([PartitionWindows(each) for each in tables], beyond_the_last, np.zeros(3, np.int64))
    coverage = np.array([columns.get("coverage", window_s)[0] for window_s in (300, 900, 3600)])
    assert coverage.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    assert not columns.get("filled", 300).any()
    assert columns.get("skew").tolist() == [0, 0, 0]
    assert np.isnan(columns.get("mean", 300)[:, 2]).all()


COLUMNS = (("at", None), ("capacity", None), ("mean", 300), ("mean", 3600), ("coverage", 300), ("class_mean", 300))


def changes_of(base: WindowTable, rows: list[int], write: int, rng: np.random.Generator) -> WindowTable:
    """Return changes with other values in these rows; those after the base's are machines of their own."""
    columns = {name: rng.random((*column.shape[:-1], len(rows))) for name, column in base.columns.items()}
    columns = {name: values.astype(base.columns[name].dtype) for name, values in columns.items()}
    columns |= {"version": np.full(len(rows), write), "row": np.array(rows, np.uint32)}
    names = "\n".join([*base.machines, "new-1", "new-2"][row] for row in rows)
    header = msgspec.structs.replace(base.header, machines=len(rows))
    return decode_table(encode_table(header, columns, names.encode()))


def of_base(names: list[str], number: int) -> WindowTable:
    """Return a table that is a base."""
    plain = table(names)
    plain.header.base = number
    return decode_table(encode_table(plain.header, dict(plain.columns), plain.names))


@each_row("ledger_machines", [(), ("alone",), ("b3", "alone")])
@each_row("seed", range(20))
def test_mended_columns_are_those_joined_anew(
    monkeypatch: pytest.MonkeyPatch, seed: int, ledger_machines: tuple[str, ...]
) -> None:
    """Over flushes of any rows, new bases and new machines; earlier snapshots keep their values."""
    monkeypatch.setattr(joining, "MENDED_MOST", 1 / 2)
    rng = np.random.default_rng(seed)
    names = [[f"{partition}{number}" for number in range(12)] for partition in "abc"]
    names[2][0] = "a1"  # a machine in two partitions
    bases = [of_base(each, number) for number, each in enumerate(names, 1)]
    rows: list[list[int]] = [[], [], []]
    held = [PartitionWindows(base, changes_of(base, [], 0, rng)) for base in bases]
    snapshot: Snapshot | None = None
    seen: list[tuple[Snapshot, list[np.ndarray]]] = []
    for write in range(100, 112):
        for partition in np.flatnonzero(rng.random(3) < 0.6).tolist():
            known = held[partition]
            if rng.random() < 0.2:  # a new base with what is there, and versions that stay
                whole = known.whole()
                whole.header.base = write
                base = decode_table(encode_table(whole.header, dict(whole.columns), whole.names))
                bases[partition], rows[partition] = base, []
            base = bases[partition]
            some = {*rows[partition], *rng.choice(12, 2).tolist()}
            if rng.random() < 0.2 and base.header.machines == 12:
                some |= {12}
            rows[partition] = sorted(some)
            held[partition] = PartitionWindows(base, changes_of(base, rows[partition], write, rng), known)
        snapshot = build_snapshot(held, {}, {}, ledger_machines=ledger_machines, previous=snapshot)
        anew = build_snapshot(held, {}, {}, ledger_machines=ledger_machines)
        got = [snapshot.columns.get(*column) for column in COLUMNS]
        for (name, _), values, wanted in zip(COLUMNS, got, (anew.columns.get(*one) for one in COLUMNS), strict=True):
            np.testing.assert_array_equal(values, wanted, err_msg=name)
        seen.append((snapshot, [values.copy() for values in got]))
    for earlier, values in seen:
        for column, wanted in zip(COLUMNS, values, strict=True):
            np.testing.assert_array_equal(earlier.columns.get(*column), wanted)
    pairs = itertools.pairwise(seen)
    assert any(later.changed_since(earlier) is not None for (earlier, _), (later, _) in pairs)


def test_only_changed_rows_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the values that changed; with many changes the column is joined anew."""
    base = of_base([f"m{number}" for number in range(64)], 1)
    rng = np.random.default_rng(1)
    first = build_snapshot([PartitionWindows(base, changes_of(base, [], 0, rng))], {}, {})
    first.columns.get("at")
    read: list[int] = []
    plain = joining._read

    def counted(*arguments: object) -> np.ndarray:
        read.append(arguments[-1])  # type: ignore[arg-type]
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(joining, "_read", counted)
    for rows in ([3, 5], list(range(40))):
        windows = PartitionWindows(base, changes_of(base, rows, 2 + len(rows), rng))
        build_snapshot([windows], {}, {}, previous=first).columns.get("at")
    assert read == [2, 64]
