"""What moved in the last hour is read off the ledger."""

from __future__ import annotations

from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.view import LedgerView
from scorer.planning.balance.gates import moved_lately
from scorer.planning.candidates import instances_on
from tests.scorer.fleets import fleet, machine

NOW_S = 100_000.0


def one(name: str, started_at: float) -> Instance:
    """An instance on the first machine."""
    return Instance(
        id=name, machine="a", state="confirmed", amounts=(1.0,), started_at=started_at, reserved_at=started_at
    )


def test_moves_of_an_hour() -> None:
    """One that moved counts at both machines; one that ended, one that stayed and one that moved earlier do not."""
    snapshot = fleet(machine("a"), machine("b"), machine("c")).snapshot
    view = LedgerView([one(name, 10.0) for name in ("moves", "early", "ends", "stays", "away")])
    view.apply(copy_with(one("early", 10.0), machine="b", started_at=NOW_S - 3_700))
    view.apply(copy_with(one("moves", 10.0), machine="b", started_at=NOW_S - 60))
    view.apply(copy_with(one("ends", 10.0), state="released", ended_at=NOW_S - 50))
    view.apply(copy_with(one("away", 10.0), machine="gone", started_at=NOW_S - 40))
    found = moved_lately(snapshot, view, instances_on(snapshot, view)[1], NOW_S)
    assert (found.given.tolist(), found.taken.tolist()) == ([1, 0, 0], [0, 1, 0])
    assert found.count == 1
