"""Laws of the moments: merging and pooling are what numpy says of all readings together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streams.fold.moments import merge, pool
from tests.effort import effort
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


@given(a=READINGS, b=READINGS, offset=OFFSETS)
def test_merge_equals_numpy_on_the_concatenation(a: Any, b: Any, offset: float) -> None:
    """Whatever the two sets, also when one or both are empty or far from zero."""
    a, b = a + offset, b + offset
    assert_close(merge(*triple(a), *triple(b)), triple(np.concatenate([a, b])), *sizes(a, b))


@given(a=READINGS, b=READINGS)
def test_merge_is_commutative(a: Any, b: Any) -> None:
    """Which of two sets comes first does not matter."""
    assert_close(merge(*triple(a), *triple(b)), merge(*triple(b), *triple(a)), *sizes(a, b))


@given(a=READINGS, b=READINGS, c=READINGS, offset=OFFSETS)
def test_merge_is_associative(a: Any, b: Any, c: Any, offset: float) -> None:
    """How three sets are grouped does not matter."""
    a, b, c = a + offset, b + offset, c + offset
    left = merge(*merge(*triple(a), *triple(b)), *triple(c))
    right = merge(*triple(a), *merge(*triple(b), *triple(c)))
    assert_close(left, right, *sizes(a, b, c))


@given(a=READINGS)
def test_merge_with_nothing_changes_nothing(a: Any) -> None:
    """The empty set is neutral, to the bit."""
    for got in (merge(*triple(a), *triple([])), merge(*triple([]), *triple(a))):
        for left, right in zip(got, triple(a), strict=True):
            np.testing.assert_array_equal(left, right)


@given(parts=st.lists(READINGS, min_size=1, max_size=8), offset=OFFSETS)
def test_pool_equals_numpy_on_the_concatenation(parts: list[Any], offset: float) -> None:
    """Pooling along an axis is merging all of it, empty cells included."""
    parts = [p + offset for p in parts]
    cells = [triple(p) for p in parts]
    n, mean, m2 = (np.concatenate([cell[i] for cell in cells])[None] for i in range(3))
    assert_close(pool(n, mean, m2), triple(np.concatenate(parts)), *sizes(*parts))


def test_a_thousand_merges_at_1e9_keep_the_spread() -> None:
    """A std of 1 on an offset of 1e9 survives a thousand merges to 1e-6; sums of squares would lose it whole."""
    rng = np.random.default_rng(1)
    readings = rng.normal(0, 1, (1000, 10)) + 1e9
    total = triple([])
    for row in readings:
        total = merge(*total, *triple(row))
    wanted = readings - 1e9
    assert np.sqrt(total[2] / total[0])[0] == pytest.approx(wanted.std(), rel=1e-6)
    naive = float((readings**2).mean() - readings.mean() ** 2)
    assert abs(naive - 1) > 1e-2


@settings(max_examples=effort(30, 300))
@given(order=st.permutations(range(8)))
def test_the_order_of_merging_does_not_matter(order: list[int]) -> None:
    """Eight slots merged in any order give the same mean and std to 1e-12."""
    rng = np.random.default_rng(2)
    parts = [rng.uniform(0, 64, rng.integers(1, 11)) for _ in range(8)]
    total = triple([])
    for index in order:
        total = merge(*total, *triple(parts[index]))
    every = np.concatenate(parts)
    assert total[1][0] == pytest.approx(every.mean(), rel=1e-12)
    assert np.sqrt(total[2] / total[0])[0] == pytest.approx(every.std(), rel=1e-12)
