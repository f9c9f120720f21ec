"""Expected overload against its formula, reckoned with scipy one machine at a time; its normal tails."""

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ranking.formulas.overload import expected_excess, upper_tail
from scorer.ranking.scores.expected_overload import ExpectedOverload
from tests.effort import examples
from tests.scorer.fleets import fleet, machine, request, score_told, scores


def overload(mean, variance, limit=0.9):
    """Return E[max(0, X - limit)] of a normal load by integration."""
    spread = variance**0.5
    tail = scipy.stats.norm(mean, spread)
    return float((mean - limit) * tail.sf(limit) + variance * tail.pdf(limit))


def growth(load, std, added, **how):
    before = std**2 + how.get("floor", 0.05) ** 2
    after = before + (how.get("variation", 1.0) * added) ** 2
    limit = how.get("limit", 0.9)
    return overload(load + added, after, limit) - overload(load, before, limit)


@pytest.mark.parametrize(
    ("what", "load", "std", "asked", "how"),
    [
        ("far below the limit", 0.2, 0.02, 1.0, {}),
        ("half full and restless", 0.5, 0.2, 1.0, {}),
        ("near the limit", 0.85, 0.05, 1.0, {}),
        ("above the limit", 1.2, 0.1, 1.0, {}),
        ("another limit", 0.6, 0.1, 2.0, {"limit": 0.7}),
        ("a wider floor", 0.6, 0.1, 2.0, {"floor": 0.2}),
        ("an instance that is known well", 0.8, 0.01, 2.0, {"variation": 0.0}),
    ],
)
def test_the_growth_is_that_of_the_formula(what, load, std, asked, how):
    offline = fleet(machine("m", usage={"cpu": {"mean": 10 * load, "std": 10 * std}, "memory": 0}))
    plugin = ExpectedOverload(weights={"cpu": 1.0}, evenness=0.0, **how)
    expected = growth(load, std, asked / 10, **how)
    assert scores(plugin, offline, request(cpu=asked))["m"] == pytest.approx(75 - 25 * expected, abs=1e-4), what
    told = score_told(offline, {"use": "expected_overload", "weights": {"cpu": 1.0}, **how}, request(cpu=asked))["m"]
    assert told["overload"]["cpu"] - told["overload_before"]["cpu"] == pytest.approx(expected, rel=1e-4)
    key = f"chance_above_{100 * how.get('limit', 0.9):.0f}_percent"
    spread = (std**2 + how.get("floor", 0.05) ** 2 + (how.get("variation", 1.0) * asked / 10) ** 2) ** 0.5
    chance = scipy.stats.norm.sf((how.get("limit", 0.9) - load - asked / 10) / spread)
    assert told[key]["cpu"] == pytest.approx(chance, rel=1e-6)


def test_far_from_the_limit_the_even_fleet_is_preferred_and_near_it_the_cool_machine():
    calm = {"cpu": {"mean": 3, "std": 0.1}, "memory": 0}
    busy = {"cpu": {"mean": 5, "std": 0.1}, "memory": 0}
    found = scores(ExpectedOverload(), fleet(machine("calm", usage=calm), machine("busy", usage=busy)), request(cpu=1))
    assert found["calm"] > found["busy"]
    restless = {"cpu": {"mean": 6, "std": 3}, "memory": 0}
    steady = {"cpu": {"mean": 6.5, "std": 0.1}, "memory": 0}
    found = scores(
        ExpectedOverload(), fleet(machine("restless", usage=restless), machine("steady", usage=steady)), request(cpu=1)
    )
    assert found["steady"] > found["restless"]


@pytest.mark.parametrize(
    ("what", "asked", "basis"),
    [
        ("half of what is asked is expected", request(cpu=2), 2.0),
        ("the deployer said what it will use", request(cpu=2, expected={"cpu": 1.0}), 1.0),
    ],
)
def test_the_variation_may_be_of_what_is_requested(what, asked, basis):
    """A factor lowers the mean of what is expected, and not how much one instance may use; what is said is believed."""
    offline = fleet(machine("m", usage={"cpu": {"mean": 7, "std": 1}, "memory": 0}))
    how = {"weights": {"cpu": 1.0}, "evenness": 0.0, "variation": 2.0, "variation_of": "requests"}
    told = score_told(
        offline, {"use": "expected_overload", **how}, asked, estimate={"factor": {"cpu": 0.5}}, credits="none"
    )["m"]
    assert told["raw"] == pytest.approx(75 - 25 * growth(0.7, 0.1, 0.1, variation=2.0 * basis), abs=1e-4), what
    spread = (0.1**2 + 0.05**2 + (0.2 * basis) ** 2) ** 0.5
    assert told["chance_above_90_percent"]["cpu"] == pytest.approx(
        scipy.stats.norm.sf((0.9 - 0.8) / spread), rel=1e-6
    ), what


def test_a_machine_without_data_scores_0_and_a_resource_without_data_counts_nothing():
    offline = fleet(machine("blind"), machine("m", usage={"cpu": 2}), machine("same", usage={"cpu": 2, "memory": 20}))
    found = scores(ExpectedOverload(weights={"cpu": 1.0, "memory": 1.0}), offline, request(cpu=1))
    assert found["blind"] == 0.0
    assert found["m"] == found["same"] > 0


loads = st.floats(0, 1.3)


@settings(max_examples=examples(40, 400), deadline=None)
@given(first=loads, more=st.floats(0, 0.5), std=st.floats(0, 0.4), asked=st.floats(0.01, 5))
def test_more_load_never_scores_better_without_evenness(first, more, std, asked):
    """Of two machines alike but for the load the fuller one has no lesser growth, far out in both tails, too.

    Of an instance with no variation: else more of its own spread counts just at the limit than far above.
    """
    hosts = [
        machine(name, usage={"cpu": {"mean": 10 * load, "std": 10 * std}, "memory": 0})
        for name, load in (("low", first), ("high", first + more))
    ]
    found = scores(
        ExpectedOverload(weights={"cpu": 1.0}, evenness=0.0, variation=0.0), fleet(*hosts), request(cpu=asked)
    )
    assert found["low"] >= found["high"] - 2e-4


def test_an_amount_whose_square_no_number_holds_is_explained():
    """A fuzzed query asked for 10^300 cores and for the reasons; the root raised where it overflows."""
    asked = request(cpu=1e300)
    offline = fleet(machine("m", usage={"cpu": 5, "memory": 0}))
    told = score_told(offline, {"use": "expected_overload", "weights": {"cpu": 1.0}}, asked)["m"]
    assert told["overload_before"]["cpu"] < 1


@pytest.mark.parametrize(
    "how", [{"floor": 1e-15, "variation": 0.0}, {"floor": 1e6}, {"limit": 1e6}, {"limit": 1e-300}, {"std_factor": 1e6}]
)
def test_a_setting_at_its_bound_still_gives_a_number(how):
    """A floor whose square is no number in single precision made no number of the score of every machine."""
    hosts = [machine(name, usage={"cpu": {"mean": load, "std": 2}, "memory": 0}) for name, load in (("a", 1), ("b", 8))]
    found = scores(
        ExpectedOverload(weights={"cpu": 1.0}, **how), fleet(*hosts, machine("idle", usage={"cpu": 0})), request(cpu=1)
    )
    assert all(0 <= score <= 100 for score in found.values())


Z = np.concatenate([np.linspace(-12, 12, 2401), np.geomspace(12, 37, 200)])


def test_the_upper_tail_is_right():
    np.testing.assert_allclose(upper_tail(Z), scipy.special.ndtr(-Z), atol=4e-6)


def test_the_expected_excess_is_right_far_out_and_falls():
    """Its derivative is minus the upper tail: checked by differences near the mean, and far out by its ratio."""
    excess, step = expected_excess(Z), 1e-4
    assert (np.diff(excess) <= 0).all()
    assert (excess >= 0).all()
    near = Z[np.abs(Z) < 3]
    slope = (expected_excess(near + step) - expected_excess(near - step)) / (2 * step)
    np.testing.assert_allclose(-slope, scipy.special.ndtr(-near), atol=1e-4)
    far = Z[Z > 15]
    tail = scipy.special.ndtr(-far)
    np.testing.assert_allclose(expected_excess(far), tail / far * (1 - 2 / far**2), rtol=1e-3)


def test_what_is_not_known_stays_unknown():
    assert np.isnan(expected_excess(np.array([np.nan]))).all()
    assert expected_excess(np.array([np.inf])).tolist() == [0.0]
