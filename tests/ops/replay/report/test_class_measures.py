"""Figures by class, checked by hand; the core-minutes of a world with evictions are in test_evictions."""

from __future__ import annotations

import pytest

from ops.replay.play.policies import ProfilePolicy
from ops.replay.play.simulation import simulate
from ops.replay.report.class_measures import class_figures, overlap
from ops.replay.report.class_report import FORMATS
from ops.replay.report.measures import measure
from scorer.ranking.profiles.catalogue import load_profiles
from tests.ops.replay.small_worlds import world

INSTANCES = [(5.0, 6.0, 0, 120), (5.0, 6.0, 0, 60)]


def figures(classes: list[str], cores: float = 10.0) -> dict[str, float]:
    """Of prod and batch on one machine for two hours, of which the second is prod's alone."""
    small = world([cores], INSTANCES, minutes=120, classes=classes)
    outcome = simulate(small, ProfilePolicy(load_profiles(()).choose("kubernetes")))
    return dict(class_figures(outcome, 0, 120))


def test_what_prod_loses_on_a_hot_machine() -> None:
    """Twelve cores are asked of ten for an hour: in equal parts prod lacks a sixth of its six, by weight nothing."""
    found = figures(["prod", "batch"])
    assert found.keys() == FORMATS.keys() - {"mean"}  # all are shown
    assert found["hot90_prod"] == found["on_hot_prod"] == 0.5
    assert found["hot90_alone"] == found["lost_yielding"] == 0.0
    assert found["lost_prod"] == pytest.approx((6 - 5) * 60 / (6 * 120))


def test_a_machine_that_prod_makes_hot() -> None:
    """Both are prod's: nobody yields."""
    found = figures(["batch", "prod"], cores=10.0)
    assert found["hot90_prod"] == 0.5
    assert figures(["free", "prod"]) == found


def test_a_world_of_prod_alone_has_none() -> None:
    """The figures of such a world are as ever."""
    assert figures(["prod", "mid"]) == {}
    small = world([10.0], INSTANCES, minutes=120)
    assert "hosted" not in measure(simulate(small, ProfilePolicy(load_profiles(()).choose("kubernetes"))))["steady"]


def test_a_first_try_that_was_the_last_is_a_refusal() -> None:
    """An instance that asks shortly before the end asks once."""
    small = world(
        [10.0],
        [(8.0, 1.0, 0, 120), (8.0, 1.0, 118, 9), (1.0, 1.0, 0, 9)],
        minutes=120,
        classes=["prod", "prod", "batch"],
    )
    outcome = simulate(small, ProfilePolicy(load_profiles(()).choose("kubernetes")))
    assert outcome.tries.tolist() == [1, 1, 1]
    assert class_figures(outcome, 0, 120)["refused_prod"] == 0.5


def test_two_stretches_have_minutes_in_common() -> None:
    """None where one ends before the other begins."""
    assert [int(overlap(first, last, 10, 20)) for first, last in ((0, 10), (5, 15), (12, 14), (25, 30))] == [0, 5, 2, 0]
