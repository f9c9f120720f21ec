"""Laws of the moments: those of a union are what numpy says of all readings together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streams.fold.moments import about, pool
from tests.effort import examples
from tests.streams.batches import moments_of

READINGS = hnp.arrays(
    np.float64, st.integers(0, 12), elements=st.floats(-1e6, 1e6, allow_nan=False, allow_subnormal=False)
)
OFFSETS = st.sampled_from([0.0, 1.0, 1e9, 2.0**36])


def triple(readings: Any) -> tuple[Any, Any, Any]:
    """The moments of readings as arrays of one; an empty set is all zero."""
    n, mean, m2, _ = moments_of(readings) if len(readings) else (0, 0.0, 0.0, 0.0)
    return np.array([float(n)]), np.array([mean]), np.array([m2])


def assert_close(got: tuple[Any, ...], wanted: tuple[Any, ...], scale: float, size: float) -> None:
    """Counts are equal; mean and m2 agree to rounding at the size of the numbers.

    ``size`` is the largest absolute reading, ``scale`` the largest distance from the mean.
    """
    np.testing.assert_array_equal(got[0], wanted[0])
    n = float(got[0][0])
    np.testing.assert_allclose(got[1], wanted[1], rtol=0, atol=8e-15 * size + 1e-300)
    # A mean off by one rounding, e, shifts m2 by about 2 n scale e.
    atol = n * 1e-14 * (scale * size + 1e-14 * size * size) + 1e-300
    np.testing.assert_allclose(got[2], wanted[2], rtol=1e-12, atol=atol)


def sizes(*parts: Any) -> tuple[float, float]:
    """Spread and size of all readings together."""
    every = np.concatenate([np.asarray(p) for p in parts])
    if not len(every):
        return 0.0, 0.0
    return float(np.ptp(every)), float(np.abs(every).max())


def pooled(cells: Sequence[tuple[Any, ...]], shift: float | None = None) -> tuple[Any, Any, Any]:
    """The moments of the union of these sets, about the first that is not empty, or about ``shift``."""
    n, mean, m2 = (np.concatenate([cell[i] for cell in cells]) for i in range(3))
    about_one = np.array(mean[np.argmax(n > 0)] if shift is None else shift)
    first, second = about(about_one, n, mean, m2)
    count = np.array([n.sum()])
    return count, *pool(about_one, count, first.sum(keepdims=True), second.sum(keepdims=True))


@given(parts=st.lists(READINGS, min_size=1, max_size=8), offset=OFFSETS)
def test_pool_equals_numpy_on_the_concatenation(parts: list[Any], offset: float) -> None:
    """Whatever the sets, also when some are empty or far from zero; of nothing the mean is NaN."""
    parts = [part + offset for part in parts]
    got, every = pooled([triple(part) for part in parts]), np.concatenate(parts)
    if len(every):
        assert_close(got, triple(every), *sizes(*parts))
    else:
        assert got[0][0] == got[2][0] == 0
        assert np.isnan(got[1][0])


@given(parts=st.lists(READINGS.filter(len), min_size=1, max_size=8), offset=OFFSETS, seed=st.integers(0, 7))
def test_the_result_is_the_same_about_any_of_the_means(parts: list[Any], offset: float, seed: int) -> None:
    """Which set's mean the sums are about does not matter."""
    cells = [triple(part + offset) for part in parts]
    chosen = float(cells[seed % len(cells)][1][0])
    assert_close(pooled(cells, chosen), pooled(cells), *sizes(*[part + offset for part in parts]))


def test_a_spread_of_1_at_1e9_is_kept_by_a_mean_of_the_set_alone() -> None:
    """Of a thousand sets to 1e-9; sums about zero lose it whole."""
    readings = np.random.default_rng(1).normal(0, 1, (1000, 10)) + 1e9
    cells = [triple(row) for row in readings]
    wanted = (readings - 1e9).std()
    count, _, m2 = pooled(cells)
    assert np.sqrt(m2 / count)[0] == pytest.approx(wanted, rel=1e-9)
    count, _, m2 = pooled(cells, 0.0)
    assert np.sqrt(m2 / count)[0] != pytest.approx(wanted, rel=1e-2)


def test_an_outlier_as_the_first_costs_no_digits() -> None:
    """The spread of 100 alike sets and one far from them is exact about that one too."""
    readings = np.array([[1e12] * 2, *[[5.0, 6.0]] * 100])
    count, mean, m2 = pooled([triple(row) for row in readings])
    assert mean[0] == pytest.approx(readings.mean(), rel=1e-14)
    assert m2[0] / count[0] == pytest.approx(readings.var(), rel=1e-12)


@settings(max_examples=examples(30, 300))
@given(order=st.permutations(range(8)))
def test_the_order_of_the_sets_does_not_matter(order: list[int]) -> None:
    """Eight slots in any order give the same mean and std to 1e-12."""
    rng = np.random.default_rng(2)
    parts = [rng.uniform(0, 64, rng.integers(1, 11)) for _ in range(8)]
    total = pooled([triple(parts[index]) for index in order])
    every = np.concatenate(parts)
    assert total[1][0] == pytest.approx(every.mean(), rel=1e-12)
    assert np.sqrt(total[2] / total[0])[0] == pytest.approx(every.std(), rel=1e-12)
