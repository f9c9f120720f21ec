"""The ledger seated on a roster: sums, counts and tallies that never drift."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from scorer.ledger.record.facets import facets_of
from scorer.ledger.record.instance import Instance, Moving, copy_with, machines_of
from scorer.ledger.view import seats as seats_module
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.seats import Seats
from scorer.ledger.view.view import LedgerView
from scorer.snapshot.roster import Roster


def instance(number: int, machine: str, cpu: float = 1.0, state: str = "confirmed", app: str = "x") -> Instance:
    """Return a record."""
    return Instance(
        id=f"i{number}",
        machine=machine,
        state=state,
        amounts=(cpu, 10.0 * cpu, *[0.0] * (len(RESOURCES) - 2)),
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
        st.sampled_from(["", "", *"abcz"]),
    ),
    max_size=30,
)  # fmt: skip


@settings(deadline=None)
@given(changes, st.booleans())
def test_columns_are_the_sums_of_what_lives(
    history: list[tuple[int, str, float, str, str, str]], ask_between: bool
) -> None:
    """After any history sums, counts and tallies are those of the live records, asked for in between or not.

    A moving one is on both its machines.
    """
    roster = Roster(("a", "b", "c"))
    ledger = LedgerView()
    seats = Seats(ledger, roster)
    app_x = frozenset([("label", "app", "x"), ("cluster", "c")])
    live: dict[str, Instance] = {}
    for number, machine, cpu, state, app, to in history:
        record = instance(number, machine, cpu, state, app)
        if state == "confirmed" and to not in ("", machine):
            record = copy_with(record, moving=Moving(to, 1.0, 2.0, 3))
        ledger.apply(record)
        live.pop(record.id, None)
        if state != "released":
            live[record.id] = record
        if ask_between:
            seats.catch_up()
            seats.tally(app_x)
    seats.catch_up()
    for row, name in enumerate(roster.names):
        here = [record for record in live.values() if name in machines_of(record)]
        assert seats.allocated[0, row] == pytest.approx(sum(record.amounts[0] for record in here), abs=1e-12)
        assert seats.maxmemory[row] == pytest.approx(sum(record.maxmemory for record in here), abs=1e-12)
        assert seats.count[row] == len(here)
        assert seats.tally(app_x)[row] == sum(app_x <= facets_of(record) for record in here)
        assert {record.id for record in ledger.held_on(name)} == {record.id for record in here}
        assert {one.id for one in ledger.on_machine(name)} == {one.id for one in here if one.machine == name}
    assert set(ledger.machine_names) == {machine for record in live.values() for machine in machines_of(record)}


def test_a_machine_that_appears_brings_its_instances() -> None:
    """Instances on a machine the roster does not know wait until it does."""
    ledger = LedgerView([instance(1, "late", 3.0)])
    assert Seats(ledger, Roster(("a",))).allocated[0].tolist() == [0]
    assert Seats(ledger, Roster(("a", "late"))).allocated[0].tolist() == [0, 3]


def test_sums_do_not_drift() -> None:
    """A huge instance that came and went leaves the sum of the small ones exact."""
    ledger = LedgerView([instance(1, "a", 0.1)])
    for _ in range(1000):
        ledger.apply(instance(2, "a", 1e15))
        ledger.apply(copy_with(instance(2, "a", 1e15), state="released"))
    assert Seats(ledger, Roster(("a",))).allocated[0, 0] == 0.1


def test_instances_of_some_rows_are_those_of_their_machines() -> None:
    """In any order of the rows, and where a machine has instances of the ledger and proposed ones, or none."""
    ledger = LedgerView([instance(1, "a", 1.0), instance(2, "b", 2.0), instance(3, "a", 4.0)])
    overlay = Overlay(ledger)
    for number, machine, cpu in ((4, "c", 8.0), (5, "a", 16.0), (6, "b", 32.0)):
        overlay.propose(instance(number, machine, cpu))
    seats = Seats(ledger, Roster(("a", "b", "c", "d"))).over(overlay)
    whole = seats.sums("cpu", lambda placed: placed.amounts[:1], {})
    assert whole.tolist() == [[21.0, 34.0, 8.0, 0.0]]
    for rows in (np.array([2, 3, 0, 1]), np.array([1, 0]), np.array([3])):
        placed = seats.placed(rows)
        assert rows[placed.at].tolist() == placed.rows.tolist()
        assert seats.sums("cpu", lambda some: some.amounts[:1], {}, rows).tolist() == whole[:, rows].tolist()


@settings(deadline=None)
@given(changes, st.integers(0, 30))
def test_rows_that_changed_are_the_same_listed_or_by_one_pass(
    history: list[tuple[int, str, float, str, str, str]], at: int
) -> None:
    """The rows that changed since any position are those of the changes, however many there were; a copy knows them."""
    roster, ledger = Roster(("a", "b", "c")), LedgerView()
    seats = Seats(ledger, roster)
    position = seats.position
    for number, (identity, machine, cpu, state, app, _) in enumerate(history):
        if number == at % len(history):
            position = seats.position
        ledger.apply(instance(identity, machine, cpu, state, app))
        seats.catch_up()
    noted = ledger.changes_since(position)
    assert noted is not None
    expected = {roster.index[machine] for machine, _, _ in noted if machine in roster.index}
    for few in (0, 1_000):
        with mock.patch.object(seats_module, "FEW", few):
            for each in (seats, seats.over(ledger.copy())):
                assert set(each.changed_since(position).tolist()) == expected
