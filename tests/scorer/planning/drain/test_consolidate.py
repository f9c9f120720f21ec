"""A consolidation: which machines are emptied, at what cost, and that the others stay within their limits."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ledger.record.instance import as_request, moved_to
from scorer.ledger.view.overlay import Overlay
from scorer.planning.balance.scene import scene_of
from scorer.planning.drain.consolidate import OVERLOAD_MAX, consolidate
from scorer.ranking.inputs import RankingInputs, Tables
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from scorer.ranking.survive import with_cordon
from tests.effort import examples
from tests.scorer.fleets import fleet, machine


def emptied(of, count, profile="windward", **how):
    return consolidate(count, of.inputs(load_profiles().choose(profile)), **how)


def names(found):
    return [one.machine for one in found.emptying.machines]


def four(load=2.0, daemons=False, **more):
    machines = [
        machine(
            f"m{n}", 10, 1000, usage={"cpu": {"mean": load, "std": 0.2}, "memory": 100}, labels={"rack": str(n % 2)}
        )
        for n in range(4)
    ]
    instances = [
        {"id": f"i{n}-{k}", "machine": f"m{n}", "cpu": 1, "memory": 10, **(more if n == 0 else {})}
        for n in range(4)
        for k in range(n + 1)
    ]
    daemon = {"cpu": 0.1, "memory": 10, "labels": {"movable": "false", "daemon": "true"}}
    instances += [{"id": f"d{n}", "machine": f"m{n}", **daemon} for n in range(4) if daemons]
    return fleet(*machines, instances=instances)


def pair():
    near = {"labels": {"app": "x"}, "affinity": [{"instances": {"app": "x"}}]}
    there = [{"id": f"i{n}", "machine": "m0", "cpu": (1 + n) / 4, "memory": 10, **near} for n in range(2)]
    more = [{"id": f"j{n}", "machine": "m1", "cpu": 1, "memory": 10} for n in range(3)]
    machines = [machine(f"m{n}", 10, 1000, usage={"cpu": {"mean": 2, "std": 0.2}, "memory": 100}) for n in range(2)]
    return fleet(*machines, instances=[*there, *more])


def test_the_cheapest_first():
    found = emptied(four(), 2)
    assert [(one.machine, one.instances) for one in found.emptying.machines] == [("m0", 1), ("m1", 2)]
    assert found.emptying.machines[1].memory == pytest.approx(2 * found.emptying.machines[0].memory)
    assert {one.target for one in found.moves} <= {"m2", "m3"}
    assert found.drained == ["m0", "m1"]
    assert len(found.moves) == 3


@pytest.mark.parametrize(
    ("of", "how", "expected"),
    [
        pytest.param(four(labels={"movable": "false"}), {}, ["m1"], id="one may not move"),
        pytest.param(four(labels={"movable": "false"}), {"force": True}, ["m0"], id="although it is said to stay"),
        pytest.param(four(state="reserved"), {}, ["m1"], id="one is only reserved"),
        pytest.param(four(load=8.9), {}, [], id="the others would be overloaded"),
        pytest.param(four(load=8.5), {"profile": "kubernetes"}, [], id="above the limit, whatever the filters say"),
        pytest.param(four(load=7.8), {"profile": "kubernetes"}, [], id="below it in the mean, with overload expected"),
        pytest.param(four(), {"same": ("rack",)}, ["m0"], id="within its rack"),
        pytest.param(pair(), {}, ["m0"], id="two that must be together"),
        pytest.param(four(labels={"movable": "false", "daemon": "true"}), {}, ["m1"], id="nothing but a daemon"),
        pytest.param(fleet(machine("m", usage={"cpu": 1, "memory": 1})), {}, [], id="nothing is there"),
    ],
)
def test_what_is_left_as_it_is(of, how, expected):
    found = emptied(of, 1, **how)
    assert names(found) == expected
    assert len(found.moves) == sum(one.instances for one in found.emptying.machines)


def test_daemons_keep_no_machine_from_being_empty():
    """They end with it: it has no target of theirs, and their memory costs nothing."""
    alone, beside = emptied(four(), 1), emptied(four(daemons=True), 1)
    assert names(beside) == names(alone) == ["m0"]
    assert [one.id for one in beside.moves] == ["i0-0"]
    (one,), (other,) = beside.emptying.machines, alone.emptying.machines
    assert (one.instances, one.memory) == (1, other.memory)


def test_a_machine_that_cannot_be_emptied_is_passed_over():
    """What was tried of it is taken back: the next one finds all the room."""
    usage = {"cpu": {"mean": 1, "std": 0.1}, "memory": 10}
    of = fleet(
        machine("a", 20, 1000, usage=usage), machine("b", 20, 1000, usage=usage), machine("c", 6, 1000, usage=usage),
        instances=[
            {"id": "small", "machine": "a", "cpu": 0.5, "memory": 1},
            {"id": "pinned", "machine": "a", "cpu": 0.5, "memory": 1, "selector": "disk=ssd"},
            {"id": "b1", "machine": "b", "cpu": 1, "memory": 1}, {"id": "b2", "machine": "b", "cpu": 1, "memory": 1},
            {"id": "b3", "machine": "b", "cpu": 1, "memory": 1},
        ],
    )  # fmt: skip
    found = emptied(of, 1)
    assert (names(found), found.emptying.tried, found.emptying.left) == (["b"], 2, {"without instances": 1})
    assert emptied(of, 3).emptying.tried == 2


@settings(max_examples=examples(30, 30), deadline=None)
@given(st.data())
def test_a_consolidation_overloads_nothing_and_upholds_every_filter(data):
    """Any fleet: the machines are empty afterwards, each move is allowed when it is made, no target is overloaded."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    profile = load_profiles().choose(data.draw(st.sampled_from(["windward", "kubernetes"])))
    machines = [
        machine(f"m{n}", float(rng.integers(4, 30)), 100,
                usage={"cpu": {"mean": float(rng.uniform(0, 4)), "std": 0.3}, "memory": 5})
        for n in range(data.draw(st.integers(1, 8)))
    ]  # fmt: skip
    instances = [
        {"id": f"i{n}", "machine": f"m{rng.integers(len(machines))}", "cpu": float(rng.uniform(0, 2)), "memory": 1,
         **({"cluster": f"c{n % 3}"} if rng.random() < 0.3 else {})}
        for n in range(data.draw(st.integers(0, 25)))
    ]  # fmt: skip
    of = fleet(*machines, instances=instances)
    wanted = data.draw(st.integers(1, 4))
    found = consolidate(wanted, of.inputs(profile))
    gone = names(found)
    assert len(gone) <= wanted
    moved = [one.id for one in found.moves]
    assert sorted(moved) == sorted(one.id for name in gone for one in of.ledger.on_machine(name))
    overlay, cordoned = Overlay(of.ledger), of.snapshot.with_cordon(gone)
    scene = scene_of(of.inputs(profile, Tables()))
    place = {one.id: at for at, one in enumerate(scene.instances)}
    for one in found.moves:
        old = of.ledger.instances[one.id]
        overlay.leave(one.id)
        request = msgspec.structs.replace(as_request(old), id="")
        ranking = rank(request, RankingInputs(cordoned, of.ledger, with_cordon(profile), of.now_s).on(overlay))
        row = of.snapshot.roster.index[str(one.target)]
        assert ranking.feasible[row]
        overlay.propose(moved_to(old, str(one.target), of.now_s))
        at = place[one.id]
        source = of.snapshot.roster.index[old.machine]
        scene.loads.move(source, row, scene.usage[scene.rows, at], scene.variance[scene.rows, at])
        assert scene.loads.now()[row] <= OVERLOAD_MAX * (1 + 1e-6)
    assert all(not overlay.held_on(name) for name in gone)
