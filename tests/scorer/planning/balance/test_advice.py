"""Any fleet, any settings: what a plan never does, by both rules and both objectives."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ledger.record.instance import Instance, Moving, copy_with
from scorer.ledger.view.view import LedgerView
from scorer.planning.balance.advice import advice
from scorer.planning.balance.by_overload import moved_lately
from scorer.planning.balance.rounds import UnderWay
from scorer.planning.balance.tentative import NEGLIGIBLE
from scorer.planning.candidates import instances_on
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.rebalance_section import Rebalancing
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, steps


def loaded(**cpu):
    return [machine(name, usage={"cpu": {"mean": mean, "std": 0.5}, "memory": 20}) for name, mean in cpu.items()]


CLASSES = ("prod", "mid", "batch", "free")
RULES = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"high": st.just({"cpu": 60.0}), "low": st.just({"cpu": 50.0})}),
    st.just({"rule": "thresholds", "high": {"cpu": 60.0}, "low": {"cpu": 50.0}}),
    st.just({"rule": "thresholds", "high": {"cpu": 10.0}, "low": {"cpu": 10.0}, "deviation": True}),
    st.just({"rule": "thresholds", "prod_high": {"cpu": 40.0}, "prod_low": {"cpu": 30.0}}),
)
LIMITS = st.fixed_dictionaries(
    {
        "moves_max": st.integers(1, 30),
        "from_machine_max": st.integers(1, 4),
        "to_machine_max": st.integers(1, 4),
        "cluster_max": st.integers(1, 2),
        "gain_min": st.sampled_from([0.0, 1e-6, 0.002]),
        "classes": st.lists(st.sampled_from(CLASSES), unique=True, max_size=2).map(tuple),
    }
)


def advised(of, pending=None, **rebalance):
    profile = replace(load_profiles().choose("windward"), rebalance=Rebalancing(**rebalance))
    return advice(of.inputs(profile), under_way=UnderWay(pending or {}))


def any_fleet(seed):
    """Machines of different sizes and loads; instances of all classes, some in clusters."""
    rng = np.random.default_rng(seed)
    machines = [
        machine(f"m{n}", cores, usage={"cpu": {"mean": float(cores * rng.uniform(0, 1)), "std": 0.3}, "memory": 5})
        for n, cores in enumerate(rng.choice([4.0, 8.0, 32.0], rng.integers(3, 8)).tolist())
    ]
    instances = [
        {
            "id": f"i{n}", "machine": f"m{rng.integers(len(machines))}", "cpu": float(rng.uniform(0, 2)), "memory": 1,
            "priority_class": str(rng.choice(CLASSES)),
            **({"cluster": f"c{rng.integers(9)}"} if rng.random() < 0.6 else {}),
        }
        for n in range(rng.integers(0, 60))
    ]  # fmt: skip
    return fleet(*machines, instances=instances)


@settings(max_examples=examples(100, 100), deadline=None)
@given(st.integers(0, 2**32), RULES, LIMITS)
def test_what_a_plan_never_does(seed, rule, limits):
    """No machine above what its donor had before the step, nor promises above what there is; clusters stay apart."""
    of = any_fleet(seed)
    plan = advised(of, **rule, **limits)
    where = {one.id: one.machine for one in of.ledger.instances.values()}
    clusters = {}
    held = {name: sum(one.amounts[0] or 0.0 for one in of.ledger.on_machine(name)) for name in of.snapshot.names}
    most = {name: max(cores, held[name]) for name, cores in zip(held, of.snapshot.allocatable[0], strict=True)}
    for step in steps(plan):
        one, target = of.ledger.instances[step.id], step.target
        (before, after), (_, then) = step.overload["source"], step.overload["target"]
        assert max(after, then) <= max(before, NEGLIGIBLE) + 1e-12
        if one.cluster:
            there = [other for other, at in where.items() if at == target]
            assert one.cluster not in {of.ledger.instances[other].cluster for other in there}
            clusters[one.cluster] = clusters.get(one.cluster, 0) + 1
        assert not limits["classes"] or one.priority_class in limits["classes"]
        assert where[one.id] == step.source != target
        where[one.id] = target
        held[step.source] -= one.amounts[0] or 0.0
        held[target] += one.amounts[0] or 0.0
    assert all(held[name] <= most[name] + 1e-9 for name in held)
    assert len({one.id for one in steps(plan)}) == len(steps(plan)) <= limits["moves_max"]
    assert max(clusters.values(), default=0) <= limits["cluster_max"]
    for side, most in (("source", "from_machine_max"), ("target", "to_machine_max")):
        counts = Counter(getattr(step, side) for step in steps(plan))
        assert max(counts.values(), default=0) <= limits[most]
    if rule.get("rule") != "thresholds":
        assert all(step.gain >= limits["gain_min"] for step in steps(plan))


@settings(max_examples=examples(30, 30), deadline=None)
@given(st.integers(0, 2**32), RULES)
def test_a_plan_goes_on_where_it_was_cut(seed, rule):
    """The first moves on their way, the same fleet asked again: none of them comes again, and no limit is passed."""
    of, limits = any_fleet(seed), {"moves_max": 8, "gain_min": 1e-6, "from_machine_max": 3}
    first = advised(of, **rule, **limits)
    half = len(steps(first)) // 2
    pending = {one.id: one.target for one in steps(first)[:half]}
    then = advised(of, pending=pending, **rule, **limits)
    assert not pending.keys() & {one.id for one in steps(then)}
    assert len(pending) + len(steps(then)) <= limits["moves_max"]


def test_of_equal_instances_the_one_that_is_copied_sooner_goes():
    """Cost decides among equals: the memory that is copied."""
    machines = loaded(hot=9.4, cold=1)
    instances = [{"id": f"i{gib}", "machine": "hot", "cpu": 2, "memory": gib} for gib in (9, 3, 6)]
    plan = advised(fleet(*machines, instances=instances), moves_max=1)
    assert [one.id for one in steps(plan)] == ["i3"]


def test_only_what_is_over_gives_and_only_what_is_under_takes():
    """With thresholds the rule of overload looks at fewer machines; a target stays at or below the high one."""
    machines = loaded(a=9.4, b=5, c=6)
    of = fleet(*machines, instances=[{"id": "i", "machine": "a", "cpu": 2, "memory": 2}])
    assert steps(advised(of))[0].target == "b"
    for limits, expected in (
        ({"high": {"cpu": 95.0}}, None),
        ({"low": {"cpu": 45.0}}, None),
        ({"high": {"cpu": 72.0}, "low": {"cpu": 55.0}}, "b"),
        ({"high": {"cpu": 65.0}, "low": {"cpu": 55.0}}, None),
    ):
        plan = advised(of, **limits)
        assert [step.target for step in steps(plan)] == ([expected] if expected else [])


def test_moves_of_the_last_hour_count():
    machines = loaded(hot=9.8, cold=1)
    instances = [{"id": f"i{n}", "machine": "hot", "cpu": 1, "memory": 2} for n in range(4)]
    of = fleet(*machines, instances=instances)
    one = of.ledger.instances["i0"]
    assert len(steps(advised(of, from_machine_max=1))) == 1
    of.ledger.apply(copy_with(one, machine="cold", started_at=of.now_s - 60))
    plan = advised(of, from_machine_max=1)
    assert steps(plan) == []
    assert plan.moved_in_hour == 1
    assert len(steps(advised(of, from_machine_max=1, hour_max=0))) == 1


@pytest.mark.parametrize("rule", [{}, {"rule": "thresholds", "high": {"cpu": 70.0}, "low": {"cpu": 60.0}}])
def test_what_is_moving_is_seen_as_gone(rule):
    """It does not move again, its machine is relieved of it, and it counts in the limits."""
    instances = [{"id": f"i{n}", "machine": "hot", "cpu": 2.5, "memory": 2} for n in range(3)]
    of = fleet(*loaded(hot=9.3, cold=1, other=1), instances=instances)
    alone = advised(of, **rule)
    assert len(steps(alone)) == 1
    one = of.ledger.instances[steps(alone)[0].id]
    moving = Moving("cold", of.now_s - 5, of.now_s + 600)
    of.ledger.apply(copy_with(one, moving=moving))
    plan = advised(of, **rule)
    assert (steps(plan), plan.moved_in_hour) == ([], 1)
    assert plan.totals["highest"][0] < alone.totals["highest"][0]


@pytest.mark.parametrize("rule", ["overload", "thresholds"])
def test_an_empty_fleet(rule):
    more = {"high": {"cpu": 60.0}, "low": {"cpu": 50.0}} if rule == "thresholds" else {}
    assert steps(advised(fleet(), rule=rule, **more)) == []


NOW_S = 100_000.0


def one(name, started_at):
    return Instance(
        id=name, machine="a", state="confirmed", amounts=(1.0,), started_at=started_at, reserved_at=started_at
    )


def test_moves_of_an_hour():
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
