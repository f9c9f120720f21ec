"""The snapshot and the ledger's columns: whose row counts, what is used again, sums that never drift."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.operator import DEFAULT, InvalidOperatorFacts, OperatorFacts, effective, read_operator_facts
from schemas.sample import MachineFacts
from schemas.window_table import Header, WindowTable, decode_table, encode_table
from scorer.instance import Instance
from scorer.ledger_view import LedgerView, copy_with, facets_of
from scorer.snapshot import Roster, Snapshot, build_snapshot


def table(
    names: list[str], at: float = 100.0, mean: float = 1.0, windows_s: tuple[int, ...] = (300, 3600)
) -> WindowTable:
    """Return a table of machines that all use as much."""
    n, w = len(names), len(windows_s)
    columns = {
        "at": np.full(n, at),
        "end": np.full(n, at),
        "interval_s": np.full(n, 10.0, "f4"),
        "capacity": np.full((3, n), 10.0),
        "mean": np.full((w, 3, n), mean),
        "coverage": np.ones((w, 3, n), "f4"),
    }
    return decode_table(
        encode_table(Header(machines=n, windows_s=windows_s, columns=[]), columns, "\n".join(names).encode())
    )


def mean_of(snapshot: Snapshot, name: str) -> float:
    """Return the cpu mean of one machine."""
    return float(snapshot.view().mean[0, snapshot.roster.index[name]])


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
    assert snapshot.seen_at[1:].tolist() == [-np.inf] * 3
    assert snapshot.capacity[0, 1] == 4.0
    assert np.isnan(snapshot.view().mean[:, 1:]).all()
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


def test_tables_with_other_windows_are_aligned() -> None:
    """While workers with two settings run, each table's windows count under their own length."""
    snapshot = build_snapshot([table(["a"]), table(["b"], mean=2.0, windows_s=(300, 900))], {}, {})
    assert snapshot.windows_s == (300, 900, 3600)
    assert snapshot.view(300).mean[0].tolist() == [1, 2]
    assert np.isnan(snapshot.view(900).mean[0, 0])
    assert snapshot.view().window_s.tolist() == [3600, 900]


def test_an_operators_entry_lies_over_the_default() -> None:
    """Key by key, groups of thresholds as a whole, taints together, cordon if either."""
    default = read_operator_facts(
        {
            "labels": {"a": "1", "b": "1"},
            "thresholds": {"cpu": 0.5, "memory": 0.6},
            "reserve": {"memory": "8G"},
            "taints": [{"key": "t"}],
        }
    )
    own = read_operator_facts(
        {"labels": {"b": "2"}, "thresholds": {"cpu": 0.9}, "cordon": True, "taints": [{"key": "u"}]}
    )
    both = effective({DEFAULT: default, "m": own}, "m")
    assert both.labels == {"a": "1", "b": "2"}
    assert both.thresholds == {"cpu": 0.9}
    assert both.reserve == {"memory": 8e9}
    assert [taint.key for taint in both.taints] == ["t", "u"]
    assert both.cordon
    assert effective({DEFAULT: default}, "other") == default


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"share": {"cpu": 2}}, "share"),
        ({"reserve": {"disk": 1}}, "reserve"),
        ({"cordon": "yes"}, "cordon"),
        ({"taints": [{"key": ""}]}, "taints"),
        ({"reserve": {"cpu": "x"}}, "reserve"),
        ({"colour": 1}, "colour"),
    ],
)
def test_an_operators_entry_that_cannot_be_read_is_named(entry: dict[str, object], field: str) -> None:
    """Out of range, unknown resource, wrong type, unknown field."""
    with pytest.raises(InvalidOperatorFacts, match=field):
        read_operator_facts(entry)


# ---- the ledger's columns


def instance(number: int, machine: str, cpu: float = 1.0, state: str = "confirmed", app: str = "x") -> Instance:
    """Return a record."""
    return Instance(
        id=f"i{number}",
        machine=machine,
        state=state,
        amounts=(cpu, 10.0 * cpu, 0.0),
        maxmemory=cpu,
        ports=(number,),  # type: ignore[arg-type]
        labels={"app": app},
        cluster="c",
        role="master",
    )


changes = st.lists(
    st.tuples(
        st.integers(0, 7), st.sampled_from("abcz"), st.floats(0.1, 9),
        st.sampled_from(["reserved", "confirmed", "released"]),
        st.sampled_from("xy"),
    ),
    max_size=30,
)  # fmt: skip


@settings(deadline=None)
@given(changes, st.booleans())
def test_columns_are_the_sums_of_what_lives(history: list[tuple[int, str, float, str, str]], ask_between: bool) -> None:
    """After any history sums, counts and tallies are those of the live records, asked for in between or not."""
    roster = Roster(("a", "b", "c"))
    ledger = LedgerView()
    app_x = frozenset([("label", "app", "x"), ("cluster", "c")])
    live: dict[str, Instance] = {}
    for number, machine, cpu, state, app in history:
        record = instance(number, machine, cpu, state, app)
        ledger.apply(record)
        live.pop(record.id, None)
        if state != "released":
            live[record.id] = record
        if ask_between:
            ledger.seat(roster)
            ledger.tally(app_x)
    ledger.seat(roster)
    for row, name in enumerate(roster.names):
        here = [record for record in live.values() if record.machine == name]
        assert ledger.requested[0, row] == pytest.approx(sum(record.amounts[0] for record in here), abs=1e-12)
        assert ledger.maxmemory[row] == pytest.approx(sum(record.maxmemory for record in here), abs=1e-12)
        assert ledger.count[row] == len(here)
        assert ledger.tally(app_x)[row] == sum(app_x <= facets_of(record) for record in here)
        assert {record.id for record in ledger.on_machine(name)} == {record.id for record in here}
    assert set(ledger.machine_names) == {record.machine for record in live.values()}


def test_a_machine_that_appears_brings_its_instances() -> None:
    """Instances on a machine the roster does not know wait until it does."""
    ledger = LedgerView([instance(1, "late", 3.0)])
    ledger.seat(Roster(("a",)))
    assert ledger.requested[0].tolist() == [0]
    ledger.seat(Roster(("a", "late")))
    assert ledger.requested[0].tolist() == [0, 3]


def test_a_trial_leaves_no_trace() -> None:
    """What is tried is seen inside the block and gone after it, whatever happens in it."""
    roster = Roster(("a",))
    ledger = LedgerView([instance(1, "a", 0.1), instance(2, "a", 0.2)])
    ledger.seat(roster)
    before = ledger.requested.copy()
    with pytest.raises(RuntimeError), ledger.trial([instance(3, "a", 0.3)]) as add:
        add(instance(4, "a", 5.0))
        ledger.seat(roster)
        assert ledger.requested[0, 0] == pytest.approx(5.6)
        with pytest.raises(ValueError, match="already"):
            add(instance(1, "a"))
        raise RuntimeError
    ledger.seat(roster)
    assert ledger.requested.tolist() == before.tolist()
    assert set(ledger.instances) == {"i1", "i2"}


def test_sums_do_not_drift() -> None:
    """A huge instance that came and went leaves the sum of the small ones exact."""
    ledger = LedgerView([instance(1, "a", 0.1)])
    for _ in range(1000):
        ledger.apply(instance(2, "a", 1e15))
        ledger.apply(copy_with(instance(2, "a", 1e15), state="released"))
    ledger.seat(Roster(("a",)))
    assert ledger.requested[0, 0] == 0.1


def test_machines_of_the_ledger_alone_have_columns() -> None:
    """Without a single window table (a server that came back empty) the ledger's machines are there, without data."""
    snapshot = build_snapshot((), {}, {}, ledger_machines=("a", "b", "c"))
    assert sorted(snapshot.names) == ["a", "b", "c"]
    for name in ("at", "capacity", "end", "interval_s"):
        assert snapshot.column(name).shape[-1] == 3
    assert not snapshot.has_data.any()
    assert snapshot.view().mean.shape == (3, 3)
    assert np.isnan(snapshot.allocatable).all()
