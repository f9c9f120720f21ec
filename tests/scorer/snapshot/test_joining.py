"""Tables with different windows side by side, and what is not in them."""

import itertools
from itertools import count

import msgspec
import numpy as np
import pytest

from schemas.messages.operator import DEFAULT, OperatorFacts
from schemas.messages.sample import MachineFacts
from schemas.tables.partition_windows import PartitionWindows
from schemas.tables.window_table import decode_table, encode_table
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Columns
from tests.scorer.snapshot.tables import table


def test_tables_with_other_windows_are_aligned():
    snapshot = build_snapshot([table(["a"]), table(["b"], mean=2.0, windows_s=(300, 900))], {}, {})
    assert snapshot.windows_s == (300, 900, 3600)
    assert snapshot.windows(300).mean[0].tolist() == [1, 2]
    assert np.isnan(snapshot.windows(900).mean[0, 0])
    assert snapshot.windows().window_s.tolist() == [3600, 900]


def test_windows_were_last_written_when_the_newest_table_was():
    tables = [table(["a"]), table(["b"]), table(["c"])]
    for one, at in zip(tables, (5.0, 7.0, 6.0), strict=True):
        one.header.written_at = at
    assert build_snapshot(tables, {}, {}).written_at == 7.0


def test_what_a_table_does_not_have_is_covered_by_nothing():
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


def changes_of(base, rows, write, rng):
    """Return changes with other values in these rows; those after the base's are machines of their own."""
    columns = {name: rng.random((*column.shape[:-1], len(rows))) for name, column in base.columns.items()}
    columns = {name: values.astype(base.columns[name].dtype) for name, values in columns.items()}
    columns |= {"version": np.full(len(rows), write), "row": np.array(rows, np.uint32)}
    names = "\n".join([*base.machines, "new-1", "new-2"][row] for row in rows)
    header = msgspec.structs.replace(base.header, machines=len(rows))
    return decode_table(encode_table(header, columns, names.encode()))


def of_base(names, number):
    plain = table(names)
    plain.header.base = number
    return decode_table(encode_table(plain.header, dict(plain.columns), plain.names))


@pytest.mark.parametrize("ledger_machines", [(), ("alone",), ("b3", "alone")])
@pytest.mark.parametrize("seed", range(20))
def test_columns_of_some_rows_are_those_of_all(seed, ledger_machines):
    """Over flushes of any rows, new bases and new machines: also in the rows that changed, and no others changed."""
    rng = np.random.default_rng(seed)
    names = [[f"{partition}{number}" for number in range(12)] for partition in "abc"]
    names[2][0] = "a1"  # a machine in two partitions
    bases = [of_base(each, number) for number, each in enumerate(names, 1)]
    rows = [[], [], []]
    held = [PartitionWindows(base, changes_of(base, [], 0, rng)) for base in bases]
    snapshot = None
    seen = []
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


WRITES = count(2)
FACTS = {}
OPERATOR = {}


def with_cell(before, name, row, value):
    columns = {each: column.copy() for each, column in before.columns.items()}
    columns[name][..., row] = value
    columns["version"][row] = next(WRITES)
    return decode_table(encode_table(before.header, columns, before.names))


def fact(machine, **labels):
    return MachineFacts(v=1, machine=machine, boot=0, at=0, capacity={"cpu": 4.0}, labels=labels)


def changed(snapshot, other):
    rows = snapshot.changed_since(other)
    return None if rows is None else [snapshot.names[row] for row in rows]


def after(before, *tables, facts=FACTS, operator=OPERATOR):
    return build_snapshot(tables, facts, operator, previous=before)


@pytest.mark.parametrize(("column", "value"), [("mean", 5.0), ("coverage", 0.5), ("at", 101.0), ("mean", np.nan)])
def test_a_row_changes_with_any_of_its_values(column, value):
    """A late sample changes a mean and no ``at``; the other rows and the other partitions keep their versions."""
    one, two = table(["a", "b"]), table(["c"])
    first = build_snapshot([one, two], FACTS, OPERATOR)
    late = with_cell(one, column, 1, value)
    second = after(first, late, two)
    assert changed(second, first) == ["b"]
    assert (second.versions >= first.versions).all()
    third = after(second, decode_table(encode_table(late.header, late.columns, late.names)), table(["c"]))
    assert changed(third, second) == []
    assert changed(third, first) == ["b"]


def test_two_snapshots_made_from_one_share_no_new_version():
    one = table(["a", "b"])
    first = build_snapshot([one], FACTS, OPERATOR)
    left, right = (after(first, with_cell(one, "mean", 0, value)) for value in (2.0, 3.0))
    assert changed(left, right) == changed(right, left) == ["a"]


def test_cordons_of_a_what_if_are_beside_the_versions():
    """They are patches of its rows: the snapshot that is compared is the one without them."""
    one = table(["a", "b"])
    first = build_snapshot([one], FACTS, OPERATOR)
    what_if = first.with_cordon(["b"])
    assert (what_if.origin, what_if.with_cordon(["a"]).origin) == (first, first)
    assert what_if.rules.cordon.tolist() == [False, True]
    assert changed(what_if, after(first, with_cell(one, "mean", 0, 2.0))) == ["a"]


def test_facts_and_rules_are_in_the_version():
    one = table(["a", "b"])
    first = build_snapshot([one], {"a": fact("a"), "b": fact("b")}, OPERATOR)
    facts = {"a": fact("a"), "b": fact("b", rack="1")}
    labelled = after(first, one, facts=facts)
    assert changed(labelled, first) == ["b"]
    cordoned = after(labelled, one, facts=facts, operator={"a": OperatorFacts(cordon=True)})
    assert changed(cordoned, labelled) == ["a"]
    everywhere = after(labelled, one, facts=facts, operator={DEFAULT: OperatorFacts(share={"cpu": 0.5})})
    assert changed(everywhere, labelled) == ["a", "b"]
    assert changed(labelled.with_use(None), labelled) == []


def test_another_shape_has_no_rows_in_common():
    first = build_snapshot([table(["a", "b"])], FACTS, OPERATOR)
    for tables in (
        [table(["a", "b", "c"])], [table(["a"])], [table(["b", "a"])], [table(["a", "b"], windows_s=(300, 900))]
    ):  # fmt: skip
        assert after(first, *tables).changed_since(first) is None
    assert after(first, table(["a"]), table(["b"])).shape == first.shape


def test_of_two_rows_the_one_that_counts_is_compared():
    """A machine in two tables, and one without data: the newer row is another one now, or the older one changed."""
    one, two = table(["a", "both"], at=100.0), table(["both"], at=200.0, mean=2.0)
    first = build_snapshot([one, two], {"f": fact("f")}, OPERATOR)
    again = build_snapshot([with_cell(one, "mean", 1, 7.0), two], first.sources.facts, OPERATOR, previous=first)
    assert changed(again, first) == []
    newer = build_snapshot([with_cell(one, "at", 1, 300.0), two], first.sources.facts, OPERATOR, previous=first)
    assert changed(newer, first) == ["both"]
