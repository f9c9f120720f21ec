"""The inputs of an answer, and of a round of rebalancing between two answers."""

from __future__ import annotations

from typing import Any, cast

import pytest

from scorer.ledger.record.transition import UnknownFormat
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer


class Follows:
    """A copy of the ledger that is brought up to date when it is polled, or cannot be."""

    def __init__(self, known: bool) -> None:
        self.view = "old"
        self._known = known

    def poll(self) -> None:
        """Read what changed."""
        self.view = "new"

    def require(self) -> None:
        """Refuse a ledger of another format."""
        if not self._known:
            raise UnknownFormat("w:v1:{ledger}", "9")


def test_a_round_sees_what_changed_during_the_last_query() -> None:
    """The ledger, which another planner or a command has changed meanwhile, and the snapshot."""
    current = Scorer().service.current
    current.follower = cast("Any", Follows(known=True))
    current.latest.snapshot = fleet(machine("m9")).snapshot
    found = current.newest(7.0)
    assert (cast("str", found.ledger), found.snapshot.names, found.now_s) == ("new", ("m9",), 7.0)


def test_a_ledger_that_cannot_be_read_is_no_empty_one() -> None:
    """A round on it would withdraw all proposals."""
    current = Scorer().service.current
    current.follower = cast("Any", Follows(known=False))
    with pytest.raises(UnknownFormat):
        current.newest(7.0)
