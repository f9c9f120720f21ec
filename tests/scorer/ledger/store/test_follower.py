"""The follower's copy of the ledger, kept by the changes that its own process makes."""

from __future__ import annotations

import gc
import weakref
from typing import Any, cast

from schemas.resources import RESOURCES
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.transition import Candidate, Transition, Wanted
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import LedgerView
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


class _Lost:
    """A ledger that is read as a whole each time."""

    leavers_most = 1
    wire = cast("Any", type("Wire", (), {"ask": staticmethod(lambda _commands: [])}))

    def is_open(self) -> bool:
        """There is one."""
        return True

    def log_reads(self, *_: int) -> list[Any]:
        """Nothing is asked."""
        return []

    def read_log(self, _answers: object) -> tuple[str, int, list[Instance]]:
        """Nothing changed."""
        return "epoch", 0, []

    def pages(self) -> list[list[Instance]]:
        """One instance."""
        return [[Instance(id="i", machine="m", state="confirmed", amounts=ONE)]]

    def machine_versions(self) -> dict[str, int]:
        """None."""
        return {}

    def leavers(self) -> list[Instance]:
        """None."""
        return []


def test_what_a_reload_replaces_is_let_go() -> None:
    """Also what is in a cycle, as rows with their view are: of 20 lost connections one or two views are left."""
    follower = Follower(cast("Ledger", _Lost()))
    views: list[weakref.ref[LedgerView]] = []
    try:
        for _ in range(20):
            follower.forget()
            follower.accept([])
            view: Any = follower.view
            view.instances["cycle"] = view
            views.append(weakref.ref(view))
            del view
    finally:
        gc.unfreeze()
    assert sum(view() is not None for view in views) <= 2
