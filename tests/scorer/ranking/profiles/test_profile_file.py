"""Profile files: what is read, what is in effect, and which line and field an error names."""

import pytest

from scorer.commands.placing.profiles import _shown
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.filters.daily_peak import DailyPeak
from scorer.ranking.filters.fits import Fits
from scorer.ranking.filters.fresh import Fresh
from scorer.ranking.filters.masters import Masters
from scorer.ranking.filters.maxmemory import Maxmemory
from scorer.ranking.filters.memory_pressure import MemoryPressure
from scorer.ranking.filters.usage_threshold import UsageThreshold
from scorer.ranking.filters.warming import Warming
from scorer.ranking.profiles.catalogue import built_in_profiles
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.profiles.profile_file import locate, parse_profile
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.ranking.scores.least_allocated import LeastAllocated
from scorer.ranking.scores.load_variation_risk import LoadVariationRisk
from scorer.ranking.scores.low_risk_overcommitment import LowRiskOvercommitment
from scorer.ranking.scores.requested_to_capacity_ratio import RequestedToCapacityRatio
from scorer.ranking.scores.target_load_packing import TargetLoadPacking


def test_a_profile_is_read_with_every_sight_of_its_own():
    profile = parse_profile(GOOD, "mine")
    assert [each.filter.name for each in profile.filters] == ["fresh", "usage_threshold"]
    assert profile.filters[0].load_model is None
    assert (profile.filters[1].load_model.window, profile.filters[1].load_model.credits) == (300, "window")
    variance, risk = profile.scores
    assert (variance.weight, variance.normalise) == (3, "min-max")
    assert risk.load_model.credits == "none"
    assert risk.load_model.estimate == profile.load_model.estimate


def test_a_profile_has_at_most_32_scores():
    one = '[[scores]]\nuse = "least_allocated"\n'
    assert len(parse_profile(one * 32, "many").scores) == 32
    with pytest.raises(ProfileError, match="expected at most 32 scores, got 33"):
        parse_profile(one * 33, "many")


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('"fresh"', '"freash"', 8, "filters[1].use: no filter 'freash'; there are"),
        ('"global_variance"', '"local_variance"', 16, "scores[1].use: no score 'local_variance'; there are"),
        ("weight = 3", "weight = -3", 17, "scores[1].weight: expected a number of zero or more, got -3"),
        ("weight = 3", 'weight = "much"', 17, "scores[1].weight: expected a number, got text"),
        ("cpu = 0.8 }", "cpu = 1.8 }", 12, "filters[2].thresholds.cpu: expected a share from 0 to 1, got 1.8"),
        ("cpu = 0.8 }", "gpu = 0.8 }", 12, "filters[2].thresholds: no resource 'gpu'"),
        ("cpu = 0.85", "cpu = -1", 5, "estimate.factor.cpu: expected a number of zero or more"),
        (
            'use = "fresh"',
            'use = "fresh"\nage_max = 3',
            9,
            "filters[1].age_max: no such setting of fresh; there are ",
        ),
        ('use = "fresh"', 'use = "fresh"\nage_s_max = "old"', 9, "filters[1].age_s_max: expected a number"),
        ('use = "fresh"', "age_s_max = 3", 7, "filters[1]: `use` is missing"),
        ('"longest-covered"', '"longest"', 1, "window: no such choice: 'longest'; there are lengths such as 1h, "),
        ('"longest-covered"', "-5", 1, "window: expected a length in seconds"),
        ('"longest-covered"', '"1y"', 1, "window: no such choice: '1y'"),
        ('credits = "window"', 'credits = "generous"', 2, "credits: no such choice: 'generous'"),
        ('credits = "window"', 'ties = "random"', 2, "ties: no such choice: 'random'; there are name, draw"),
        ('"min-max"', '"minmax"', 18, "scores[1].normalise: no such choice: 'minmax'"),
        ('credits = "window"', "colour = 1", 2, "colour: no such setting; there are description"),
        ('credits = "window"', 'mean_of = "instances"', 2, "mean_of: this setting is gone: a machine's mean is"),
        ('use = "fresh"', 'use = "fresh"\nmean_of = "window"', 9, "filters[1].mean_of: this setting is gone"),
        ('credits = "window"', "stale_s = 0", 2, "stale_s: expected more than 0"),
        ('credits = "window"', "credits = window", None, "line 2"),
        ("{ cpu = 0.8 }", '{ cpu = 0.8, nic = "x" }', 12, "filters[2].thresholds.nic: expected a number, got text"),
        ("{ cpu = 0.8 }", '{}\nstatistic = "p42"', 13, "filters[2].statistic: no such choice: 'p42'; there are mean"),
        ('"min-max"', '"max"', 18, "scores[1].normalise: no such choice: 'max'; there are none, min-max, rank"),
        ('use = "fresh"', 'use = "daily_peak"\ndays = ["x"]', 9, "filters[1].days[1]: no such choice: 'x'; there are"),
        ('use = "fresh"', 'use = "daily_peak"\ndays = []', 9, "filters[1].days: expected at least one"),
    ],
)
def test_an_error_names_file_line_and_field(old, new, line, message):
    with pytest.raises(ProfileError) as caught:
        parse_profile(GOOD.replace(old, new, 1), "mine", "mine.toml")
    text = str(caught.value)
    assert message in text
    assert text.startswith("mine.toml" if line is None else f"mine.toml, line {line}: ")
    assert "\n" not in text


def test_lines_of_inline_and_dotted_keys():
    text = "a = 1\n[b]\nc.d = 2\n[[e]]\nf = 1\n[e.g]\nh = 1\n[[e]]\nf = 2"
    assert [
        locate(text, path) for path in ((), ("a",), ("b", "c"), ("e", 0, "f"), ("e", 0, "g", "h"), ("e", 1, "f"))
    ] == [1, 1, 3, 5, 7, 9]


GOOD = """\
window = "longest-covered"
credits = "window"

[estimate]
factor = { cpu = 0.85 }

[[filters]]
use = "fresh"

[[filters]]
use = "usage_threshold"
thresholds = { cpu = 0.8 }
window = "5m"

[[scores]]
use = "global_variance"
weight = 3
normalise = "min-max"

[[scores]]
use = "load_variation_risk"
credits = "none"
"""


def test_a_profile_that_an_earlier_version_showed_is_read():
    """It stated the objective that alone is left."""
    earlier = GOOD + '[rebalance]\nobjective = "overload"\nrounds_under = 1\n'
    assert parse_profile(earlier, "mine").rebalance.rounds_under == 1


def test_effective_settings_are_complete():
    shown = parse_profile(GOOD, "mine").effective()
    assert shown["filters"][0] == {"use": "fresh", "age_s_max": 60.0, "intervals_max": 3.0}
    assert shown["filters"][1]["window"] == 300
    assert shown["scores"][1]["margin"] == 1.0
    assert shown["scores"][1]["credits"] == "none"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('rule = "often"', "rebalance.rule: no such choice: 'often'; there are overload, thresholds"),
        ('objective = "variance"', "rebalance.objective: this setting is gone"),
        ("moves = 3", "rebalance.moves: no such setting of rebalance; there are rule, gain_min"),
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
def test_a_wrong_value_is_named(lines, message):
    with pytest.raises(ProfileError) as error:
        parse_profile(f"[rebalance]\n{lines}\n", "mine")
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["windward", "koordinator", "seed"])
def test_what_is_shown_is_read_back(name):
    """`windward profiles show` prints the table as it can be written."""
    profile = built_in_profiles()[name]
    assert parse_profile(_shown(profile.effective()), name).rebalance == profile.rebalance


def test_what_is_given_replaces():
    koordinator = built_in_profiles()["koordinator"].rebalance
    assert koordinator.with_given({"moves_max": 3}) == koordinator.with_given({}).with_given({"moves_max": 3})
    assert koordinator.with_given({"moves_max": 3}).high == koordinator.high
    assert koordinator.with_given({"rule": "overload"}).high == {}
    assert koordinator.with_given({"machines_min": 3}).with_given({"rule": "overload"}).machines_min == 0
    given = {"rule": "thresholds", "prod_high": {"cpu": 50.0}, "prod_low": {"cpu": 30.0}}
    assert Rebalancing().with_given(given).prod_high == {"cpu": 50.0}


def test_the_limit_of_an_hour():
    assert Rebalancing().in_hour(100_000) == 500
    assert Rebalancing().in_hour(20) == 10
    assert Rebalancing(hour_max=0).in_hour(20) is None


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (UsageThreshold, {"thresholds": {"cpu": 1.1}}),
        (UsageThreshold, {"thresholds": {"gpu": 0.5}}),
        (UsageThreshold, {"expiration_s": -1}),
        (DailyPeak, {"time_zone": "Mars/Base"}),
        (Fresh, {"age_s_max": 0}),
        (Warming, {"coverage_min": 2}),
        (Maxmemory, {"share": 0}),
        (Masters, {"share": -0.1}),
        (MemoryPressure, {"available_min": 1.5}),
        (Fits, {"default_cpu": -1}),
        (ExpectedOverload, {"limit": 0}),
        (ExpectedOverload, {"limit": 1e300}),
        (ExpectedOverload, {"floor": 0}),
        (ExpectedOverload, {"floor": 1e-30}),
        (ExpectedOverload, {"floor": 1e30}),
        (ExpectedOverload, {"variation": -1}),
        (ExpectedOverload, {"variation_of": "asked"}),
        (ExpectedOverload, {"evenness": float("inf")}),
        (ExpectedOverload, {"weights": {"gpu": 1.0}}),
        (LeastAllocated, {"weights": {"cpu": -1}}),
        (LeastAllocated, {"weights": {"gpu": 1}}),
        (LeastAllocated, {"weights": {}}),
        (LeastAllocated, {"weights": {"cpu": float("nan")}}),
        (LoadVariationRisk, {"margin": -1}),
        (LoadVariationRisk, {"sensitivity": -0.1}),
        (LoadVariationRisk, {"resources": ()}),
        (LowRiskOvercommitment, {"smoothing_window": 0}),
        (LowRiskOvercommitment, {"limit_weights": {"cpu": 2}}),
        (LowRiskOvercommitment, {"limit_weights": {"gpu": 0.5}}),
        (TargetLoadPacking, {"target": 0}),
        (TargetLoadPacking, {"target": 1.1}),
        (RequestedToCapacityRatio, {"shape": ()}),
        (RequestedToCapacityRatio, {"shape": ((50, 1), (20, 2))}),
        (RequestedToCapacityRatio, {"shape": ((0, 11),)}),
        (RequestedToCapacityRatio, {"shape": ((0, 1), (101, 2))}),
        (Estimate, {"factor": {"cpu": -1}}),
        (Estimate, {"default": {"gpu": 1}}),
    ],
)
def test_settings_out_of_range_are_refused(kind, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        kind(**settings)
