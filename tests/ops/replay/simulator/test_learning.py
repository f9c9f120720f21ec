"""What the lab learns in simulated time, and what it knows of each instance."""

import numpy as np
import pytest

from ops.replay.simulator.measuring import PredictedPeaks, Reports
from ops.replay.simulator.policies import ProfilePolicy
from ops.replay.simulator.simulation import simulate
from ops.replay.simulator.true_fleet import Fleet
from schemas.resources import CPU, MEMORY
from scorer.classes.prediction import Peaks
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile_file import parse_profile
from tests.ops.replay.small_worlds import Observed, world


def learned_by(profile):
    """What a policy knows after ten hours of instances that use 40 % of what they ask, six every ten minutes."""
    instances = [(1.0, 0.4, minute, 40 + minute % 110) for minute in range(0, 560, 10) for _ in range(6)]
    policy = Observed(load_profiles().choose(profile))
    simulate(world([16.0, 16.0, 16.0, 16.0], instances, minutes=600), policy)
    return policy.moments[-1].snapshot.learned


def test_the_factor_between_asked_and_used_is_learned_in_a_replay():
    """Once a hundred instance-hours were seen, the factor is what the instances really use."""
    learned = learned_by("windward")
    assert learned.version > 3
    assert learned.factors == {"cpu": pytest.approx(0.4, abs=0.01)}


def test_a_profile_that_does_not_go_by_it_learns_nothing():
    assert learned_by("kubernetes") is None
    assert [ProfilePolicy(load_profiles().choose(name)).learns for name in ("windward", "seed")] == [True, False]


def test_peaks_are_predicted_for_a_profile_that_counts_by_class():
    small = world(
        [10.0],
        [(4.0, 3.0, 0, 1_500), (4.0, 2.0, 0, 1_500), *((0.1, 0.1, minute, 2) for minute in range(20, 1_500, 20))],
        minutes=1_500,
        classes=["prod", *["batch"] * 75],
    )
    small.capacity[MEMORY] = small.usage.scale[MEMORY] = 2.0**30
    small.usage.values[MEMORY] = 0.01
    policy = Observed(parse_profile('[[filters]]\nuse = "fits"\nclasses = { share = { cpu = 1.0 } }', "classes"))
    simulate(small, policy)
    snapshot = policy.moments[-1].snapshot
    peak = Peaks(snapshot.predicted).of(snapshot.roster, snapshot.seen_at)
    assert peak[:, CPU, 0] == pytest.approx([0.3, 0.0], abs=0.02)
    assert simulate_without_classes(small) is None


def simulate_without_classes(small):
    """What a profile without sums by class is told of peaks."""
    policy = Observed(load_profiles().choose("kubernetes"))
    simulate(small, policy)
    return policy.moments[-1].snapshot.predicted


def test_peaks_are_written_every_five_minutes():
    looked = []
    peaks = PredictedPeaks()
    policy = Observed(load_profiles().choose("kubernetes"))
    simulate(world([10.0], [(1.0, 1.0, at, 9) for at in (0, 4, 8)]), policy)
    for moment in policy.moments:
        peaks.look(moment.snapshot, moment.ledger, moment.now_s)
        looked.append(peaks.raw)
    assert [looked[1] is looked[0], looked[2] is looked[1]] == [True, False]


def known(fleet, minute, instance, row=0):
    return Reports(fleet).usages(minute).find(f"m{row}", f"i{instance}")


def placed(small, rows):
    fleet = Fleet(small)
    for instance, row in enumerate(rows):
        fleet.place(instance, row, int(small.start[instance]))
    return fleet


def test_each_instance_has_its_own_mean():
    fleet = placed(world([10.0, 10.0], [(2.0, 3.0, 0, 180), (2.0, 0.5, 0, 180)]), [0, 1])
    for instance, used in ((0, 3.0), (1, 0.5)):
        usage = known(fleet, 60, instance, row=instance)
        assert (usage.count, usage.recent["cpu"], usage.daily["cpu"]) == (60, used, used)


def test_an_overloaded_machine_gives_each_its_part():
    """Ten cores for a demand of fifteen: two thirds each, and no more than the machine has in sum."""
    fleet = placed(world([10.0], [(2.0, 12.0, 0, 180), (2.0, 3.0, 0, 180)]), [0, 0])
    used = [usage.recent["cpu"] for n in (0, 1) if (usage := known(fleet, 30, n)) is not None]
    assert used == pytest.approx([8.0, 2.0])


def test_the_copying_of_a_move_is_the_systems():
    """What the source carries after a move belongs to no instance of it."""
    fleet = placed(world([10.0, 10.0], [(2.0, 3.0, 0, 180)]), [0])
    reports = Reports(fleet)
    reports.usages(60)
    fleet.move(0, 1, 60)
    fleet.copying(0, 0, 60, 30.0, 1.0)
    found = reports.usages(90)
    system, moved = found.find("m0", ""), found.find("m1", "i0")
    assert system.recent["cpu"] == pytest.approx(4.0 * -np.expm1(-1.0), rel=1e-3)
    assert (moved.count, moved.recent["cpu"]) == (30, 3.0)


def test_what_has_ended_is_dropped():
    """A day after its last report, as by a stream worker."""
    fleet = placed(world([10.0], [(2.0, 3.0, 0, 30), (2.0, 3.0, 0, 1_500)], minutes=1_500), [0, 0])
    reports = Reports(fleet)
    assert reports.usages(1_440).find("m0", "i0") is not None
    later = reports.usages(1_490)
    assert later.find("m0", "i0") is None
    assert later.find("m0", "i1") is not None
