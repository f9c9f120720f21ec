"""What is proposed over a ledger: seen by its readers alone."""

from __future__ import annotations

import pytest

from scorer.ledger.record.instance import Moving, copy_with
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.seats import Seats
from scorer.ledger.view.view import LedgerView
from scorer.snapshot.roster import Roster
from tests.scorer.ledger.view.test_seats import instance


def test_what_is_proposed_lies_over_the_ledger() -> None:
    """A reader of the overlay sees it; the ledger under it, and its seats, stay as they are."""
    roster = Roster(("a",))
    ledger = LedgerView([instance(1, "a", 0.1), instance(2, "a", 0.2)])
    seats = Seats(ledger, roster)
    overlay = Overlay(ledger)
    proposed = seats.over(overlay)
    overlay.propose(instance(3, "a", 0.3))
    overlay.propose(instance(4, "a", 5.0))
    proposed.catch_up()
    assert proposed.allocated[0, 0] == pytest.approx(5.6)
    assert seats.allocated[0, 0] == pytest.approx(0.3)
    with pytest.raises(ValueError, match="already"):
        overlay.propose(instance(1, "a"))
    with pytest.raises(ValueError, match="already"):
        overlay.propose(instance(3, "a"))
    assert set(ledger.instances) == {"i1", "i2"}


def test_what_is_left_out_is_gone_for_its_readers_alone() -> None:
    """Sums, tallies and holders are those without it; machines that the ledger never knew have what is proposed."""
    roster = Roster(("a", "new"))
    ledger = LedgerView([instance(1, "a", 0.1), instance(2, "a", 0.2)])
    overlay = Overlay(ledger, without=["i1", "i9"])
    overlay.propose(instance(1, "new", 4.0))
    cluster = frozenset([("cluster", "c")])
    assert Seats(overlay, roster).allocated[0].tolist() == [0.2, 4.0]
    assert Seats(ledger, roster).over(overlay).allocated[0].tolist() == [0.2, 4.0]
    assert Seats(overlay, roster).tally(cluster).tolist() == [1, 1]
    assert sorted(overlay.holders(cluster)) == ["a", "new"]
    assert ledger.holders(cluster) == ["a", "a"]
    assert Seats(overlay, roster).placed().amounts[0].tolist() == [0.2, 4.0]


def test_a_moving_instance_is_left_out_on_both_its_machines() -> None:
    """Where it may go is asked without it. On the machine that it moves to it is a reservation: no window saw it."""
    roster = Roster(("a", "b"))
    moving = copy_with(instance(1, "a", 2.0), started_at=5.0, moving=Moving("b", 7.0, 9.0, 3))
    ledger = LedgerView([moving, instance(2, "b", 0.5)])
    cluster = frozenset([("cluster", "c")])
    placed = Seats(ledger, roster).placed()
    assert sorted(zip(placed.rows, placed.started_at, placed.reserved_at, strict=True)) == [
        (0, 5.0, 0.0), (1, 0.0, 0.0), (1, 0.0, 7.0),
    ]  # fmt: skip
    assert sorted(ledger.holders(cluster)) == sorted(Overlay(ledger).holders(cluster)) == ["a", "b", "b"]
    overlay = Overlay(ledger, without=["i1"])
    for seats in (Seats(overlay, roster), Seats(ledger, roster).over(overlay)):
        assert seats.allocated[0].tolist() == [0.0, 0.5]
        assert seats.tally(cluster).tolist() == [0, 1]
    assert overlay.holders(cluster) == ["b"]
    ledger.forget("i1")
    assert ledger.machine_names == ("b",)


def test_changes_are_those_of_the_ledger_and_then_those_proposed() -> None:
    """Whoever read the ledger before the overlay was laid over it hears of both, in their order."""
    ledger = LedgerView([instance(1, "a")])
    before = ledger.position
    ledger.apply(instance(2, "b"))
    overlay = Overlay(ledger)
    overlay.propose(instance(3, "c"))
    found = overlay.changes_since(before)
    assert found is not None
    assert [machine for machine, *_ in found] == ["b", "c"]
    assert [machine for machine, *_ in overlay.changes_since(ledger.position) or ()] == ["c"]
    assert overlay.position == ledger.position + 1


def test_what_is_withdrawn_was_never_there() -> None:
    """Sums, tallies, holders and slots are those before; its id is free again, and it can go elsewhere."""
    roster = Roster(("a", "b"))
    ledger = LedgerView([instance(1, "a", 0.1)])
    overlay = Overlay(ledger)
    seats = Seats(ledger, roster).over(overlay)
    cluster = frozenset([("cluster", "c")])
    assert seats.tally(cluster).tolist() == [1, 0]
    overlay.propose(instance(2, "a", 2.0))
    overlay.propose(instance(3, "b", 3.0))
    seats.catch_up()
    overlay.withdraw("i2")
    overlay.leave("i3")
    seats.catch_up()
    for each in (seats, Seats(overlay, roster)):
        assert each.allocated[0].tolist() == [0.1, 0.0]
        assert each.count.tolist() == [1.0, 0.0]
        assert each.tally(cluster).tolist() == [1, 0]
        assert each.placed().amounts[0].tolist() == [0.1]
    assert overlay.holders(cluster) == ["a"]
    overlay.leave("i1")
    overlay.propose(instance(1, "b", 0.1))
    overlay.propose(instance(2, "b", 2.0))
    assert Seats(overlay, roster).allocated[0].tolist() == [0.0, 2.1]
    with pytest.raises(KeyError):
        overlay.withdraw("i3")
