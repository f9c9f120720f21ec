"""What is kept between decisions: whose it is, that it changes no result, and that ranking changes nothing else."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.operator import OperatorFacts
from schemas.rpc.request import Request
from schemas.tables.learned import Learned
from schemas.tables.partition_windows import VERSION
from schemas.tables.window_table import decode_table, encode_table
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
from scorer.ranking.rank import Warmer, rank
from scorer.ranking.scope import Scope
from scorer.ranking.scores import load_variation_risk
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.builder import build_snapshot
from tests.effort import examples
from tests.rows import each_row
from tests.scorer.fleets import fleet, inputs_on, machine, request
from tests.scorer.placement.choosing.test_plan import asks, fleets
from tests.scorer.ranking.test_arguments import everything, held
from tests.scorer.snapshot.test_versions import fact

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


@settings(max_examples=examples(25, 25), deadline=None)
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


@settings(max_examples=examples(40, 40), deadline=None)
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


@settings(max_examples=examples(40, 400), deadline=None)
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
    Warmer(kept).warm(offline.snapshot, profile, offline.now_s)
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


@dataclass(frozen=True)
class Loaded:
    """A third party's score that keeps values of every kind, of the load, the placed instances and the request."""

    name: ClassVar[str] = "loaded"
    scope: ClassVar[Scope] = "fleet"

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""
        load = machines.derived("load", lambda m: np.nan_to_num(m.utilization).sum(axis=0) + 0.01 * m.count)
        fixed = machines.constant("fixed", lambda m: np.nan_to_num(m.std).sum(axis=0))
        mean = machines.of_fleet("mean", lambda m: float(np.nan_to_num(m.utilization).mean()))
        most = machines.of_snapshot("most", lambda m: float(np.nan_to_num(m.measured_mean).max(initial=0.0)))
        mine = machines.recent(request.cpu, lambda m: np.nan_to_num(m.mean[0]) * float(request.cpu or 0))
        return np.clip(50.0 + load - 0.1 * fixed + mean + 1e-12 * most - 0.01 * mine, 0.0, 100.0)


LOADED = Profile(
    "loaded", filters=PROFILES.choose().filters, scores=(WeightedScore(Loaded()), *PROFILES.choose().scores)
)


def after(offline: FleetState, changes: Mapping[str, Mapping[int, float]], **sources: Any) -> FleetState:
    """Return the fleet after a flush that changed cells, by column and row, and with other facts or rules."""
    before = offline.snapshot
    table = before.columns.tables[0].whole()
    columns = {name: column.copy() for name, column in table.columns.items()}
    columns.setdefault(VERSION, np.zeros(len(table.machines), "u4"))
    for name, cells in changes.items():
        for row, factor in cells.items():
            columns[name][..., row] *= factor
    columns[VERSION][list({row for cells in changes.values() for row in cells})] += 1
    again = decode_table(encode_table(table.header, columns, table.names))
    sources = {"facts": before.sources.facts, "operator": before.sources.operator} | sources
    snapshot = build_snapshot([again], **sources, previous=before)
    use = before.learned, before.usages, before.predicted
    return FleetState(snapshot.with_use(*use), offline.ledger, offline.now_s)


def flushed(offline: FleetState, data: st.DataObject) -> FleetState:
    """Return the fleet after a flush that changed the windows of few machines, or of all, and some time later."""
    rows = data.draw(
        st.sets(st.sampled_from(range(len(offline.snapshot))), max_size=data.draw(st.sampled_from([1, 2, 24])))
    )
    names = st.sampled_from(["mean", "std", "at", "end", "coverage", "max", "capacity"])
    factors = st.sampled_from([0.5, 1.25, 1.25, np.nan])
    changes = {name: {row: data.draw(factors) for row in rows} for name in data.draw(st.sets(names))}
    found = after(offline, changes)
    return replace(found, now_s=found.now_s + data.draw(st.sampled_from([0.0, 61.0])))


@settings(max_examples=examples(60, 600), deadline=None)
@given(described=fleets(machines_max=24), data=st.data())
def test_what_is_kept_survives_a_flush(described: dict[str, Any], data: st.DataObject) -> None:
    """Few windows change, or all, while instances come and leave and earlier rankings are read: as made anew.

    Also where what follows from the snapshot alone was made beside the decisions, from what the last one asked for.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load_variation_risk, "KEPT_FROM", data.draw(st.sampled_from([0, load_variation_risk.KEPT_FROM])))
        _survives(described, data)


def _survives(described: dict[str, Any], data: st.DataObject) -> None:
    offline, kept, held_back, numbers = after(read_fleet(described), {}), Kept(), [], iter(range(100))
    profile, warmer = data.draw(st.sampled_from([LOADED, *PROFILES.by_name.values()])), Warmer(kept)
    wanted = [request(**each) for each in data.draw(st.lists(asks, min_size=2, max_size=3))]
    for _ in range(data.draw(st.integers(2, 8))):
        step, ledger = data.draw(st.sampled_from(["flush", "flush", "place", "start", "end"])), offline.ledger
        live = sorted(ledger.instances)
        if step == "flush":
            offline = flushed(offline, data)
            if data.draw(st.booleans()):
                warmer.warm(offline.snapshot, profile, offline.now_s)
        elif step == "place":
            where = data.draw(st.sampled_from(offline.snapshot.names))
            asked = msgspec.structs.replace(data.draw(st.sampled_from(wanted)), expected={"cpu": 0.4})
            ledger.apply(instance_of(asked, where, offline.now_s, f"i{next(numbers)}"))
        elif live and step == "start":
            record = ledger.instances[data.draw(st.sampled_from(live))]
            ledger.apply(copy_with(record, state="confirmed", started_at=offline.now_s, version=record.version + 1))
        elif live:
            ledger.forget(data.draw(st.sampled_from(live)))
        for asked in data.draw(st.lists(st.sampled_from(wanted), max_size=2)):
            found, anew = rank(asked, offline.inputs(profile, kept)), rank(asked, offline.inputs(profile))
            assert found.feasible.tolist() == anew.feasible.tolist()
            np.testing.assert_allclose(found.total, anew.total, atol=1e-9)
            assert found.best(3).tolist() == anew.best(3).tolist()
            assert answer(found).refusals == answer(anew).refusals
            assert answer(found).warnings == answer(anew).warnings
            if data.draw(st.booleans()):
                held_back.append((found, found.total.copy(), found.machines.mean.copy()))
    for found, total, mean in held_back:
        np.testing.assert_array_equal(found.total, total)
        np.testing.assert_array_equal(found.machines.take(np.arange(len(mean[0]))).mean, mean)


@dataclass(frozen=True)
class Spy:
    """A third party's score that tells how many machines its kept column was computed for."""

    name: ClassVar[str] = "spy"
    computed: list[int] = field(default_factory=list)

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""

        def column(some: Machines) -> Floats:
            self.computed.append(len(some))
            return np.clip(np.nan_to_num(some.mean[0]) + some.count, 0.0, 100.0)

        found: Floats = machines.derived("column", column)
        return found


def ten() -> FleetState:
    """Return ten machines, the first with a running instance."""
    machines = [
        machine(f"m{row}", 16, "64G", usage={"cpu": 3.0 + row, "memory": "20G", "nic": 1e6}) for row in range(10)
    ]
    instances = [{"id": "old", "machine": "m0", "cpu": 4, "memory": "8G", "placed_ago_s": 100}]
    return after(fleet(*machines, instances=instances), {})


@dataclass(frozen=True)
class Still:
    """A third party's score that tells how many machines its columns, which no placement changes, were computed for."""

    name: ClassVar[str] = "still"
    computed: list[int] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""

        def column(some: Machines) -> Floats:
            self.computed.append(len(some))
            return np.clip(np.nan_to_num(some.measured_mean[0]), 0.0, 100.0)

        most = machines.of_snapshot("most", lambda m: self.whole.append(len(m)) or 1.0)
        found: Floats = machines.constant("column", column) * most
        return found


def test_a_snapshot_is_warmed_with_what_the_last_one_was_asked_for() -> None:
    """Also when no decision was made between; of a column only the machines that changed."""
    score, kept = Still(), Kept()
    profile = Profile("still", filters=(), scores=(WeightedScore(score),))
    offline, warmer = ten(), Warmer(kept)
    warmer.warm(offline.snapshot, profile, offline.now_s)
    for _ in range(2):
        offline = after(offline, {"mean": {2: 1.5}})
        warmer.warm(offline.snapshot, profile, offline.now_s)
    assert (score.computed, score.whole) == ([10, 1, 1], [10, 10, 10])
    found = rank(request(cpu=1), offline.inputs(profile, kept))
    assert (len(score.computed), len(score.whole)) == (3, 3), "the decision found both"
    assert found.total.tolist() == rank(request(cpu=1), offline.inputs(profile)).total.tolist()
    warmer.warm(after(offline, {}).snapshot, profile, offline.now_s)
    assert score.computed[3:] == [10], "nothing changed: the column stays; the one made anew was for the comparison"


def placed(offline: FleetState) -> FleetState:
    """Return the fleet after a placement."""
    offline.ledger.apply(instance_of(request(cpu=1), "m3", offline.now_s, "new"))
    return offline


def ended(offline: FleetState) -> FleetState:
    """Return the fleet after the end of its instance."""
    offline.ledger.forget("old")
    return offline


def with_use(offline: FleetState, *use: Any) -> FleetState:
    """Return the fleet with other use of instances."""
    return FleetState(offline.snapshot.with_use(*use), offline.ledger, offline.now_s)


ROWS, ALL, NOTHING_AGAIN = [1], [10], list[int]()
DIRTY: dict[str, tuple[Callable[[FleetState], FleetState], list[int]]] = {
    "nothing": (lambda offline: after(offline, {}), NOTHING_AGAIN),
    "an instance came": (placed, ROWS),
    "an instance left": (ended, ROWS),
    "the windows of one machine": (lambda offline: after(offline, {"mean": {2: 1.5}}), ROWS),
    "the end of its windows alone": (lambda offline: after(offline, {"end": {0: 1.0 + 1e-7}}), ROWS),
    "of one machine, and an instance came there": (lambda offline: placed(after(offline, {"mean": {3: 1.5}})), ROWS),
    "of one machine, and an instance elsewhere": (lambda offline: placed(after(offline, {"mean": {2: 1.5}})), [2]),
    "of two machines": (lambda offline: after(offline, {"mean": {2: 1.5, 3: 0.5}}), ALL),
    "a machine turned stale": (lambda offline: replace(offline, now_s=offline.now_s + 61), NOTHING_AGAIN),
    "a rule": (lambda offline: after(offline, {}, operator={"m1": OperatorFacts(thresholds={"disk": 0.5})}), ALL),
    "a fact": (lambda offline: after(offline, {}, facts={"m1": fact("m1", zone="a")}), ALL),
    "a new machine": (lambda offline: after(offline, {}, operator={"new": OperatorFacts(cordon=True)}), [11]),
    "learned use": (lambda offline: with_use(offline, Learned(version=1, factors={"cpu": 0.5})), ALL),
    "predicted use": (lambda offline: with_use(offline, None, None, b""), ALL),
    "the ledger was read anew": (lambda offline: replace(offline, ledger=LedgerView()), ALL),
}
"""What makes which machines be computed again: the table of `scorer.ranking.machines.kept`."""


@each_row("name", DIRTY)
def test_what_makes_rows_or_all_be_made_again(name: str) -> None:
    """As often as the table says, and what is kept is as made anew."""
    (change, computed), offline, kept, spy = DIRTY[name], ten(), Kept(), Spy()
    profile = replace(PROFILES.choose(), scores=(WeightedScore(spy), *PROFILES.choose().scores))
    asked = request(cpu=1, memory="1G")
    rank(asked, offline.inputs(profile, kept)).machines.column("estimated")
    offline = change(offline)
    spy.computed.clear()
    found = rank(asked, offline.inputs(profile, kept))
    assert spy.computed == computed
    anew = rank(asked, offline.inputs(profile))
    assert found.feasible.tolist() == anew.feasible.tolist()
    np.testing.assert_allclose(found.total, anew.total, atol=1e-9)
    for column in ("credit", "mean", "utilization", "estimated"):
        np.testing.assert_allclose(found.machines.column(column), anew.machines.column(column), atol=1e-9)


def test_what_is_kept_is_made_anew_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """So errors of added floats do not grow without an end."""
    monkeypatch.setattr(module, "MENDED_MAX", 2)
    offline, kept, spy = ten(), Kept(), Spy()
    profile = Profile("mine", scores=(WeightedScore(spy),))
    for _ in range(7):
        rank(request(cpu=1), offline.inputs(profile, kept))
        offline = after(offline, {"mean": {2: 1.1}})
    assert spy.computed == [10, 1, 1, 10, 1, 1, 10]


def test_the_sums_of_a_machine_are_made_again_with_its_windows() -> None:
    """Of what started while its row alone was made anew: the credit fades with the end of the machine's window."""
    offline, kept, profile = ten(), Kept(), PROFILES.choose()
    asked = request(cpu=1, memory="1G")
    rank(asked, offline.inputs(profile, kept))
    new = instance_of(asked, "m3", offline.now_s, "new")
    offline.ledger.apply(copy_with(new, state="confirmed", started_at=offline.now_s - 100))
    rank(asked, offline.inputs(profile, kept))
    offline = after(offline, {"end": {3: 1.0 + 600 / offline.now_s}})
    found, anew = rank(asked, offline.inputs(profile, kept)), rank(asked, offline.inputs(profile))
    assert found.machines.credit[0].tolist() == anew.machines.credit[0].tolist()
    assert 0.0 < found.machines.credit[0, 3] < 1.0
