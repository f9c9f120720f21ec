"""The runs of a world: profiles, profiles with moves, and the references."""

from dataclasses import replace

import numpy as np
import pytest

from ops.replay.simulator.moves import Moving
from ops.replay.simulator.policies import KnowingBatch, ProdAlone, runs
from ops.replay.simulator.simulation import simulate
from ops.replay.worlds.worlds import with_batch
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile_file import parse_profile
from tests.ops.replay.small_worlds import small_world, world

PROFILE = load_profiles(()).choose("windward")
MIXED = world(
    [10.0, 10.0],
    [(8.0, 4.0, 0, 240), (8.0, 1.0, 0, 240), (9.0, 5.0, 4, 60), (9.0, 4.9, 8, 60), (9.0, 4.0, 12, 60)],
    classes=["prod", "prod", "batch", "batch", "batch"],
)


def run(kind):
    return simulate(MIXED, kind(PROFILE))


def test_prod_alone_has_no_batch():
    outcome = run(ProdAlone)
    assert (outcome.placed >= 0).tolist() == [True, True, False, False, False]
    assert not outcome.fleet.lower.any()


def test_known_batch_fills_to_ninety_per_cent_of_the_true_peak():
    """What is asked does not count: five cores go beside four, and the next beside one; the last waits for an end."""
    outcome = run(KnowingBatch)
    rows = outcome.fleet.machine_of.tolist()
    busy, idle = rows[0], rows[1]
    assert (rows[2], rows[3]) == (busy, idle)
    assert outcome.placed.tolist()[2:4] == [4, 8]
    assert outcome.placed[4] == 64


REFERENCES = ["random feasible", "best fit by true peak", "oracle"]


@pytest.mark.parametrize(
    ("profiles", "shares", "expected"),
    [
        (["seed"], [], ["seed"]),
        (["seed"], [0.005], ["seed", "seed + 0.5 %/h"]),
        (["seed", "windward"], [0.0015, 0.005], ["seed", "windward", "windward + 0.15 %/h", "windward + 0.5 %/h"]),
    ],
)
def test_every_profile_but_the_baseline_is_moved_too(profiles, shares, expected):
    """A baseline that is alone is moved itself; the references are always there and never moved."""
    catalogue = load_profiles(())
    movings = [Moving(share=share) for share in shares]
    found = runs(small_world(machines=2), [catalogue.choose(name) for name in profiles], "seed", movings)
    assert [one.policy.name for one in found] == expected + REFERENCES
    assert [one.changer is not None for one in found] == ["%/h" in one.policy.name for one in found]


@pytest.mark.parametrize("batch", [0.0, 0.5])
def test_a_recorded_placement_is_a_reference_where_it_is_known(batch):
    world = small_world(machines=2)
    world = with_batch(world, batch) if batch else world
    recorded = replace(world, placed_on=np.zeros(len(world.instances), np.int64))
    profiles = [load_profiles(()).choose("seed")]
    names = [[one.policy.name for one in runs(each, profiles, "seed", [])] for each in (world, recorded)]
    assert names[1] == ["seed", "as recorded", *names[0][1:]]


def test_worlds_with_batch_have_references_of_their_own():
    by_class = parse_profile('[[filters]]\nuse = "fits"\nclasses = {}', "classes")
    plain = load_profiles(()).choose("seed")
    world = with_batch(small_world(machines=2), 0.5)
    found = runs(world, [plain, by_class], "seed", [], [5, 1])
    assert [one.policy.name for one in found] == [
        "seed", "classes", "classes, evict 5 min", "classes, evict 1 min", "seed, prod alone",
        "classes, batch known",
    ]  # fmt: skip
    assert [one.changer.every_minutes if one.changer else 0 for one in found] == [0, 0, 5, 1, 0, 0]
