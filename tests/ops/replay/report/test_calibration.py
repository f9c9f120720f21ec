"""Stated chances compared with observed shares."""

from __future__ import annotations

import numpy as np
import pytest

from ops.replay.play.policies import ProfilePolicy
from ops.replay.play.simulation import simulate
from ops.replay.report.calibration import Bin, Chances, reliability
from scorer.ranking.profiles.profile_file import parse_profile
from tests.ops.replay.small_worlds import world

PROFILE = """
[[filters]]
use = "fits"

[[scores]]
use = "expected_overload"
"""


def test_a_right_forecaster_is_right() -> None:
    """Chances that come true as often as stated: every bin agrees, and the skill is that of their spread."""
    generator = np.random.default_rng(1)
    stated = generator.random(40_000)
    observed = (generator.random(40_000) < stated).astype(float)
    found = reliability(stated, observed)
    assert all(one.right for one in found.bins if one.right is not None)
    assert found.skill == pytest.approx(1 - (1 / 6) / (1 / 4), abs=0.02)


def test_a_forecaster_that_exaggerates_is_told() -> None:
    """Half of what is stated comes true."""
    stated = np.full(1_000, 0.6)
    observed = np.repeat([0.0, 0.3], [0, 1_000])
    found = reliability(stated, observed)
    assert [one.right for one in found.bins] == [False]
    assert found.skill < 0


@pytest.mark.parametrize("observed", [[], [0.0, 0.0], [1.0]])
def test_without_both_outcomes_there_is_no_skill(observed: list[float]) -> None:
    """The base rate is right by itself."""
    assert np.isnan(reliability(np.full(len(observed), 0.5), np.array(observed)).skill)


@pytest.mark.parametrize(
    ("one", "right"),
    [
        (Bin(0.1, 0.2, 499, 0.15, 0.9), None),
        (Bin(0.01, 0.05, 5_000, 0.03, 0.9), None),
        (Bin(0.05, 0.1, 500, 0.06, 0.079), True),
        (Bin(0.4, 0.5, 500, 0.45, 0.53), True),
        (Bin(0.4, 0.5, 500, 0.45, 0.55), False),
    ],
    ids=["few cases", "small chance", "within two points", "within a fifth", "beyond both"],
)
def test_which_bins_are_right(one: Bin, right: bool | None) -> None:
    """Within two points or a fifth, where there are enough cases above 5 %."""
    assert one.right is right


def test_a_machine_that_is_full_is_said_to_be() -> None:
    """One machine at its cores and one idle: the chances stated are near 1 and near 0, and both come true."""
    profile = parse_profile(PROFILE, "overload")
    small = world([10.0, 10.0], [(5.0, 10.0, 0, 240), (0.1, 0.0, 60, 180), (0.1, 0.0, 120, 120), (0.1, 0.0, 180, 60)])
    chances, policy = Chances(profile), ProfilePolicy(profile)
    stated = chances.of(policy)
    assert stated is not None
    chances.take(stated, simulate(small, policy, observer=stated))
    found = chances.found()
    assert {round(one.observed) for one in found.bins} == {0, 1}
    assert found.skill > 0.9


def test_a_profile_without_the_score_is_refused() -> None:
    """There is nothing to draw."""
    with pytest.raises(ValueError, match="does not use expected_overload"):
        Chances(parse_profile("", "plain"))
