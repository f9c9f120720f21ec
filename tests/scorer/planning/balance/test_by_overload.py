"""A plan of moves: what it must cut, and what it may never do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scorer.commands.shared.fleet_file import FleetState
from scorer.planning.balance import search
from scorer.planning.balance.by_overload import Plan, rebalance
from scorer.ranking.profiles import rebalance_section
from scorer.ranking.profiles.catalogue import load_profiles
from tests.scorer.fleets import fleet, machine


def hot_and_cold(**more: object) -> FleetState:
    """One machine near its limit with five instances, three that are half idle."""
    machines = [
        machine("hot", 10, 100, usage={"cpu": {"mean": 9.4, "std": 0.5}, "memory": 20}, **more),
        *(machine(f"cold{n}", 10, 100, usage={"cpu": {"mean": 2 + n, "std": 0.5}, "memory": 20}) for n in range(3)),
    ]
    instances = [{"id": f"i{n}", "machine": "hot", "cpu": 1 + n / 2, "memory": 2} for n in range(5)]
    return fleet(*machines, instances=instances)


def planned(of: FleetState, profile: str = "windward", **settings: Any) -> Plan:
    """The plan of a fleet by a profile with these settings of ``[rebalance]``."""
    chosen = load_profiles().choose(profile)
    return rebalance(of.inputs(replace(chosen, rebalance=replace(chosen.rebalance, **{"moves_max": 50} | settings))))


def moves(plan: Plan) -> list[tuple[str, str, str]]:
    return [
        (one.id, plan.machines[step.source], plan.machines[step.target])
        for one, step in zip(plan.instances, plan.steps, strict=True)
    ]


def test_a_hot_machine_is_relieved_onto_the_coldest() -> None:
    """The overload of the fleet falls step by step, and so does that of the source."""
    plan = planned(hot_and_cold())
    assert moves(plan)
    assert {source for _, source, _ in moves(plan)} == {"hot"}
    assert moves(plan)[0][2] == "cold0"
    before, after = plan.totals["overload"]
    assert after < before / 10
    assert plan.totals["machines_over"] == (1.0, 0.0)
    assert all(step.gain > 0 and step.target_after <= step.source_before for step in plan.steps)
    assert sum(step.gain for step in plan.steps) == pytest.approx(before - after)


def test_a_quiet_fleet_moves_nothing() -> None:
    quiet = fleet(*(machine(f"m{n}", usage={"cpu": 3, "memory": 20}) for n in range(3)))
    assert moves(planned(quiet)) == []


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_fewer_finalists_find_the_same_machine(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Five machines may take it and three are equally good, however many of them are compared in full."""
    machines = [
        machine("hot", 10, 100, usage={"cpu": {"mean": 9.6, "std": 0.5}, "memory": 20}),
        *(machine(f"m{n}", 10, 100, usage={"cpu": {"mean": use, "std": 0.5}, "memory": 20}) for n, use in COLD),
    ]
    of = fleet(*machines, instances=[{"id": "i", "machine": "hot", "cpu": 3, "memory": 2}])
    monkeypatch.setattr(search, "FINALISTS", most)
    assert moves(planned(of)) == [("i", "hot", "m1")]


COLD = ((0, 5.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 4.0))
"""Machines and the cores in use there."""


@pytest.mark.parametrize(
    ("change", "wish"),
    [
        pytest.param({"labels": {"movable": "false"}}, {}, id="said not to be movable"),
        pytest.param({"placed_ago_s": 60}, {}, id="came just now"),
        pytest.param({"state": "reserved"}, {}, id="not confirmed"),
        pytest.param({}, {"gain_min": 1.0}, id="not worth it"),
        pytest.param({}, {"same": ("rack",)}, id="no machine shares the label"),
        pytest.param({"priority_class": "batch"}, {"classes": ("prod", "mid")}, id="not of a class that may move"),
    ],
)
def test_what_stays(change: dict[str, object], wish: dict[str, object]) -> None:
    """An instance that may not move, or whose move is not worth it."""
    machines = [
        machine("hot", usage={"cpu": {"mean": 9.6, "std": 0.5}, "memory": 5}, labels={"rack": "a"}),
        machine("cold", usage={"cpu": {"mean": 1, "std": 0.5}, "memory": 5}, labels={"rack": "b"}),
    ]
    one = {"id": "i", "machine": "hot", "cpu": 3, "memory": 2}
    assert moves(planned(fleet(*machines, instances=[one]))) == [("i", "hot", "cold")]
    assert moves(planned(fleet(*machines, instances=[one | change]), **wish)) == []


@pytest.mark.parametrize(
    "cold",
    [
        pytest.param({"operator": {"cordon": True}}, id="cordoned"),
        pytest.param({"operator": {"taints": [{"key": "spare", "effect": "refuse"}]}}, id="tainted"),
        pytest.param({"age_s": 300.0}, id="stale"),
        pytest.param({"cpu": 2.0}, id="too small"),
    ],
)
def test_a_target_that_would_not_be_placed_on(cold: dict[str, object]) -> None:
    """The profile's filters hold for a move as for a placement, and a machine without fresh data takes nothing."""
    target = machine("cold", usage={"cpu": {"mean": 1, "std": 0.5}, "memory": 5}, **cold)  # type: ignore[arg-type]
    others = [machine(f"warm{n}", usage={"cpu": {"mean": 8.5, "std": 0.5}, "memory": 5}) for n in range(3)]
    one = {"id": "i", "machine": "hot", "cpu": 3, "memory": 2}
    of = fleet(machine("hot", usage={"cpu": {"mean": 9.6, "std": 0.5}, "memory": 5}), target, *others, instances=[one])
    assert moves(planned(of)) == []


def test_each_step_sees_those_before() -> None:
    """Promises are counted along the plan: what fits once does not fit twice."""
    machines = [
        machine("hot", 20, usage={"cpu": {"mean": 19.5, "std": 0.5}, "memory": 5}),
        machine("cold", 20, usage={"cpu": {"mean": 2, "std": 0.5}, "memory": 5}),
    ]
    instances = [
        *({"id": f"i{n}", "machine": "hot", "cpu": 3, "memory": 2} for n in range(3)),
        {"id": "rest", "machine": "cold", "cpu": 15, "memory": 2, "expected": {"cpu": 1}},
    ]
    assert len(moves(planned(fleet(*machines, instances=instances)))) == 1


def test_instances_of_one_cluster_do_not_meet_and_move_one_at_a_time() -> None:
    machines = [
        machine("hot", usage={"cpu": {"mean": 9.7, "std": 0.5}, "memory": 5}),
        machine("cold", usage={"cpu": {"mean": 1, "std": 0.5}, "memory": 5}),
        machine("other", usage={"cpu": {"mean": 5, "std": 0.5}, "memory": 5}),
    ]
    shard = {"cpu": 2, "memory": 2, "cluster": "shop"}
    instances = [
        {"id": "master", "machine": "hot", **shard},
        {"id": "second", "machine": "hot", **shard},
        {"id": "replica", "machine": "cold", **shard},
    ]
    found = moves(planned(fleet(*machines, instances=instances)))
    assert len(found) == 1
    assert found[0][2] == "other"


def test_bounds() -> None:
    """So many in all, from one machine, to one machine."""
    assert len(moves(planned(hot_and_cold(), moves_max=1))) == 1
    assert len(moves(planned(hot_and_cold(), from_machine_max=1))) == 1
    targets = [target for *_, target in moves(planned(hot_and_cold(), to_machine_max=1, gain_min=0.0))]
    assert len(set(targets)) == len(targets) > 1


def test_no_move_is_left_in_this_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit by the hour that is reached leaves no move."""
    assert moves(planned(hot_and_cold(), hour_max=1e-9))
    monkeypatch.setattr(rebalance_section, "HOUR_MIN", 0)
    assert moves(planned(hot_and_cold(), hour_max=1e-9)) == []


def test_no_argument_is_changed() -> None:
    """The plan is a value: the ledger and the snapshot are as before, and it comes out again."""
    of = hot_and_cold()
    before = {one.id: one.machine for one in of.ledger.instances.values()}
    first, position = moves(planned(of)), of.ledger.position
    assert moves(planned(of)) == first
    assert {one.id: one.machine for one in of.ledger.instances.values()} == before
    assert of.ledger.position == position
