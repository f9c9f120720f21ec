"""The loop: hand-checked worlds of two machines, and laws over small ones; and the queue of those that ask."""

import dataclasses
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ops.replay.report.measures import measure, utilization
from ops.replay.simulator.interfaces import Move
from ops.replay.simulator.policies import BestFitByPeak, Oracle, ProfilePolicy, RandomFeasible
from ops.replay.simulator.simulation import Queue, simulate
from schemas.resources import CPU
from schemas.rpc.request import Request
from scorer.ranking.inputs import Tables
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.rank import rank
from tests.effort import effort
from tests.ops.replay.small_worlds import Observed, small_world, world


def profile(name="windward"):
    return ProfilePolicy(load_profiles(()).choose(name))


def policies():
    return [profile(), profile("kubernetes"), RandomFeasible(1), BestFitByPeak(1), Oracle(1)]


NAMES = [policy.name for policy in policies()]


def four_machines():
    return small_world(machines=4)


@cache
def outcome_of(name):
    """One world under a policy, for the tests that only look at it."""
    return simulate(four_machines(), next(policy for policy in policies() if policy.name == name))


def on(outcome):
    return outcome.fleet.machine_of.tolist()


def test_two_machines_share_two_instances():
    """The second instance goes to the other machine: the first one's credit counts though no window shows it yet."""
    outcome = simulate(world([10.0, 10.0], [(2.0, 2.0, 0, 60), (2.0, 2.0, 0, 60)]), profile())
    assert sorted(on(outcome)) == [0, 1]
    assert outcome.fleet.load[0, :, :60].tolist() == [[2.0] * 60] * 2
    assert not outcome.fleet.load[0, :, 60:].any()


def test_measured_load_decides():
    """After an hour the machine whose instance uses much is avoided, though both promised the same."""
    outcome = simulate(world([10.0, 10.0], [(2.0, 6.0, 0, 200), (2.0, 0.5, 0, 200), (2.0, 2.0, 90, 30)]), profile())
    busy, idle, placed = on(outcome)
    assert placed == idle != busy


def test_a_refused_instance_asks_again_after_four_minutes():
    """The third one fits only when the first two have ended; its life begins then."""
    outcome = simulate(world([4.0, 4.0], [(3.0, 1.0, 0, 10), (3.0, 1.0, 0, 10), (3.0, 1.0, 1, 7)]), profile())
    assert outcome.placed.tolist() == [0, 0, 13]
    assert outcome.tries.tolist() == [1, 1, 4]
    assert outcome.fleet.end[2] == 20
    assert measure(outcome)["steady"]["refused_first"] == pytest.approx(1 / 3)
    assert outcome.refusals == {"0/2 feasible: 2 too much cpu promised": 1}


def test_each_try_is_one_decision():
    outcome = simulate(world([4.0, 4.0], [(1.0, 1.0, 0, 10)] * 6 + [(9.0, 1.0, 8, 10)]), profile())
    assert outcome.tries.tolist() == [1] * 6 + [58]
    assert len(outcome.decision_s) == outcome.tries.sum()


def test_figures_of_a_world_checked_by_hand():
    """One machine at 120 %, one idle, for half of the time. Demand above the cores is lost, and read by no agent."""
    outcome = simulate(world([10.0, 10.0], [(5.0, 12.0, 0, 120)]), profile())
    figures = measure(outcome)["steady"]
    assert figures["std"] == pytest.approx(0.5 * 0.5)  # 1 and 0, half of the time
    assert figures["hot100"] == figures["hot90"] == pytest.approx(0.25)
    assert figures["lost"] == pytest.approx(2 / 12)
    assert figures["on_hot"] == 1.0
    assert figures["mean"] == pytest.approx(0.3)
    assert figures["refused_first"] == 0.0
    assert (outcome.fleet.load.max(), outcome.fleet.readings(0, 120).max()) == (12.0, 10.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_is_the_same_result(name):
    first = outcome_of(name)
    second = simulate(four_machines(), next(policy for policy in policies() if policy.name == name))
    assert on(first) == on(second)
    assert (first.fleet.load == second.fleet.load).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_carries_the_sum_of_its_instances(name):
    """Nothing is lost or made up between instances and machines."""
    small, outcome = four_machines(), outcome_of(name)
    total = np.zeros_like(outcome.fleet.load[0])
    for instance, row in enumerate(on(outcome)):
        first, last = int(outcome.placed[instance]), min(int(outcome.fleet.end[instance]), small.minutes)
        if row >= 0:
            total[row, first:last] += small.usage.of(instance, CPU, first, last)
    assert np.allclose(total, outcome.fleet.load[0])


def test_every_policy_meets_the_same_arrivals():
    """Instances, their times and what they ask are the workload's; a policy only says where."""
    outcomes = [outcome_of(name) for name in NAMES]
    assert all((outcome.tries > 0).all() for outcome in outcomes)
    placed_at_once = np.all([outcome.tries == 1 for outcome in outcomes], axis=0)
    for outcome in outcomes:
        assert (outcome.placed[placed_at_once] == four_machines().start[placed_at_once]).all()


@pytest.mark.long
def test_nothing_is_promised_twice():
    """What the instances of a machine asked for never exceeds its cores, under the default profile."""
    small = small_world(machines=effort(2, 4), requests=0.95)
    outcome = simulate(small, profile())
    assert (outcome.tries > 1).any()
    for minute in range(0, small.minutes, 60):
        live = [k for k in outcome.fleet.running(minute) if outcome.placed[k] <= minute]
        asked = np.bincount(outcome.fleet.machine_of[live], small.asked[CPU, live], minlength=len(small.machines))
        assert (asked <= small.capacity[CPU] + 1e-6).all()


@pytest.mark.slow
def test_knowing_the_future_is_no_hotter_than_chance():
    """The oracle and the default have fewer hot minutes than the random policy."""
    small = small_world(seed=3)
    hot = {p.name: measure(simulate(small, p))["steady"]["hot90"] for p in (profile(), RandomFeasible(1), Oracle(1))}
    assert hot["oracle"] < hot["random feasible"]
    assert hot["windward"] < hot["random feasible"]


def test_a_mover_takes_the_load_with_it():
    """A moved instance loads its new machine from that minute on, in truth and in the ledger."""

    class ToTheOther:
        every_minutes = 10

        def changes(self, moment):
            return [Move(0, 1 - int(moment.fleet.machine_of[0]))] if moment.minute == 60 else []

    def run(small):
        return simulate(small, profile(), changer=ToTheOther())

    outcome = run(world([10.0, 10.0], [(2.0, 3.0, 0, 180), (1.0, 0.5, 90, 20)]))
    load = utilization(outcome)
    assert [(minute, move.instance) for minute, move in outcome.moves] == [(60, 0)]
    assert sorted(load[:, 59].tolist()) == sorted(load[:, 60].tolist()) == [0.0, 0.3]
    assert load[:, 59].argmax() != load[:, 60].argmax()
    assert not load[:, 180:].any()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_what_is_seen_of_instances_that_use_what_they_ask_is_their_load(seed):
    """Credits and debits make up for what windows show late, whoever comes, leaves or moves."""
    draw = np.random.default_rng(seed)
    asked, start, life = draw.choice([0.5, 1.0, 2.0, 4.0], 150), draw.integers(0, 270, 150), draw.integers(2, 150, 150)
    small = world([99.0] * 4, list(zip(asked, asked, np.sort(start), life, strict=True)), 300)

    class Moving:
        every_minutes = 10

        def changes(self, moment):
            running = moment.fleet.running(moment.minute)
            chosen = draw.choice(running, min(2, len(running)), replace=False)
            moves = [Move(int(one), int(draw.integers(4))) for one in chosen]
            return [move for move in moves if moment.fleet.machine_of[move.instance] != move.row]

    def look(moment):
        taught = dataclasses.replace(policy.profile.load_model, learned=False)
        inputs = moment.inputs(dataclasses.replace(policy.profile, load_model=taught), Tables())
        seen = rank(Request(), inputs).machines
        np.testing.assert_allclose(seen.mean[CPU], moment.fleet.load[CPU, :, moment.minute], atol=1e-9)

    policy = Observed(profile().profile, look)
    outcome = simulate(small, policy, changer=Moving())
    assert len(policy.moments) > 50
    assert len(outcome.moves) > 20


ASKS = [(2.0, 1.0, 0, 9), (4.0, 1.0, 0, 9), (1.0, 1.0, 0, 9), (3.0, 1.0, 8, 9)]
MIXED = world([8.0], ASKS, classes=["batch", "batch", "prod", "free"])


def test_prod_asks_first():
    """In one minute prod comes before batch, and the earlier before the later."""
    queue = Queue(MIXED)
    assert (queue.minute, queue.take()) == (0, [2, 0, 1])
    queue.ask_again(1, 8)
    assert (queue.minute, queue.take()) == (8, [1, 3])
    assert queue.minute == MIXED.minutes


def test_an_instance_that_asks_for_more_than_a_refused_one_is_not_ranked():
    """A refusal holds for larger instances of its class in that minute, and never for prod."""
    queue = Queue(MIXED)
    queue.take()
    assert not queue.cannot_fit(1)
    queue.refused(0)
    assert [queue.cannot_fit(each) for each in range(4)] == [True, True, False, False]
    queue.ask_again(1, 8)
    queue.take()
    assert not queue.cannot_fit(1)


def test_a_smaller_one_takes_the_place_of_a_larger_one():
    queue = Queue(MIXED)
    queue.take()
    for refused, others in ((1, [False, True]), (0, [True, True])):
        queue.refused(refused)
        assert [queue.cannot_fit(each) for each in (0, 1)] == others


def test_a_refusal_holds_for_its_kind():
    """What is expected of another kind may be less; with labels it holds for no other instance."""
    kinds = Queue(replace(MIXED, kinds=["a", "b", "a", "a"]))
    labels = Queue(replace(MIXED, labels=[{}, {}, {}, {}]))
    for queue in (kinds, labels):
        queue.take()
        queue.refused(0)
        assert not queue.cannot_fit(1)
