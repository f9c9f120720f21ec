"""Versions of rows: what changed since another snapshot."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from schemas.messages.operator import DEFAULT, OperatorFacts
from schemas.messages.sample import MachineFacts
from schemas.tables.window_table import WindowTable, decode_table, encode_table
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from tests.scorer.snapshot.tables import table

WRITES = count(2)
FACTS: dict[str, MachineFacts] = {}
OPERATOR: dict[str, OperatorFacts] = {}


def with_cell(before: WindowTable, name: str, row: int, value: float) -> WindowTable:
    """Return the table with another value of one machine in a column."""
    columns = {each: column.copy() for each, column in before.columns.items()}
    columns[name][..., row] = value
    columns["version"][row] = next(WRITES)
    return decode_table(encode_table(before.header, columns, before.names))


def fact(machine: str, **labels: str) -> MachineFacts:
    return MachineFacts(v=1, machine=machine, boot=0, at=0, capacity={"cpu": 4.0}, labels=labels)


def changed(snapshot: Snapshot, other: Snapshot) -> list[str] | None:
    rows = snapshot.changed_since(other)
    return None if rows is None else [snapshot.names[row] for row in rows]


def after(before: Snapshot, *tables: WindowTable, facts: object = FACTS, operator: object = OPERATOR) -> Snapshot:
    """Return the snapshot that is built after another one."""
    return build_snapshot(tables, facts, operator, previous=before)  # type: ignore[arg-type]


@pytest.mark.parametrize(("column", "value"), [("mean", 5.0), ("coverage", 0.5), ("at", 101.0), ("mean", np.nan)])
def test_a_row_changes_with_any_of_its_values(column: str, value: float) -> None:
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


def test_two_snapshots_made_from_one_share_no_new_version() -> None:
    """A row that both changed, each in its way, differs between them."""
    one = table(["a", "b"])
    first = build_snapshot([one], FACTS, OPERATOR)
    left, right = (after(first, with_cell(one, "mean", 0, value)) for value in (2.0, 3.0))
    assert changed(left, right) == changed(right, left) == ["a"]


def test_cordons_of_a_what_if_are_beside_the_versions() -> None:
    """They are patches of its rows: the snapshot that is compared is the one without them."""
    one = table(["a", "b"])
    first = build_snapshot([one], FACTS, OPERATOR)
    what_if = first.with_cordon(["b"])
    assert (what_if.origin, what_if.with_cordon(["a"]).origin) == (first, first)
    assert what_if.rules.cordon.tolist() == [False, True]
    assert changed(what_if, after(first, with_cell(one, "mean", 0, 2.0))) == ["a"]


def test_facts_and_rules_are_in_the_version() -> None:
    """Labels and capacity of an agent, and the operator's rules for one machine or for all."""
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


def test_another_shape_has_no_rows_in_common() -> None:
    """A new machine, one that is gone, another order and other windows."""
    first = build_snapshot([table(["a", "b"])], FACTS, OPERATOR)
    for tables in (
        [table(["a", "b", "c"])], [table(["a"])], [table(["b", "a"])], [table(["a", "b"], windows_s=(300, 900))]
    ):  # fmt: skip
        assert after(first, *tables).changed_since(first) is None
    assert after(first, table(["a"]), table(["b"])).shape == first.shape


def test_of_two_rows_the_one_that_counts_is_compared() -> None:
    """A machine in two tables, and one without data: the newer row is another one now, or the older one changed."""
    one, two = table(["a", "both"], at=100.0), table(["both"], at=200.0, mean=2.0)
    first = build_snapshot([one, two], {"f": fact("f")}, OPERATOR)
    again = build_snapshot([with_cell(one, "mean", 1, 7.0), two], first.sources.facts, OPERATOR, previous=first)
    assert changed(again, first) == []
    newer = build_snapshot([with_cell(one, "at", 1, 300.0), two], first.sources.facts, OPERATOR, previous=first)
    assert changed(newer, first) == ["both"]
