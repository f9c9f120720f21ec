"""Tables with different windows side by side, and what is not in them."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np

from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import WindowTable, decode_table, encode_table
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
    columns = Columns([PartitionWindows(each) for each in tables], beyond_the_last)
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
    plain = table(names)
    plain.header.base = number
    return decode_table(encode_table(plain.header, dict(plain.columns), plain.names))


@each_row("ledger_machines", [(), ("alone",), ("b3", "alone")])
@each_row("seed", range(20))
def test_columns_of_some_rows_are_those_of_all(seed: int, ledger_machines: tuple[str, ...]) -> None:
    """Over flushes of any rows, new bases and new machines: also in the rows that changed, and no others changed."""
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
            flushed = {*rows[partition], *rng.choice(12, 2).tolist()}
            if rng.random() < 0.2 and base.header.machines == 12:
                flushed |= {12}
            rows[partition] = sorted(flushed)
            held[partition] = PartitionWindows(base, changes_of(base, rows[partition], write, rng), known)
        snapshot = build_snapshot(held, {}, {}, ledger_machines=ledger_machines, previous=snapshot)
        anew = build_snapshot(held, {}, {}, ledger_machines=ledger_machines)
        got = [snapshot.columns.get(*column) for column in COLUMNS]
        some = rng.permutation(len(snapshot))[: rng.integers(1, len(snapshot) + 1)]
        for column, values in zip(COLUMNS, got, strict=True):
            np.testing.assert_array_equal(values, anew.columns.get(*column), err_msg=column[0])
            part = snapshot.columns.of_rows(some).get(*column)
            np.testing.assert_array_equal(part, values[..., some], err_msg=column[0])
        seen.append((snapshot, [values.copy() for values in got]))
    for earlier, copies in seen:
        for column, kept in zip(COLUMNS, copies, strict=True):
            np.testing.assert_array_equal(earlier.columns.get(*column), kept)
    followed = 0
    for (first, before), (second, after) in itertools.pairwise(seen):
        changed = second.changed_since(first)
        if changed is None:
            continue
        followed += 1
        new = second.columns.of_rows(changed)
        for column, old, wanted in zip(COLUMNS, before, after, strict=True):
            old[..., changed] = new.get(*column)
            np.testing.assert_array_equal(old, wanted, err_msg=column[0])
    assert followed
