"""What is kept between decisions: whose it is, that it changes no result, and that ranking changes nothing else."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.rpc.request import Request
from scorer.commands.shared.fleet_file import FleetState, read_fleet
from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.ranking.explanation.explain import answer
from scorer.ranking.machines import kept as module
from scorer.ranking.machines.kept import Kept
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import PlacedFilter, Profile, WeightedScore
from scorer.ranking.rank import rank, warm
from scorer.snapshot.arrays import Bools, Floats
from tests.effort import effort
from tests.scorer.fleets import fleet, inputs_on, machine, request
from tests.scorer.placement.choosing.test_plan import asks, fleets
from tests.scorer.ranking.test_arguments import everything, held

PROFILES = load_profiles()


@dataclass(frozen=True)
class Counted:
    """A third party's score that keeps a column under a name of the scorer's own."""

    name: ClassVar[str] = "counted"

    factor: float = 1.0
    by_label: dict[str, float] = field(default_factory=dict)

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""
        found: Floats = machines.derived("count", lambda m: self.factor * (10.0 + m.count))
        constant = machines.constant("sums", lambda m: np.full(len(m), self.factor))
        assert machines.of_fleet("busiest", lambda m: self.factor) == self.factor
        assert machines.of_snapshot("all_true", lambda m: self.factor) == self.factor
        return np.clip(found + 0.0 * constant, 0.0, 100.0)


@dataclass(frozen=True)
class Other(Counted):
    """Another plugin with the same settings and the same names."""

    name: ClassVar[str] = "other"

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""
        found: Floats = machines.derived("count", lambda m: np.full(len(m), 77.0))
        return found


@dataclass(frozen=True)
class Refusing:
    """A third party's filter that keeps under the same name too."""

    name: ClassVar[str] = "refusing"
    reason: ClassVar[str] = "refused"

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        allowed: Bools = machines.derived("count", lambda m: np.ones(len(m), np.bool_))
        return allowed


def two_machines() -> FleetState:
    """Return a machine with three instances and one with none."""
    return fleet(machine("a"), machine("b"), instances=[{"id": str(n), "machine": "a"} for n in range(3)])


def test_a_plugin_gets_what_it_keeps_itself() -> None:
    """Names of the scorer's columns, of other plugins, and of the same plugin with other settings never meet."""
    plugins = (Counted(), Counted(2.0), Counted(2.0, {"cpu": 1.0}), Other(), Other(2.0))
    profile = Profile("mine", filters=(PlacedFilter(Refusing()),), scores=tuple(map(WeightedScore, plugins)))
    offline, kept = two_machines(), Kept()
    for extra in range(3):
        found = rank(request(), offline.inputs(profile, kept))
        there = [13.0 + extra, 10.0]
        twice = [2 * value for value in there]
        assert [term.raw.tolist() for term in found.terms] == [there, twice, twice, [77.0, 77.0], [77.0, 77.0]]
        assert found.feasible.tolist() == [True, True]
        assert found.machines.count.tolist() == [3.0 + extra, 0.0]
        del found
        offline.ledger.apply(instance_of(request(), "a", offline.now_s, f"more-{extra}"))


@settings(max_examples=25, deadline=None)
@given(described=fleets(), asked=asks, name=st.sampled_from(sorted(PROFILES.by_name)))
def test_ranking_a_random_fleet_changes_no_argument(
    described: dict[str, Any], asked: dict[str, Any], name: str
) -> None:
    """Ledger, overlay, snapshot, request and profile hold after a ranking and its answer what they held before it.

    The snapshot joins a column when it is first read: it is compared from its second ranking on.
    """
    offline, profile, wanted = read_fleet(described), PROFILES.choose(name), request(**asked)
    kept, overlay = Kept(), Overlay(offline.ledger, without=["old-0"])
    overlay.propose(instance_of(wanted, offline.snapshot.names[0], offline.now_s, "proposed"))
    ledgers = (offline.ledger, overlay)
    before = dict(held(ledgers, ""))
    for ledger in ledgers:
        answer(rank(wanted, inputs_on(offline, ledger, profile, kept)), explain_all=True)
    assert dict(held(ledgers, "")) == before
    snapshot, asked_before = dict(held(offline.snapshot, "")), copy.deepcopy(wanted)
    for ledger in ledgers:
        for keep in (kept, None):
            answer(rank(wanted, inputs_on(offline, ledger, profile, keep)), explain_all=True)
    assert dict(held(offline.snapshot, "")) == snapshot
    assert dict(held(ledgers, "")) == before
    assert (wanted, profile) == (asked_before, PROFILES.choose(name))


@settings(max_examples=40, deadline=None)
@given(described=fleets(), asked=asks, data=st.data())
def test_an_overlay_is_ranked_as_a_ledger_that_holds_the_same(
    described: dict[str, Any], asked: dict[str, Any], data: st.DataObject
) -> None:
    """Proposed and left out, kept or not: the ranking is that of a real ledger with the same instances."""
    offline, wanted = read_fleet(described), request(**asked)
    profile = PROFILES.choose(data.draw(st.sampled_from(sorted(PROFILES.by_name))))
    live = offline.ledger.instances
    without = data.draw(st.sets(st.sampled_from(sorted(live)))) if live else set()
    overlay, kept = Overlay(offline.ledger, without), Kept()
    same = LedgerView(record for record in live.values() if record.id not in without)
    for number in range(data.draw(st.integers(0, 4))):
        if data.draw(st.booleans()):
            rank(wanted, offline.inputs(profile, kept))
        where = data.draw(st.sampled_from(offline.snapshot.names))
        record = instance_of(wanted, where, offline.now_s, f"i{number}")
        overlay.propose(record)
        same.apply(record)
        for keep in (kept, None):
            found = rank(wanted, inputs_on(offline, overlay, profile, keep))
            real = rank(wanted, inputs_on(offline, same, profile))
            assert found.feasible.tolist() == real.feasible.tolist()
            assert found.total.tolist() == pytest.approx(real.total.tolist(), abs=1e-9)
            assert found.machines.count.tolist() == real.machines.count.tolist()


@dataclass(frozen=True)
class OfRequest:
    """A score that depends on the request, and tells how many machines it computed each time."""

    name: ClassVar[str] = "of_request"
    computed: list[int] = field(default_factory=list)

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""

        def column(some: Machines) -> Floats:
            self.computed.append(len(some))
            return some.count + request.cpu

        return machines.recent(request.cpu, column) + 0.0


def test_a_column_of_a_request_is_made_again_for_the_machines_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All machines for a new request; then those that changed, when it is asked for; the oldest go for lack of room."""
    monkeypatch.setattr(module, "RECENT_BYTES", 4 * 8 * 8)  # four columns of eight machines
    names = [f"m{number}" for number in range(8)]
    offline, kept, score = fleet(*map(machine, names)), Kept(), OfRequest()
    profile = Profile("mine", scores=(WeightedScore(score),))

    def computed(cpu: float) -> list[int]:
        score.computed.clear()
        found = rank(request(cpu=cpu), offline.inputs(profile, kept))
        assert found.terms[0].raw.tolist() == [count + cpu for count in found.machines.count.tolist()]
        return list(score.computed)

    assert [computed(1.0), computed(1.0), computed(2.0)] == [[8], [], [8]]
    offline.ledger.apply(instance_of(request(), "m3", offline.now_s, "first"))
    assert [computed(1.0), computed(1.0)] == [[1], []]
    offline.ledger.apply(instance_of(request(), "m4", offline.now_s, "second"))
    assert [computed(2.0), computed(1.0)] == [[2], [1]]
    assert [computed(float(cpu)) for cpu in range(3, 7)] == [[8]] * 4
    assert [computed(3.0), computed(1.0)] == [[], [8]]


@settings(max_examples=effort(40, 400), deadline=None)
@given(described=fleets(), data=st.data())
def test_rankings_of_several_requests_in_turn_are_those_made_anew(
    described: dict[str, Any], data: st.DataObject
) -> None:
    """Placed, ended, on the ledger or an overlay, while earlier rankings are still read: nothing kept shows."""
    offline, kept, held_back = read_fleet(described), Kept(), []
    profile, ledger = PROFILES.choose(data.draw(st.sampled_from(sorted(PROFILES.by_name)))), offline.ledger
    wanted = [request(**each) for each in data.draw(st.lists(asks, min_size=2, max_size=3))]
    overlay = Overlay(ledger)
    for number in range(data.draw(st.integers(2, 8))):
        asked, on = data.draw(st.sampled_from(wanted)), data.draw(st.sampled_from((ledger, ledger, overlay)))
        found = rank(asked, inputs_on(offline, on, profile, kept))
        anew = rank(asked, inputs_on(offline, on, profile))
        for ours, theirs in zip(found.terms, anew.terms, strict=True):
            np.testing.assert_allclose(ours.raw, theirs.raw, atol=1e-9)
        if data.draw(st.booleans()):
            held_back.append(found)
        where = data.draw(st.sampled_from(offline.snapshot.names))
        ended = data.draw(st.sampled_from(sorted(ledger.instances))) if ledger.instances else None
        new = instance_of(asked, where, offline.now_s, f"i{number}")
        if ended and data.draw(st.booleans()):
            ledger.forget(ended)
        elif on is overlay:
            overlay.propose(new)
            continue
        else:
            ledger.apply(new)
        overlay = Overlay(ledger)  # one is of a ledger that does not change


@pytest.mark.parametrize("name", sorted(PROFILES.by_name))
def test_what_was_kept_of_an_empty_ledger_counts_parts_of_a_core(name: str) -> None:
    """The first instance, of half a core, weighs what it weighs in a ranking made anew."""
    offline, kept, profile = fleet(*map(machine, "abcdefgh")), Kept(), PROFILES.choose(name)
    asked = request(cpu=0.5, memory=6.5, limits={"cpu": 0.7}, expected={"cpu": 0.3})
    sums = {"requested_or": (0.1, 0.1), "limited": (), "estimated": (), "allocated_of": ("prod",)}
    empty = rank(asked, offline.inputs(profile, kept))
    assert not any(empty.machines.column(column, *args).any() for column, args in sums.items())
    del empty
    offline.ledger.apply(instance_of(asked, "c", offline.now_s, "first"))
    found = rank(asked, offline.inputs(profile, kept))
    anew = rank(asked, offline.inputs(profile))
    assert found.total.tolist() == pytest.approx(anew.total.tolist(), abs=1e-9)
    for column, args in sums.items():
        assert found.machines.column(column, *args).tolist() == anew.machines.column(column, *args).tolist()


def test_an_overlay_leaves_nothing_behind() -> None:
    """A ranking on the ledger alone, after one on an overlay of it, is as before."""
    offline, kept, profile = two_machines(), Kept(), PROFILES.choose("kubernetes")
    before = rank(request(cpu=1), offline.inputs(profile, kept)).machines.count.tolist()
    overlay = Overlay(offline.ledger, without=["0"])
    overlay.propose(instance_of(request(cpu=1), "b", offline.now_s, "new"))
    seen = rank(request(cpu=1), inputs_on(offline, overlay, profile, kept))
    assert (before, seen.machines.count.tolist()) == ([3.0, 0.0], [2.0, 1.0])
    after = rank(request(cpu=1), offline.inputs(profile, kept))
    assert after.machines.count.tolist() == before


def test_what_is_warmed_is_found() -> None:
    """What follows from a snapshot alone is made beside the decisions, and is there at the first of them."""
    offline, kept, profile = two_machines(), Kept(), PROFILES.choose()
    warm(offline.snapshot, profile, offline.now_s, kept)
    load_model = rank(request(), offline.inputs(profile, kept.beside())).machines.fleet
    own = rank(request(), offline.inputs(profile, kept)).machines.fleet
    assert own.shelf.fixed is load_model.shelf.fixed
    assert own.shelf.derived is not load_model.shelf.derived


@pytest.mark.parametrize("name", sorted(PROFILES.by_name))
def test_what_came_to_a_machine_is_added_to_its_columns(name: str) -> None:
    """Reserved, started, beside others, beside a leaver: the columns are those made anew."""
    offline, kept, profile = everything(), Kept(), PROFILES.choose(name)
    asked = request(cpu=2, memory=5, expected={"cpu": 0.3}, limits={"cpu": 3})
    columns = {"allocated": (), "credit": (), "mean": (), "utilization": (), "estimated": (), "limited": ()}
    for number, machine_name in enumerate((*offline.snapshot.names, *offline.snapshot.names)):
        rank(asked, offline.inputs(profile, kept)).machines.column("estimated")
        new = instance_of(asked, machine_name, offline.now_s, f"new-{number}")
        started = copy_with(new, state="confirmed", started_at=offline.now_s - 400.0)
        offline.ledger.apply(started if number % 3 == 1 else new)
        found = rank(asked, offline.inputs(profile, kept)).machines
        anew = rank(asked, offline.inputs(profile)).machines
        for column, args in columns.items():
            np.testing.assert_allclose(found.column(column, *args), anew.column(column, *args), atol=1e-9)
        days = ("today", "yesterday")
        np.testing.assert_allclose(found.peaks(days), anew.peaks(days), atol=1e-9)
