"""The table ``[rebalance]`` of a profile: what is read, what is refused, what a flag replaces."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.commands.placing.profiles import _shown
from scorer.ranking.profiles.catalogue import built_in_profiles
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.profiles.profile_file import parse_profile
from scorer.ranking.profiles.rebalance_section import Rebalancing
from tests.rows import each_row


@each_row(
    ("lines", "message"),
    [
        ('rule = "often"', "rebalance.rule: no such choice: 'often'; there are overload, thresholds"),
        ("moves = 3", "rebalance.moves: no such setting of rebalance; there are rule, objective"),
        ("moves_max = 0", "rebalance.moves_max: expected a whole number from 1 to 10000, got 0"),
        ("rounds_under = -1", "rebalance.rounds_under: expected a whole number from 0"),
        ("machines_min = -1", "rebalance.machines_min: expected a whole number from 0 to 10000, got -1"),
        ("machines_min = 1", 'rebalance.machines_min: it is of rule "thresholds"'),
        ("instances_full = 0", "rebalance.instances_full: expected a whole number from 1 to 10000, got 0"),
        ("weights = { gpu = 1 }", "rebalance.weights: no resource 'gpu'; there are cpu, memory, nic, disk"),
        ("weights = { cpu = -1 }", "rebalance.weights.cpu: expected a whole number from 0 to 10000, got -1"),
        ("weights = { cpu = 0.5 }", "rebalance.weights.cpu: expected a whole number, got a number"),
        ("high = { instances = 9 }", "rebalance.high: no resource 'instances'; there are cpu, memory, nic, disk"),
        ("hour_max = 1.5", "rebalance.hour_max: expected a share from 0 to 1, got 1.5"),
        ("gain_min = nan", "rebalance.gain_min: expected a share from 0 to 1, got nan"),
        ("nic_share = 0.0", "rebalance.nic_share: expected a share above 0"),
        ("rest_s = inf", "rebalance.rest_s: expected from 0 to"),
        ('classes = ["gold"]', "rebalance.classes: no class 'gold'; there are prod"),
        ('same = [""]', "rebalance.same: expected names of labels, got an empty one"),
        ("high = { gpu = 3 }", "rebalance.high: no resource 'gpu'"),
        ("high = { cpu = 0.65 }", "rebalance.high.cpu: expected per cent, got 0.65; for a share of 0.65 write 65"),
        ("high = { cpu = 300 }", "rebalance.high.cpu: expected a percentage from 0 to 100, got 300"),
        ("high = { cpu = 30 }\nlow = { cpu = 40 }", "rebalance.low.cpu: expected at most 30, its high, got 40"),
        ('rule = "thresholds"', 'rebalance.high: rule "thresholds" needs high and low'),
        ('rule = "thresholds"\nhigh = { cpu = 3 }', "rebalance.high: high and low name the same resources"),
        ("prod_low = { cpu = 3 }", "rebalance.prod_high: prod_high and prod_low are of rule"),
    ],
)
def test_a_wrong_value_is_named(lines: str, message: str) -> None:
    """The error has the field, its value and what is expected."""
    with pytest.raises(ProfileError) as error:
        parse_profile(f"[rebalance]\n{lines}\n", "mine")
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["windward", "koordinator", "seed"])
def test_what_is_shown_is_read_back(name: str) -> None:
    """`windward profiles show` prints the table as it can be written."""
    profile = built_in_profiles()[name]
    assert parse_profile(_shown(profile.effective()), name).rebalance == profile.rebalance


def test_what_is_given_replaces() -> None:
    """One setting at a time; another rule does not keep the thresholds of the rule before."""
    koordinator = built_in_profiles()["koordinator"].rebalance
    assert koordinator.with_given({"moves_max": 3}) == koordinator.with_given({}).with_given({"moves_max": 3})
    assert koordinator.with_given({"moves_max": 3}).high == koordinator.high
    assert koordinator.with_given({"rule": "overload"}).high == {}
    assert koordinator.with_given({"machines_min": 3}).with_given({"rule": "overload"}).machines_min == 0
    given: dict[str, Any] = {"rule": "thresholds", "prod_high": {"cpu": 50.0}, "prod_low": {"cpu": 30.0}}
    assert Rebalancing().with_given(given).prod_high == {"cpu": 50.0}


def test_the_limit_of_an_hour() -> None:
    """A part of the instances, ten in a small fleet, none at 0."""
    assert Rebalancing().in_hour(100_000) == 500
    assert Rebalancing().in_hour(20) == 10
    assert Rebalancing(hour_max=0).in_hour(20) is None
