"""The snapshot: whose row counts, what is used again, which windows count."""

from __future__ import annotations

import numpy as np
import pytest

from schemas.messages.operator import DEFAULT, OperatorFacts
from schemas.messages.sample import MachineFacts
from schemas.resources import RESOURCES
from scorer.snapshot import joining
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from tests.scorer.snapshot.tables import table


def mean_of(snapshot: Snapshot, name: str) -> float:
    """Return the cpu mean of one machine."""
    return float(snapshot.windows().mean[0, snapshot.roster.index[name]])


def test_tables_of_several_partitions_are_joined() -> None:
    """Every machine of every table has one row; a column nobody wrote is unknown."""
    snapshot = build_snapshot([table(["a", "b"]), table(["c"], mean=3.0)], {}, {})
    assert snapshot.names == ("a", "b", "c")
    assert [mean_of(snapshot, name) for name in snapshot.names] == [1, 1, 3]
    assert np.isnan(snapshot.column("peak_today")).all()
    assert len(build_snapshot([], {}, {})) == 0


@pytest.mark.parametrize(("first", "second", "expected"), [(100, 200, 2.0), (200, 100, 1.0), (100, 100, 2.0)])
def test_of_two_rows_the_newer_counts(first: float, second: float, expected: float) -> None:
    """A machine in two tables is the one with the newer sample, also when only the numbers change."""
    tables = [table(["a", "b"], at=first), table(["b"], at=second, mean=2.0)]
    snapshot = build_snapshot(tables, {}, {})
    assert snapshot.names == ("a", "b")
    assert mean_of(snapshot, "b") == expected
    swapped = [table(["a", "b"], at=second), table(["b"], at=first, mean=2.0)]
    again = build_snapshot(swapped, {}, {}, previous=snapshot)
    assert mean_of(again, "b") == (2.0 if first >= second else 1.0)


def test_machines_without_data_are_there() -> None:
    """What only facts, the operator or the ledger know has a row, no data, and is infinitely old."""
    facts = {"f": MachineFacts(v=1, machine="f", boot=0, at=0, capacity={"cpu": 4.0}, labels={"x": "y"})}
    operator = {"o": OperatorFacts(cordon=True), DEFAULT: OperatorFacts(labels={"all": "yes"})}
    snapshot = build_snapshot([table(["a"])], facts, operator, ledger_machines=("l", "a"))
    assert snapshot.names == ("a", "f", "o", "l")
    assert snapshot.has_data.tolist() == [True, False, False, False]
    assert (snapshot.machines_with_data, snapshot.newest_at) == (1, snapshot.seen_at[0])
    assert snapshot.seen_at[1:].tolist() == [-np.inf] * 3
    assert snapshot.capacity[0, 1] == 4.0
    assert np.isnan(snapshot.windows().mean[:, 1:]).all()
    assert snapshot.rules.labels(1) == {"x": "y", "all": "yes"}
    assert snapshot.rules.cordon.tolist() == [False, False, True, False]


def test_names_and_rules_are_used_again_while_nothing_changed() -> None:
    """Only numbers changed: roster and rules are the very same objects; a new machine makes new ones."""
    facts: dict[str, MachineFacts] = {}
    operator: dict[str, OperatorFacts] = {}
    first = build_snapshot([table(["a", "b"])], facts, operator)
    second = build_snapshot([table(["a", "b"], mean=5.0)], facts, operator, previous=first)
    assert second.roster is first.roster
    assert second.rules is first.rules
    assert mean_of(second, "a") == 5.0
    third = build_snapshot([table(["a", "b", "c"])], facts, operator, previous=second)
    assert third.roster is not first.roster
    relabelled = build_snapshot([table(["a", "b"])], facts, {"a": OperatorFacts(labels={"x": "1"})}, previous=second)
    assert relabelled.roster is first.roster
    assert relabelled.rules.labels(0) == {"x": "1"}


def test_columns_are_read_only() -> None:
    """A plugin cannot change the snapshot by accident."""
    snapshot = build_snapshot([table(["a"]), table(["b"])], {}, {})
    with pytest.raises(ValueError, match="read-only"):
        snapshot.column("mean")[0, 0, 0] = 5.0


def test_a_window_that_nobody_reads_is_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the longest one is covered everywhere the others are not looked at."""
    read: list[int | None] = []
    get = joining.Columns.get

    def noted(columns: joining.Columns, name: str, window_s: int | None = None) -> np.ndarray:
        read.append(window_s)
        return get(columns, name, window_s)

    monkeypatch.setattr(joining.Columns, "get", noted)
    windows = build_snapshot([table(["a"]), table(["b"], mean=2.0)], {}, {}).windows()
    assert (windows.mean[0].tolist(), windows.window_s.tolist()) == ([1, 2], [3600, 3600])
    assert set(read) == {3600}


def test_machines_of_the_ledger_alone_have_columns() -> None:
    """Without a single window table (a server that came back empty) the ledger's machines are there, without data."""
    snapshot = build_snapshot((), {}, {}, ledger_machines=("a", "b", "c"))
    assert sorted(snapshot.names) == ["a", "b", "c"]
    for name in ("at", "capacity", "end", "interval_s"):
        assert snapshot.column(name).shape[-1] == 3
    assert (snapshot.machines_with_data, snapshot.newest_at) == (0, -np.inf)
    assert snapshot.windows().mean.shape == (len(RESOURCES), 3)
    assert np.isnan(snapshot.allocatable).all()
