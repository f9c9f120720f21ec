"""Batch is evicted when prod needs its room: the advice of `windward drain --evict`, carried out in simulated time."""

from dataclasses import replace
from functools import cache

import numpy as np

from ops.replay.report.measures import class_figures, stays
from ops.replay.simulator.interfaces import Spell
from ops.replay.simulator.moves import ByAdvice
from ops.replay.simulator.policies import ProfilePolicy
from ops.replay.simulator.simulation import simulate
from scorer.ranking.profiles.profile_file import parse_profile
from tests.ops.replay.small_worlds import world

PROFILE = parse_profile(
    '[[filters]]\nuse = "fits"\n[filters.classes]\nshare = { cpu = 1.0 }\npolicy = { cpu = "request" }', "by requests"
)
"""Prod and batch together ask for no more than there is, prod first."""
BACK = world(
    [10.0],
    [(6.0, 2.0, 0, 30), (2.0, 1.0, 0, 240), (2.0, 1.0, 0, 20), (4.0, 2.0, 44, 60), (2.0, 1.0, 60, 100)],
    classes=["prod", "batch", "prod", "batch", "prod"],
)
"""One machine. Prod leaves by minute 30, batch takes the room, and at minute 60 prod has room beside it: 2 + 4 + 2."""
FULL = world(
    [10.0],
    [(6.0, 2.0, 0, 30), (4.0, 1.0, 0, 240), (4.0, 2.0, 32, 60), (6.0, 3.0, 60, 100)],
    classes=["prod", "batch", "batch", "prod"],
)
"""The same, and at minute 60 prod asks for six of ten cores of which batch has eight."""


@cache
def run(name, every_minutes=5):
    small = {"back": BACK, "full": FULL}[name]
    evictor = ByAdvice(PROFILE, small, every_minutes) if every_minutes else None
    return simulate(small, ProfilePolicy(PROFILE), changer=evictor)


def test_no_instance_leaves_while_all_fit():
    outcome = run("back")
    assert outcome.placed.tolist() == [0, 0, 0, 44, 60]
    assert outcome.evicted == []


def test_batch_leaves_when_prod_comes_back():
    """At minute 60 prod is placed beside eight cores of batch; the next plan evicts the newer of both."""
    outcome = run("full")
    assert outcome.evicted == [Spell(2, 0, 32, 65)]
    assert outcome.placed[3] == 60


def test_an_evicted_instance_asks_again_and_lives_anew():
    """It is placed when prod has left, for the whole of its life."""
    outcome = run("full")
    assert outcome.placed[2] == 160
    assert outcome.fleet.end[2] == 220
    assert outcome.placements.tolist() == [1, 1, 2, 1]
    assert stays(outcome, 0, 240)[2] == 65 - 32 + 60


def test_its_load_leaves_with_it():
    """The machine carries what runs, and nothing of what left."""
    load = run("full").fleet.load[0, 0]
    assert load[59] == 1.0 + 2.0
    assert load[65] == 1.0 + 3.0
    assert load[165] == 1.0 + 2.0
    assert (run("full").fleet.lower[0, 0, 65:160] == 1.0).all()


def test_it_does_not_run_while_it_waits():
    fleet = run("full").fleet
    assert [fleet.running(minute).tolist() for minute in (31, 100, 170, 230)] == [[1], [1, 3], [1, 2], [1]]


def test_evictions_of_other_classes_are_not_batchs():
    """An evicted instance of mid takes nothing from what batch hosted."""
    found = class_figures(replace(run("full"), evicted=[Spell(0, 0, 0, 20)]), 0, 240)
    assert found["kept_batch"] == found["hosted_batch"]
    assert found["evictions"] == 0


def test_without_a_plan_all_stay():
    outcome = run("full", 0)
    assert outcome.evicted == []
    assert outcome.fleet.load[0, 0, 65] == 1.0 + 2.0 + 3.0


def test_the_figures_by_class_of_this_world():
    """Core-minutes as counted by hand: prod 6 x 30 + 6 x 100, batch 4 x 240 + 4 x 33 + 4 x 60, of 10 x 240."""
    found = class_figures(run("full"), 0, 240)
    assert found["hosted_prod"] == (6 * 30 + 6 * 100) / 2_400
    assert found["hosted_batch"] == (4 * 240 + 4 * 33 + 4 * 60) / 2_400
    assert found["kept_batch"] == (4 * 240 + 4 * 60) / 2_400
    assert found["used_batch"] == (240 + 2 * 93) / 2_400
    assert np.isclose(found["evictions"], 1 / ((240 + 93) / 60))
    assert found["waits_batch"] == (160 - 32) / 2
    assert found["hot90_prod"] == found["lost_prod"] == found["refused_prod"] == 0
