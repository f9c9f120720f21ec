"""Queries to place: each is read once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from schemas.names import Names
from schemas.rpc.envelope import Query
from schemas.rpc.request import Request
from scorer.ledger.record.transition import Call, NotAcknowledged, UnknownFormat
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.metrics import Metrics
from scorer.placement.choosing.steps import Steps, run_to_end
from scorer.placement.offers.placement import Placement
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.rpc.methods import placements as placements_module
from scorer.rpc.methods.decisions import DecisionLog
from scorer.rpc.methods.place import read_batch
from scorer.rpc.methods.placements import Placements
from tests.scorer.fleets import fleet, machine
from tests.scorer.rpc.test_results import Scorer

NOW_S = 1_000.0


class Placing:
    """Puts every instance on machine m1; notes the ids it was given in one call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def place(self, requests: list[Request], *_: Any, **__: Any) -> Placement:
        self.calls.append([request.id for request in requests])
        return Placement(list(requests), [instance_of(one, "m1", NOW_S, one.id) for one in requests])

    def steps(self, requests: list[Request], *_: Any, **__: Any) -> Steps[Placement]:
        return self.place(requests)
        yield


def make(monkeypatch: pytest.MonkeyPatch) -> tuple[Placements, Placing, list[str]]:
    """Return placements on empty inputs, what places for them, and the ids of the queries that are read."""
    inputs = SimpleNamespace(
        ledger=LedgerView(),
        clock=lambda: NOW_S,
        profiles=load_profiles(()),
        ranking=lambda _: None,
        call=lambda query: Call(query.id, query.deadline),
    )
    decisions = DecisionLog(Names(), "s1", 100)
    placing, read = Placing(), []
    placements = Placements(cast(Any, inputs), Metrics(), cast(Any, placing), decisions)

    def counted(params: dict[str, Any], query_id: str) -> Any:
        read.append(query_id)
        return read_batch(params, query_id)

    monkeypatch.setattr(placements_module, "read_batch", counted)
    return placements, placing, read


def query(name: str, **params: Any) -> Query:
    return Query(id=name, method="place", params=msgspec.Raw(msgspec.json.encode(params)))


@pytest.mark.parametrize("params", [{"cpu": 1}, {"cpu": 1, "dry_run": True}], ids=str)
def test_a_query_is_read_once(params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parameters are decoded once, and each query gets the answer of its own."""
    placements, placing, read = make(monkeypatch)
    assert [run_to_end(placements.place(query(name, **params))).id for name in "ab"] == ["a", "b"]
    assert placing.calls == [["a"], ["b"]]
    assert read == ["a", "b"]


def test_what_is_not_acknowledged_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    placements, placing, _ = make(monkeypatch)

    def unacknowledged(requests: list[Request], *_: Any, **__: Any) -> Placement:
        raise NotAcknowledged("0 have")

    monkeypatch.setattr(placing, "place", unacknowledged)
    with pytest.raises(NotAcknowledged):
        run_to_end(placements.place(query("a", cpu=1)))


class Follows:
    """A copy of the ledger that is brought up to date when it is polled, or cannot be."""

    def __init__(self, known: bool) -> None:
        self.view = "old"
        self._known = known

    def poll(self) -> None:
        self.view = "new"

    def require(self) -> None:
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
