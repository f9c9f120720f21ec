"""The growth of the expected overload in single precision, against the formula in double precision."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ranking.formulas.normal import expected_excess_of
from scorer.ranking.formulas.overload import fixed_spread, known_before, weighted_growth
from scorer.snapshot.arrays import Floats
from tests.effort import effort

LIMIT = 0.9


def overload(load: Floats, variance: Floats) -> Floats:
    """Return the expected part above the limit."""
    spread = np.sqrt(variance)
    exact = np.vectorize(expected_excess_of)
    found: Floats = spread * exact((LIMIT - load) / spread)
    return found


@settings(max_examples=effort(60, 600), deadline=None)
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
    found = weighted_growth(before, fixed, [(weight, each, variation * each) for weight, each in asked])
    added = inverse * np.array([[amount] for _, amount in asked])
    growth = overload(load + added, variance + (variation * added) ** 2) - overload(load, variance)
    weights = np.array([weight for weight, _ in asked])
    np.testing.assert_allclose(found, weights @ growth, atol=4e-7 * weights.sum())


def test_a_machine_has_the_same_growth_whichever_others_there_are() -> None:
    """To the last digit, or ties would be broken by the size of the fleet."""
    draw = np.random.default_rng(1)
    load, fixed = draw.uniform(0, 1, (3, 101)), fixed_spread(*draw.uniform(0.01, 0.1, (2, 3, 101)))
    before = known_before(load, fixed, LIMIT)
    asked = [(0.2, 1.0, 2.5), (0.3, 2.0, 5.0), (0.5, 0.5, 0.1)]
    together = weighted_growth(before, fixed, asked)
    for row in range(101):
        alone = fixed[:, :, row : row + 1]
        assert (before[:, :, row] == known_before(load[:, row : row + 1], alone, LIMIT)[:, :, 0]).all()
        assert weighted_growth(before[:, :, row : row + 1], alone, asked)[0] == together[row]
