"""The follower's copy of the ledger, kept by the changes that its own process makes."""

from __future__ import annotations

from typing import cast

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.transition import Candidate, Transition, Wanted
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from tests.scorer.ledger.ledger_model import LedgerModel

ONE = (1.0, *[0.0] * (len(RESOURCES) - 1))


def test_a_machine_has_a_version_as_long_as_it_holds_something() -> None:
    """Reserved, confirmed, moved and released: after each change the versions are the ledger's, 0 where nothing is."""
    model = LedgerModel(lambda: 1000.0)
    follower = Follower(cast("Ledger", model))

    def absorb(transition: Transition) -> list[int]:
        follower.absorb(transition)
        versions = [follower.version(machine) for machine in "abc"]
        assert versions == [model.version(machine) for machine in "abc"]
        return [int(version > 0) for version in versions]

    def reserve(name: str, machine: str) -> Transition:
        return model.reserve(
            [Wanted(Instance(id=name, machine="", state="reserved", amounts=ONE), 60.0, [Candidate(machine, -1)])]
        )

    assert absorb(reserve("i", "a")) == [1, 0, 0]
    assert absorb(reserve("j", "a")) == [1, 0, 0]
    assert absorb(model.confirm("i")) == [1, 0, 0]
    old = follower.view.instances["i"]
    assert absorb(model.begin_move(old, [Candidate("b", -1)], 60.0)) == [1, 1, 0]
    assert absorb(model.confirm("i", machine="b")) == [1, 1, 0]
    assert absorb(model.release("j")) == [0, 1, 0]
    assert absorb(reserve("k", "c")) == [0, 1, 1]
    assert absorb(model.release("i")) == [0, 0, 1]
    assert absorb(model.release("k")) == [0, 0, 0]
    assert absorb(reserve("l", "a")) == [1, 0, 0]
