"""Tails and expected excess of the normal distribution against scipy, near the mean and far out."""

from __future__ import annotations

import numpy as np
from scipy import special

from scorer.ranking.formulas.normal import (
    EXCESS_SCALE,
    expected_excess,
    expected_excess_of,
    mills_ratio,
    scaled_excess,
    upper_tail_of,
)

Z = np.concatenate([np.linspace(-12, 12, 2401), np.geomspace(12, 37, 200)])


def test_the_upper_tail_is_right_far_out() -> None:
    """37 deviations out as at the mean, where a difference from 1 is 0 beyond 8; its ratio to the density likewise."""
    np.testing.assert_allclose([upper_tail_of(z) for z in Z.tolist()], special.ndtr(-Z), rtol=1e-12)
    above = Z[Z >= 0]
    density = np.exp(-0.5 * above**2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(mills_ratio(above), special.ndtr(-above) / density, rtol=3e-9)
    np.testing.assert_allclose(mills_ratio(np.array([1e3])), [1e-3], rtol=1e-5)


def test_the_expected_excess_is_right_far_out_and_falls() -> None:
    """Its derivative is minus the upper tail: checked by differences near the mean, and far out by its ratio."""
    excess, step = expected_excess(Z), 1e-4
    assert (np.diff(excess) <= 0).all()
    assert (excess >= 0).all()
    near = Z[np.abs(Z) < 3]
    slope = (expected_excess(near + step) - expected_excess(near - step)) / (2 * step)
    np.testing.assert_allclose(-slope, special.ndtr(-near), atol=1e-4)
    far = Z[Z > 15]
    tail = special.ndtr(-far)
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
