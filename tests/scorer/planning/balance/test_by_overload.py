"""A plan of moves: what it must cut, and what it may never do."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ledger.record.instance import copy_with
from scorer.planning.balance import tentative
from scorer.planning.balance.advice import advice
from scorer.planning.balance.rounds import UnderWay
from scorer.planning.balance.scene import Loads
from scorer.planning.balance.tentative import LASTS_S, Draft, Hosts, Movable, plan
from scorer.ranking.profiles import rebalance_section
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.rebalance_section import Rebalancing
from tests.effort import examples
from tests.scorer.fleets import exchanges, fleet, machine, steps


def hot_and_cold(**more):
    machines = [
        machine("hot", 10, 100, usage={"cpu": {"mean": 9.4, "std": 0.5}, "memory": 20}, **more),
        *(machine(f"cold{n}", 10, 100, usage={"cpu": {"mean": 2 + n, "std": 0.5}, "memory": 20}) for n in range(3)),
    ]
    instances = [{"id": f"i{n}", "machine": "hot", "cpu": 1 + n / 2, "memory": 2} for n in range(5)]
    return fleet(*machines, instances=instances)


def planned(of, profile="windward", **settings):
    chosen = load_profiles().choose(profile)
    return advice(of.inputs(replace(chosen, rebalance=replace(chosen.rebalance, **{"moves_max": 50} | settings))))


def moves(plan):
    return [(one.id, one.source, one.target) for one in steps(plan)]


NEAR, FAR = (
    {kind: [{"instances": {"app": "x"}, "topology": "rack"}], "labels": {"app": "x"}}
    for kind in ("affinity", "anti_affinity")
)


@pytest.mark.parametrize(
    ("racks", "instances", "targets"),
    [
        ("112", [{}, NEAR | {"cpu": 2}, NEAR | {"on": 2}], {1: 2}),
        ("112", [{}, FAR | {"cpu": 2}, FAR | {"on": 2}], {1: 1}),
        ("122", [{}, NEAR | {"cpu": 2}, NEAR | {"cpu": 2}], {}),
        ("112", [{}, NEAR | {"cpu": 2}, {"labels": {"app": "x"}, "cpu": 2}], {1: 1}),
        ("112", [{}, NEAR | {"cpu": 2}], {1: 1}),
    ],
    ids=["near others alone", "its own rack is free of it", "both or none", "who is needed stays", "the first of all"],
)
def test_who_moves_counts_no_more_at_its_source(racks, instances, targets):
    """Neither as its own neighbour nor as one to avoid; and none leaves that an earlier move of the plan needs."""
    there = [
        {"id": f"i{n}", "machine": f"m{one.get('on', 0)}", "cpu": 0.5, "memory": 1, **one}
        for n, one in enumerate(instances)
    ]
    machines = [
        machine(
            f"m{n}",
            10,
            100,
            usage={"cpu": {"mean": 1 + n, "std": 0.2} if n else {"mean": 9.5, "std": 0.5}, "memory": 5},
            labels={"rack": rack},
        )
        for n, rack in enumerate(racks)
    ]
    of = fleet(*machines, instances=[{k: v for k, v in one.items() if k != "on"} for one in there])
    for rule in ("overload", "thresholds"):
        how = {"high": {"cpu": 60}, "low": {"cpu": 50}} if rule == "thresholds" else {"gain_min": 0.0}
        chosen = load_profiles().choose("windward")
        inputs = of.inputs(replace(chosen, rebalance=replace(chosen.rebalance, rule=rule, rest_s=0, hour_max=0, **how)))
        found = {int(one[1:]): int(target[1:]) for one, _, target in moves(advice(inputs)) if one != "i0"}
        assert found == targets, rule


def test_a_hot_machine_is_relieved_onto_the_coldest():
    """The overload of the fleet falls step by step, and so does that of the source."""
    plan = planned(hot_and_cold())
    assert moves(plan)
    assert {source for _, source, _ in moves(plan)} == {"hot"}
    assert moves(plan)[0][2] == "cold0"
    before, after = plan.totals["overload"]
    assert after < before / 10
    assert plan.totals["machines_over"] == [1.0, 0.0]
    assert all(one.gain > 0 and one.overload["target"][1] <= one.overload["source"][0] for one in steps(plan))
    assert sum(step.gain for step in steps(plan)) == pytest.approx(before - after)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_fewer_finalists_find_the_same_machine(monkeypatch, most):
    """Five machines may take it and three are equally good, however many of them are compared in full."""
    machines = [
        machine("hot", 10, 100, usage={"cpu": {"mean": 9.6, "std": 0.5}, "memory": 20}),
        *(machine(f"m{n}", 10, 100, usage={"cpu": {"mean": use, "std": 0.5}, "memory": 20}) for n, use in COLD),
    ]
    of = fleet(*machines, instances=[{"id": "i", "machine": "hot", "cpu": 3, "memory": 2}])
    monkeypatch.setattr(tentative, "FINALISTS", most)
    assert moves(planned(of)) == [("i", "hot", "m1")]


COLD = ((0, 5.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 4.0))
"""Machines and the cores in use there."""


@pytest.mark.parametrize(
    ("change", "wish", "why"),
    [
        pytest.param({"labels": {"movable": "false"}}, {}, "(rest_s), 1 are", id="said not to be movable"),
        pytest.param({"placed_ago_s": 60}, {}, "1 came less than 1800 s ago (rest_s)", id="came just now"),
        pytest.param({"state": "reserved"}, {}, "no instance may move", id="not confirmed"),
        pytest.param({}, {"gain_min": 1.0}, "of hot (gain_min)", id="not worth it"),
        pytest.param({}, {"gain_min": 0.0727}, "no move gains 0.0727 more", id="not worth its copy"),
        pytest.param({}, {"same": ("rack",)}, "(filters, low, same", id="no machine shares the label"),
        pytest.param({}, {"high": {"cpu": 99.0}}, "no machine is above cpu 99 % (high)", id="nothing is that high"),
        pytest.param({}, {"low": {"cpu": 5.0}}, "no machine is below cpu 5 % (low)", id="nothing is that low"),
        pytest.param({}, {"high": {"cpu": 45.0}, "deviation": True}, "no machine is above cpu 98 % (high)",
                     id="the mean of 53 % is in what was compared"),
        pytest.param({}, {"low": {"cpu": 50.0}, "deviation": True}, "no machine is below cpu 3 % (low)",
                     id="and is for the low ones"),
        pytest.param({}, {"rule": "thresholds", "high": {"instances": 5.0}, "low": {"instances": 5.0}},
                     "no machine is above instances 5 % (high)", id="too few instances to be above"),
        pytest.param(
            {"priority_class": "batch"}, {"classes": ("prod", "mid")}, "a class that stays", id="not of such a class"
        ),
    ],
)  # fmt: skip
def test_what_stays(change, wish, why):
    machines = [
        machine("hot", usage={"cpu": {"mean": 9.6, "std": 0.5}, "memory": 5}, labels={"rack": "a"}),
        machine("cold", usage={"cpu": {"mean": 1, "std": 0.5}, "memory": 5}, labels={"rack": "b"}),
    ]
    one = {"id": "i", "machine": "hot", "cpu": 3, "memory": 2}
    assert moves(planned(fleet(*machines, instances=[one]))) == [("i", "hot", "cold")]
    plan = planned(fleet(*machines, instances=[one | change]), **wish)
    assert moves(plan) == []
    assert why in plan.why


@pytest.mark.parametrize(
    "cold",
    [
        pytest.param({"operator": {"cordon": True}}, id="cordoned"),
        pytest.param({"operator": {"taints": [{"key": "spare", "effect": "refuse"}]}}, id="tainted"),
        pytest.param({"age_s": 300.0}, id="stale"),
        pytest.param({"cpu": 2.0}, id="too small"),
    ],
)
def test_a_target_that_would_not_be_placed_on(cold):
    """The profile's filters hold for a move as for a placement, and a machine without fresh data takes nothing."""
    target = machine("cold", usage={"cpu": {"mean": 1, "std": 0.5}, "memory": 5}, **cold)
    others = [machine(f"warm{n}", usage={"cpu": {"mean": 8.5, "std": 0.5}, "memory": 5}) for n in range(3)]
    one = {"id": "i", "machine": "hot", "cpu": 3, "memory": 2}
    of = fleet(machine("hot", usage={"cpu": {"mean": 9.6, "std": 0.5}, "memory": 5}), target, *others, instances=[one])
    assert moves(planned(of)) == []


def test_no_move_is_left_in_this_hour(monkeypatch):
    assert moves(planned(hot_and_cold(), hour_max=1e-9))
    monkeypatch.setattr(rebalance_section, "HOUR_MIN", 0)
    spent = planned(hot_and_cold(), hour_max=1e-9)
    assert moves(spent) == []
    assert spent.why.startswith("no move is left: 0 of 0 in the last hour (hour_max)")


NIC = 1e9
GIB = 2.0**30


def hot(**instance):
    """A hot machine with one instance, and a cold one; memory in bytes, NICs of 1 GB/s."""
    machines = [
        machine(
            name, 10, 1e13, capacity={"nic": NIC}, usage={"cpu": {"mean": mean, "std": 0.5}, "memory": 1e9, "nic": 0}
        )
        for name, mean in (("hot", 9.0), ("cold", 0.5))
    ]
    return fleet(*machines, instances=[{"id": "i", "machine": "hot", "cpu": 3, "memory": GIB, **instance}])


@pytest.mark.parametrize(
    ("instance", "bounds", "moved"),
    [
        pytest.param({}, {}, True, id="a GiB is copied in two seconds"),
        pytest.param({"memory": 200 * GIB}, {}, True, id="seven minutes leave a third of the gain"),
        pytest.param({"memory": 400 * GIB}, {}, False, id="fourteen of the thirty minutes for which the gain counts"),
        pytest.param({"memory": 400 * GIB}, {"gain_min": 0.0}, False, id="and a plan that takes any gain"),
        pytest.param({"memory": 400 * GIB}, {"nic_share": 0.8}, True, id="which is shorter with more of the NIC"),
        pytest.param({"memory": 400 * GIB}, {"nic_share": 1.0}, False, id="with all of it the NICs are full"),
        pytest.param({"memory": 4000 * GIB}, {"gain_min": 0.0}, False, id="longer than the gain counts"),
    ],
)
def test_a_move_gains_more_than_it_costs(instance, bounds, moved):
    """The larger the memory and the slower the NIC, the longer both machines carry the instance and the copying."""
    assert moves(planned(hot(**instance), **bounds)) == ([("i", "hot", "cold")] if moved else [])


def test_gain_and_cost_are_told_apart():
    (small,), (large,) = steps(planned(hot())), steps(planned(hot(memory=200 * GIB)))
    assert small.gain == pytest.approx(large.gain)
    assert 0 < small.cost < large.cost / 100
    assert large.gain - large.cost >= Rebalancing().gain_min


def test_memory_that_nobody_knows_is_assumed():
    """An instance without memory is copied as one with 4 GiB for each core that it asks for."""
    (step,) = steps(planned(hot(memory=0)))
    assert step.copy_bytes == 3 * 4 * GIB


def one_instance(loads, usage, memory, rate):
    """One instance on the first machine; copies take a core and their bytes of the second resource."""
    machines = loads.utilization.shape[1]
    movable = Movable(
        np.array([0]), np.array([[usage], [0.0]]), np.array([[0.04], [0.0]]), np.array([True]), np.array([-1]),
        np.array([memory]),
    )  # fmt: skip
    every, none = np.ones(machines, np.bool_), np.zeros(machines, np.int64)
    rates, cores, copied = np.full(machines, rate), np.array([1.0, 0.0]), np.array([0.0, 1.0])
    return movable, Hosts(every, every, np.full(2, np.inf), rates, none, none, cores, copied)


@settings(max_examples=examples(60, 60), deadline=None)
@given(st.floats(0.8, 1.0), st.floats(0.0, 0.8), st.floats(0.5, 4.0), st.floats(0.0, 3.0), st.floats(0.01, 1.0))
def test_the_mean_over_the_time_for_which_it_counts(source, target, usage, memory_min, rate):
    """Gain less cost: the mean of what the move changes, the copy in it, step by step."""
    shares = np.array([[source, target], [0.1, 0.2]])
    capacity = np.array([[10.0, 20.0], [2.0, 2.0]])
    loads = Loads.of(shares, np.full((2, 2), 0.005), capacity, np.array([0.5, 0.5]), 0.9)
    movable, hosts = one_instance(loads, usage, memory_min * 60 * rate, rate)
    draft = Draft(loads.copy(), movable, Rebalancing(gain_min=0.0), hosts)
    plan(draft, lambda _: np.ones(2, np.bool_), draft.settings.moves_max)
    steps = draft.steps
    copying = np.array([1.0, rate])
    used, variance = movable.usage[:, 0], movable.variance[:, 0]
    stays, seconds = loads.now().sum(), memory_min * 60
    while_copying = loads.one_with(0, copying, np.zeros(2)) + loads.one_with(1, used + copying, variance)
    moved = loads.copy()
    moved.move(0, 1, used, variance)
    mean = (seconds * while_copying + (LASTS_S - seconds) * moved.now().sum()) / LASTS_S
    if steps:
        assert steps[0].gain - steps[0].cost == pytest.approx(stays - mean, abs=1e-12)
    else:
        fits = (moved.utilization[:, 1] <= 0.9).all() and moved.now()[1] <= loads.now()[0]
        assert stays - mean <= 1e-9 or not fits


def test_cores_and_rates_are_those_that_the_lab_charges():
    """One place says what copying takes; the lab reads it there."""
    from ops.replay.simulator import simulation
    from ops.replay.worlds import worlds

    assert simulation.COPY_CORES is tentative.COPY_CORES
    assert worlds.MEMORY_BYTES_PER_CORE == tentative.UNKNOWN_MEMORY


def shop(hot=8.8, cool=3.0, replica=1.2, **changed):
    """Two shards of a cluster: both masters on a machine near its limit, both replicas on another; a third is idle."""
    loads = {"hot": hot, "cool": cool, "idle": 0.5}
    machines = [
        machine(name, 10, 100, usage={"cpu": {"mean": mean, "std": 0.4}, "memory": 20}) for name, mean in loads.items()
    ]
    instances = [
        {"id": f"{role}{n}", "machine": at, "cpu": 2, "memory": 1, "cluster": "shop", "role": role,
         "usage": {"cpu": used}, "labels": {"shard": str(n)}}
        | changed.get(f"{role}{n}", {})
        for role, at, used in (("master", "hot", 3.0), ("replica", "cool", replica))
        for n in range(2)
    ]  # fmt: skip
    return fleet(*machines, instances=instances)


LEADS = {"master1": {"machine": "cool", "role": "master"}}


@pytest.mark.parametrize(
    ("changed", "settings", "swaps"),
    [
        ({}, {}, "master0 replica0"),
        ({}, {"roles": False}, ""),
        ({}, {"gain_min": 0.9}, ""),
        ({"replica0": {"labels": {"shard": "0", "movable": "false"}}}, {}, "master1 replica1"),
        ({"replica0": {"placed_ago_s": 60}}, {}, "master1 replica1"),
        ({"master0": {"labels": {"shard": "0", "movable": "false"}}}, {}, "master1 replica1"),
        ({"replica0": {"labels": {"shard": "1"}}}, {}, "master1 replica0"),  # the first of equals
        ({"replica0": {"cluster": "other"}, "replica1": {"labels": {"shard": "0"}}}, {}, "master0 replica1"),
        ({"replica0": {"usage": None}, "replica1": {"usage": None}}, {}, ""),  # use by role is not measured
        ({"hot": 9.9, "cool": 7.0}, {}, ""),  # its mean would be above the limit there
        ({}, {"low": {"cpu": 10.0}}, ""),
        ({"replica": 3.0}, {}, ""),  # replicas use as much as masters
        ({"replica0": {"cluster_masters": 2}, "replica1": {"cluster_masters": 2}}, {}, "master0 replica0"),
        (LEADS | {"replica0": {"cluster_masters": 2}, "replica1": {"cluster_masters": 2}}, {}, ""),  # one is there
        (LEADS | {"replica0": {"cluster_masters": 9}, "replica1": {"cluster_masters": 9}}, {}, "master0 replica0"),
        ({"replica0": {"machine": "idle"}}, {}, "master0 replica0"),
    ],
)
def test_a_role_is_handed_over_before_an_instance_moves(changed, settings, swaps):
    """A hot machine's master exchanges with its replica on a cool machine, where that is enough; else it moves."""
    plan = planned(shop(**changed), **{"roles": True} | settings)
    assert " ".join(f"{one.id} {one.swap_role_with}" for one in exchanges(plan)) == swaps
    assert bool(exchanges(plan)) != bool(steps(plan)) or settings.get("gain_min")
    for one in exchanges(plan):
        assert one.gain > 0
        assert one.reason.startswith(
            "its machine is hot, cpu by role in the mean: master 3.00, replica 1.20; hand its role"
        )


def test_an_exchange_counts_until_the_windows_show_it():
    """While it is under way, and in the hour after it: less from minute to minute; its members rest meanwhile."""
    of, swapped = shop(), {"master0": "replica", "replica0": "master"}
    chosen = load_profiles().choose("windward")
    chosen = replace(chosen, rebalance=replace(chosen.rebalance, roles=True))
    under_way = advice(of.inputs(chosen), under_way=UnderWay(handing={"master0": "replica0"}))
    assert under_way.moves == []
    overloads = []
    for age_s in (0.0, 1200.0, 2400.0, 3599.0):
        of = shop()
        for name, role in swapped.items():
            then = {"role": role, "swap": ("master0", "replica0"), "swapped_at": of.now_s - age_s}
            of.ledger.apply(copy_with(of.ledger.instances[name], **then))
        found = advice(of.inputs(chosen))
        overloads.append(found.totals["overload"][0])
        assert found.movable == (2 if age_s < 1800 else 4)
        assert age_s or found.moves == []
    assert overloads == sorted(overloads)
    assert overloads[0] == pytest.approx(under_way.totals["overload"][0])
    assert overloads[-1] == pytest.approx(planned(shop(), roles=False).totals["overload"][0], rel=0.01)
