"""What the lab learns in simulated time: the factor between asked and used, for profiles that go by it."""

import pytest

from ops.replay.simulator.interfaces import Moment
from ops.replay.simulator.learning import PredictedPeaks, learns_use
from ops.replay.simulator.policies import ProfilePolicy
from ops.replay.simulator.simulation import Outcome, simulate
from ops.replay.workload import Workload
from schemas.resources import CPU, MEMORY
from scorer.classes.prediction import Peaks
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile_file import parse_profile
from tests.ops.replay.small_worlds import world


def outcome_of(profile: str) -> Outcome:
    """Ten hours in which instances use 40 % of what they ask, six coming every ten minutes, for an hour or two."""
    instances = [(1.0, 0.4, minute, 40 + minute % 110) for minute in range(0, 560, 10) for _ in range(6)]
    return simulate(
        world([16.0, 16.0, 16.0, 16.0], instances, minutes=600), ProfilePolicy(load_profiles().choose(profile))
    )


def test_the_factor_between_asked_and_used_is_learned_in_a_replay() -> None:
    """Once a hundred instance-hours were seen, the factor is what the instances really use."""
    learned = outcome_of("windward").learned
    assert learned is not None
    assert learned.version > 3
    assert learned.factors == {"cpu": pytest.approx(0.4, abs=0.01)}


def test_a_profile_that_does_not_go_by_it_learns_nothing() -> None:
    """Nothing is observed for it."""
    assert outcome_of("kubernetes").learned is None


def test_profiles_say_whether_they_learn() -> None:
    """By the profile, or by one of its scores alone."""
    assert [learns_use(load_profiles().choose(name)) for name in ("windward", "seed")] == [True, False]


def test_peaks_are_predicted_for_a_profile_that_counts_by_class() -> None:
    """After a day the peak of prod is known, and that of batch is not in it."""
    small = world(
        [10.0],
        [(4.0, 3.0, 0, 1_500), (4.0, 2.0, 0, 1_500), *((0.1, 0.1, minute, 2) for minute in range(20, 1_500, 20))],
        minutes=1_500,
        classes=["prod", *["batch"] * 75],
    )
    small.capacity[MEMORY] = small.usage.scale[MEMORY] = 2.0**30
    small.usage.values[MEMORY] = 0.01
    seen: list[Moment] = []
    profile = parse_profile('[[filters]]\nuse = "fits"\nclasses = { share = { cpu = 1.0 } }', "classes")
    simulate(small, ProfilePolicy(profile), observer=seen.append)
    snapshot = seen[-1].snapshot
    assert snapshot.predicted is not None
    peak = Peaks(snapshot.predicted).of(snapshot.roster, snapshot.seen_at)
    assert peak[:, CPU, 0] == pytest.approx([0.3, 0.0], abs=0.02)
    assert simulate_without_classes(small) is None


def simulate_without_classes(small: Workload) -> bytes | None:
    """What a profile without sums by class is told of peaks."""
    seen: list[Moment] = []
    simulate(small, ProfilePolicy(load_profiles().choose("kubernetes")), observer=seen.append)
    return seen[-1].snapshot.predicted


def test_peaks_are_written_every_five_minutes() -> None:
    """As by the scorer that learns."""
    looked: list[bytes | None] = []
    peaks = PredictedPeaks()
    outcome: list[Moment] = []
    policy = ProfilePolicy(load_profiles().choose("kubernetes"))
    simulate(world([10.0], [(1.0, 1.0, at, 9) for at in (0, 4, 8)]), policy, observer=outcome.append)
    for moment in outcome:
        peaks.look(moment.snapshot, moment.ledger, moment.now_s)
        looked.append(peaks.raw)
    assert [looked[1] is looked[0], looked[2] is looked[1]] == [True, False]
