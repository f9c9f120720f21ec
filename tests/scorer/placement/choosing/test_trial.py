"""The what-if: what is proposed is seen, what is taken back leaves nothing, and the ledger stays as it is."""

import weakref

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ledger.view.overlay import Overlay
from scorer.placement.choosing.trial import Trial
from scorer.ranking.inputs import Tables
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, request
from tests.scorer.ranking.test_arguments import everything

PROFILES = load_profiles()
IDLE = {"cpu": 0, "memory": 0}


def small(*instances, machines=3):
    return fleet(
        *(machine(f"m{n}", 8, 100, usage=IDLE, labels={"rack": str(n % 2)}) for n in range(machines)),
        instances=[{"memory": 1, **one} for one in instances],
    )


def trial_of(of, profile="kubernetes"):
    return Trial(of.inputs(PROFILES.choose(profile)))


def test_among_some_machines():
    """As a column or as a function of the machines; the reason names the condition only where others are feasible."""
    trial, asked = trial_of(small()), request(cpu=5, memory=1)
    assert trial.best(asked, np.array([False, True, False])).machine == "m1"
    assert (
        trial.best(asked, lambda machines: machines.label("rack").codes == machines.label("rack").codes[1]).machine
        == "m1"
    )
    none = np.zeros(3, np.bool_)
    assert trial.best(asked, none, "in the cellar").why == "3/3 feasible, none of them in the cellar"
    assert "cellar" not in trial.best(request(cpu=50), none, "in the cellar").why


def test_a_trial_that_has_ended_holds_no_memory():
    """Its overlay goes with it, although the tables stay."""
    inputs = small().inputs(PROFILES.choose("windward"))
    trial = Trial(inputs)
    trial.propose(request(cpu=1, memory=1), "m1", "new")
    assert trial.best(request(cpu=1, memory=1)).machine
    overlay = weakref.ref(trial.inputs.overlay)
    del trial
    assert overlay() is None


# by node: cluster, pods that it takes, pods there; whether one more of the cluster east is taken
NODES = [
    ("east", "2", 1, True), ("east", "2", 2, False), ("east", "2", 3, False), ("east", "0", 0, False),
    ("east", "some", 1, True), ("east", None, 3, True), ("west", "2", 0, False), (None, None, 0, False),
]  # fmt: skip


def test_which_nodes_take_one_more_pod():
    labels = [{"kubernetes": cluster, "kubernetes-pods": most} for cluster, most, *_ in NODES]
    there = [
        {"id": f"{at}-{n}", "machine": f"m{at}", "cpu": 0.1, "labels": {"kubernetes": "east"}}
        for at, (_, _, count, _) in enumerate(NODES)
        for n in range(count)
    ]
    said = [{name: value for name, value in one.items() if value} for one in labels]
    of = fleet(*(machine(f"m{at}", usage=IDLE, labels=one) for at, one in enumerate(said)), instances=there)
    pod = of.ledger.instances["0-0"]
    assert trial_of(of).takes_pod(pod).tolist() == [taken for *_, taken in NODES]
    other = msgspec.structs.replace(pod, labels={})
    assert trial_of(of).takes_pod(other).all()


def test_an_overlay_that_is_there_is_gone_on_with():
    of = small({"id": "a", "machine": "m0", "cpu": 8})
    overlay = Overlay(of.ledger, without=["a"])
    trial = Trial(of.inputs(PROFILES.choose("kubernetes")).on(overlay))
    assert trial.allowed(request(cpu=8)).all()
    trial.propose(request(cpu=8), "m1", "new")
    assert [one.id for one in overlay.held_on("m1")] == ["new"]


STEPS = st.lists(
    st.tuples(st.sampled_from(["move", "leave", "put back"]), st.integers(0, 3), st.integers(0, 2)), max_size=12
)


@settings(max_examples=examples(60, 60), deadline=None)
@given(STEPS, st.sampled_from(sorted(PROFILES.by_name)))
def test_what_is_put_back_is_as_before(steps, profile):
    """Whatever moved or left: with all put back a ranking is that of the ledger, and one is never there twice."""
    of = small(*({"id": f"i{n}", "machine": f"m{n % 3}", "cpu": n} for n in range(4)))
    trial, records = trial_of(of, profile), dict(of.ledger.instances)
    for step, n, row in steps:
        one = records[f"i{n}"]
        if step == "move":
            trial.move(one, f"m{row}")
        elif step == "leave":
            trial.leave(one.id)
        else:
            trial.put(one)
        there = [held.id for name in of.snapshot.names for held in trial.overlay.held_on(name)]
        assert len(there) == len({*there})
        trial.best(request(cpu=1))
    for one in records.values():
        trial.put(one)
    found, before = (
        rank(request(cpu=1, memory=1), inputs) for inputs in (trial.inputs, of.inputs(trial.inputs.profile))
    )
    assert found.feasible.tolist() == before.feasible.tolist()
    assert found.total.tolist() == pytest.approx(before.total.tolist(), abs=1e-9)
    assert dict(of.ledger.instances) == records


def alike(some, others):
    one, other = (rank(request(cpu=1), each) for each in (some, others))
    assert one.feasible.tolist() == other.feasible.tolist()
    np.testing.assert_array_equal(one.total, other.total)


@pytest.mark.parametrize("name", sorted(PROFILES.by_name))
def test_rows_that_are_prepared_in_steps_are_those_made_at_once(name):
    """By each profile, with leavers, learned use and machines without data; what changed meanwhile is followed."""
    of, profile = everything(), PROFILES.choose(name)
    inputs = of.inputs(profile, Tables())
    steps = inputs.tables.prepare(inputs.snapshot, inputs.ledger, profile, inputs.now_s)
    next(steps, None)
    of.ledger.forget("a")
    for _ in steps:
        pass
    alike(inputs, of.inputs(profile, Tables()))
    assert not list(inputs.tables.prepare(inputs.snapshot, inputs.ledger, profile, inputs.now_s)), "it is there"
