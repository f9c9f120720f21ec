"""Tails of the normal distribution against scipy."""

from __future__ import annotations

import numpy as np
import scipy

from scorer.ranking.formulas.overload import expected_excess, upper_tail

Z = np.concatenate([np.linspace(-12, 12, 2401), np.geomspace(12, 37, 200)])


def test_the_upper_tail_is_right() -> None:
    """As scipy has it, within what its table says."""
    np.testing.assert_allclose(upper_tail(Z), scipy.special.ndtr(-Z), atol=4e-6)


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


def test_what_is_not_known_stays_unknown() -> None:
    """NaN in, NaN out; infinities give the limits."""
    assert np.isnan(expected_excess(np.array([np.nan]))).all()
    assert expected_excess(np.array([np.inf])).tolist() == [0.0]
