"""What the lab learns in simulated time: the factor between asked and used, for profiles that go by it."""

from __future__ import annotations

import pytest

from ops.replay.lessons import wants_lessons
from ops.replay.policies import ProfilePolicy
from ops.replay.simulation import Outcome, simulate
from scorer.ranking.catalogue import load_profiles
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
    assert [wants_lessons(load_profiles().choose(name)) for name in ("windward", "seed")] == [True, False]
