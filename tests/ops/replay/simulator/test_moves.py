"""Moves in the lab: the product's plan is carried out, within its limit and at its cost."""

from dataclasses import replace

import numpy as np
import pytest

from ops.replay.report.measures import measure, utilization
from ops.replay.simulator.moves import Moving, Rebalancer, copy_minutes
from ops.replay.simulator.policies import ProfilePolicy
from ops.replay.simulator.simulation import simulate
from ops.replay.simulator.true_fleet import Fleet
from ops.replay.worlds.worlds import with_roles
from schemas.resources import CPU, MEMORY
from scorer.ranking.profiles.catalogue import load_profiles
from tests.ops.replay.small_worlds import small_world, world

GIB = 2.0**30


def moved(small, rebalance=(), **how):
    """The default profile with moves, and with these settings in its table ``[rebalance]``."""
    default = load_profiles(()).choose("windward")
    profile = replace(default, rebalance=default.rebalance.with_given(dict(rebalance)))
    return simulate(small, ProfilePolicy(profile), changer=Rebalancer(profile, Moving(**{"share": 1.0, **how}), small))


@pytest.fixture(scope="module")
def limited():
    """A full fleet of which 2 % may move in an hour, for the least gain."""
    return moved(small_world(machines=4, load=0.8, requests=0.9), share=0.02, gain_min=0.0, copy_gbit=1.0)


HEATED = world(
    [10.0, 10.0, 10.0],
    [(3.0, 1.0, 0, 240), (3.0, 1.0, 0, 240), (3.0, 1.0, 0, 240), (3.0, 9.0, 4, 236), (1.0, 0.1, 200, 10)],
)
"""One machine at its limit beside two that are nearly idle; the last instance makes time go on."""


def test_a_hot_machine_is_cooled():
    """The plan moves an instance off the machine that is over 90 %, and never where it would be over."""
    still = simulate(HEATED, ProfilePolicy(load_profiles(()).choose("windward")))
    outcome = moved(HEATED, copy_gbit=0.0)
    assert len(outcome.moves) == 1
    assert utilization(still)[:, 199].max() == pytest.approx(1.0)
    assert utilization(outcome)[:, 199].max() == pytest.approx(0.9)
    assert outcome.fleet.load[0, :, 199].sum() == pytest.approx(still.fleet.load[0, :, 199].sum())


@pytest.mark.slow
def test_no_more_move_in_an_hour_than_the_limit(limited):
    """A share of the live instances; a share below one instance an hour is saved up."""
    minutes = np.array([minute for minute, _ in limited.moves])
    most = 0.02 * limited.fleet.count.sum(axis=0).max()
    assert minutes.size
    for first in range(0, limited.workload.minutes, 60):
        assert ((minutes >= first) & (minutes < first + 60)).sum() <= most + 1
    assert 0 < measure(limited)["steady"]["moves"] <= 0.02


@pytest.mark.parametrize(
    ("rebalance", "how", "count"),
    [
        pytest.param({}, {}, 1, id="the default"),
        pytest.param({"gain_min": 1.0}, {}, 0, id="no gain is a whole machine"),
        pytest.param({"gain_min": 1.0}, {"gain_min": 0.002}, 1, id="what is given replaces the profile's"),
        pytest.param({}, {"gain_min": 1.0}, 0, id="what is given, by itself"),
        pytest.param({"classes": ("batch",)}, {}, 0, id="a class that may not move"),
        pytest.param({"rest_s": 86_400.0}, {}, 0, id="an instance that came lately"),
        pytest.param({"rule": "thresholds", "high": {"cpu": 99}, "low": {"cpu": 20}}, {}, 1, id="by overload here"),
        pytest.param({"rounds_over": 5}, {}, 1, id="a machine gives in the first round"),
    ],
)
def test_a_profile_moves_by_its_own_settings(rebalance, how, count):
    """The plan is that of `windward rebalance` with the same profile."""
    assert len(moved(HEATED, rebalance, copy_gbit=0.0, **how).moves) == count


def test_the_copying_takes_as_long_as_the_memory():
    """At 8 Gbit/s a gigabyte a second; without an amount, 4 GiB for each core that is asked."""
    small = world([10.0, 10.0], [(2.0, 1.0, 0, 60), (2.0, 1.0, 0, 60)])
    small.asked[MEMORY, 0] = 120e9
    assert copy_minutes(small, 8.0).tolist() == pytest.approx([2.0, 8 * GIB / 60e9])
    assert copy_minutes(small, 0.0).tolist() == [0.0, 0.0]
    assert copy_minutes(small, 1e-300).tolist() == [240.0, 240.0]


def test_both_machines_carry_a_move_until_it_is_copied():
    """For a minute and a half the source carries the instance still, and each a core for the copying."""
    fleet = Fleet(world([10.0, 10.0], [(2.0, 3.0, 0, 180)]))
    fleet.place(0, 0, 0)
    fleet.move(0, 1, 60)
    fleet.copying(0, 0, 60, 1.5, 1.0)
    assert fleet.load[0, 0, 58:63].tolist() == [3.0, 3.0, 4.0, 2.0, 0.0]
    assert fleet.load[0, 1, 58:63].tolist() == [0.0, 0.0, 4.0, 3.5, 3.0]
    assert fleet.overhead[0, :, 60].tolist() == [4.0, 1.0]


@pytest.mark.slow
def test_moves_that_cost_are_in_the_figures(limited):
    """The network is full of a move's memory for as long as it is copied, at both ends."""
    first = limited.workload.fill_minutes
    copied = sum(move.copy_minutes for minute, move in limited.moves if minute >= first)
    assert copied > 0
    assert measure(limited)["steady"]["copying"] == pytest.approx(2 * copied / utilization(limited)[:, first:].size)


def test_roles_are_exchanged_before_an_instance_moves():
    """A master and its replica exchange what they use from that minute on, and no load is lost; nothing moves."""
    small = with_roles(small_world(machines=4, load=0.7, requests=0.9), 0.4)
    assert small.request(0).role == "master"
    assert {small.request(k).cluster for k in range(6)} == {"c0"}
    assert small.usage.of(1, CPU, 0, 50) == pytest.approx(0.4 * small.usage.of(0, CPU, 0, 50))
    outcome = moved(small, {"roles": True, "rest_s": 0.0, "gain_min": 0.0}, share=1e-9)
    assert (len(outcome.moves), len(outcome.exchanges) > 3) == (0, True)
    assert measure(outcome)["steady"]["exchanges"] > 0
    whole = simulate(small, ProfilePolicy(load_profiles(()).choose("windward"))).fleet
    ended = np.minimum(whole.end, small.minutes)
    assert outcome.fleet.load.sum() == pytest.approx(
        sum(small.usage.of(k, CPU, int(whole.placed[k]), int(ended[k])).sum() for k in range(len(ended))), rel=0.01
    )
