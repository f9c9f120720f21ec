"""Tails of the normal distribution against scipy; the growth of overload against the formula in double precision."""

from __future__ import annotations

import numpy as np
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ranking.formulas.overload import (
    EXCESS_SCALE,
    expected_excess,
    expected_excess_of,
    fixed_spread,
    known_before,
    scaled_excess,
    upper_tail_of,
    weighted_growth,
)
from scorer.ranking.formulas.variance import Added
from scorer.snapshot.arrays import Floats
from tests.effort import examples

LIMIT = 0.9
Z = np.concatenate([np.linspace(-12, 12, 2401), np.geomspace(12, 37, 200)])


def overload(load: Floats, variance: Floats) -> Floats:
    """Return the expected part above the limit."""
    spread = np.sqrt(variance)
    exact = np.vectorize(expected_excess_of)
    found: Floats = spread * exact((LIMIT - load) / spread)
    return found


@settings(max_examples=examples(60, 600), deadline=None)
@given(seed=st.integers(0, 2**31), resources=st.integers(1, 4), variation=st.sampled_from([0.0, 0.3, 1.0, 2.5]))
def test_the_growth_is_right_to_less_than_a_millionth_of_the_capacity(
    seed: int, resources: int, variation: float
) -> None:
    """For idle, full and overloaded machines, small and large instances, equal weights and others."""
    draw = np.random.default_rng(seed)
    load = draw.uniform(0, 1.5, (resources, 30))
    variance = draw.uniform(0.01, 0.5, load.shape) ** 2
    inverse = 1.0 / draw.integers(8, 129, load.shape)
    asked = [(float(weight), float(amount)) for weight, amount in draw.uniform(0.1, 4.0, (resources, 2)).round(1)]
    fixed = fixed_spread(variance, inverse)
    before = known_before(load, fixed, LIMIT)
    found = weighted_growth(before, fixed, [Added(0, weight, each, variation * each) for weight, each in asked])
    added = inverse * np.array([[amount] for _, amount in asked])
    growth = overload(load + added, variance + (variation * added) ** 2) - overload(load, variance)
    weights = np.array([weight for weight, _ in asked])
    np.testing.assert_allclose(found, weights @ growth, atol=4e-7 * weights.sum())


def test_a_machine_has_the_same_growth_whichever_others_there_are() -> None:
    """To the last digit, or ties would be broken by the size of the fleet."""
    draw = np.random.default_rng(1)
    load, fixed = draw.uniform(0, 1, (3, 101)), fixed_spread(*draw.uniform(0.01, 0.1, (2, 3, 101)))
    before = known_before(load, fixed, LIMIT)
    asked = [Added(0, 0.2, 1.0, 2.5), Added(1, 0.3, 2.0, 5.0), Added(2, 0.5, 0.5, 0.1)]
    together = weighted_growth(before, fixed, asked)
    for row in range(101):
        alone = fixed[:, :, row : row + 1]
        assert (before[:, :, row] == known_before(load[:, row : row + 1], alone, LIMIT)[:, :, 0]).all()
        assert weighted_growth(before[:, :, row : row + 1], alone, asked)[0] == together[row]


def test_the_upper_tail_is_right_far_out() -> None:
    """37 deviations out as at the mean, where a difference from 1 is 0 beyond 8."""
    np.testing.assert_allclose([upper_tail_of(z) for z in Z.tolist()], scipy.special.ndtr(-Z), rtol=1e-12)


def test_the_expected_excess_is_right_far_out_and_falls() -> None:
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


def test_one_number_is_as_one_of_an_array() -> None:
    """By another way: the error function of the C library."""
    np.testing.assert_allclose([expected_excess_of(z) for z in Z.tolist()], expected_excess(Z), rtol=5e-6)
    assert expected_excess_of(1e4) == 0.0


def test_the_excess_in_single_precision_is_near_the_exact_one_and_ends_at_0() -> None:
    """Within 1e-7, right to a tenth up to 9 deviations out, and in the end 0."""
    found = scaled_excess((Z * EXCESS_SCALE).astype(np.float32)) / (2 * EXCESS_SCALE)
    exact = np.array([expected_excess_of(z) for z in Z.tolist()])
    np.testing.assert_allclose(found, exact, atol=1e-7, rtol=2e-7)
    far = (Z > 3) & (Z < 9)
    np.testing.assert_allclose(found[far], exact[far], rtol=0.1)
    assert scaled_excess(np.array([1e3, 1e6, 1e18], np.float32)).tolist() == [0.0, 0.0, 0.0]


def test_what_is_not_known_stays_unknown() -> None:
    """NaN in, NaN out; infinities give the limits."""
    assert np.isnan(expected_excess(np.array([np.nan]))).all()
    assert expected_excess(np.array([np.inf])).tolist() == [0.0]
