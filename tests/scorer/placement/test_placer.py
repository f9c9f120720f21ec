"""Placing where the ledger refuses what the ranking allows, with and without ranking ahead."""

from __future__ import annotations

from typing import Any, cast

import pytest

from schemas.rpc.request import Request
from scorer.ledger.record.limits import Limit, total
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.placement.choosing.steps import run_to_end
from scorer.placement.offers import offer
from scorer.placement.offers.placement import Placement
from scorer.placement.placer import Placing
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.ranking import Ranking
from scorer.ranking.tables import Tables
from tests.scorer.fleets import fleet, machine, request
from tests.scorer.ledger.ledger_model import LedgerModel

PROFILE = load_profiles().choose()


class World:
    """A fleet of an idle machine and three busy, larger ones, and one placer on a ledger of its own."""

    def __init__(self) -> None:
        self.fleet = fleet(
            machine("idle", cpu=16, memory=1e12, usage={"cpu": 0, "memory": 0}),
            *(machine(f"m{n}", cpu=160, memory=1e12, usage={"cpu": 50, "memory": 5e11}) for n in range(3)),
        )
        self.now_s = self.fleet.now_s
        ledger = cast("Ledger", LedgerModel(lambda: self.now_s))
        self.follower = Follower(ledger)
        self.follower.loaded = True
        self.tables = Tables()
        self.placing = Placing(ledger, self.follower, 20, lambda: self.now_s)

    def place(self, count: int, **asked: Any) -> list[Placement]:
        """Place instances one by one, as the service does."""
        return [self._place(request(id=f"i{n}", expected={"cpu": 0.1, "memory": 1e8}, **asked)) for n in range(count)]

    def _inputs(self) -> RankingInputs:
        return RankingInputs(self.fleet.snapshot, self.follower.view, PROFILE, self.now_s, self.tables)

    def _place(self, wanted: Request) -> Placement:
        found = run_to_end(self.placing.steps([wanted], self._inputs))
        self.now_s += 0.001
        return found


def machines(placed: list[Placement]) -> list[str | None]:
    return [record.machine if record else None for found in placed for record in found.records]


@pytest.fixture
def world() -> World:
    return World()


def test_what_fits_by_the_filter_fits_by_the_ledger(world: World) -> None:
    """A sixth of the machine, six times: as counted the sixth is two millionths of a core too large, to both."""
    placed = world.place(8, cpu=16 / 6, memory=1e9)
    assert machines(placed)[:5] == ["idle"] * 5
    assert set(machines(placed)[5:]) == {"m0", "m1", "m2"}
    assert not any(found.conflicts for found in placed)


def test_a_machine_that_the_ledger_refuses_is_passed_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that no filter knows: the next best machine is taken, as long as they are asked for one at a time."""
    everything = offer.limits

    def limits(ranking: Ranking, rows: list[int], asked: Any) -> list[Any]:
        names = ranking.machines.roster.names
        known = everything(ranking, rows, asked)
        tight = (Limit(total("cpu"), 8.0, "cpu too full"),)
        return [tight if names[row] == "idle" else of for row, of in zip(rows, known, strict=True)]

    monkeypatch.setattr(offer, "limits", limits)
    assert machines(world.place(12, cpu=1, memory=1e9)) == ["idle"] * 8 + ["m0", "m1", "m2", "m0"]
