"""Moments: (n, mean, m2) of any set of readings, and how two sets become one.

m2 is the sum of squared distances from the mean. Merging (Chan, Golub and LeVeque 1979) adds no cancellation, so the
result stays exact to rounding however large the mean is against the spread. Nothing here subtracts an old sample.
Running sums with subtraction drift and go negative (a std of 1600 for a true 10 after one burst).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def merge(n_a: Float, mean_a: Float, m2_a: Float, n_b: Float, mean_b: Float, m2_b: Float) -> tuple[Float, Float, Float]:
    """Return the moments of the union of two sets; arrays of any one shape, an empty set has n = 0 and mean 0.

    n = n_a + n_b,  d = mean_b - mean_a,  mean = mean_a + d n_b / n,  m2 = m2_a + m2_b + d² n_a n_b / n
    """
    n = n_a + n_b
    share = np.divide(n_b, n, out=np.zeros_like(n), where=n > 0)
    distance = mean_b - mean_a
    return n, mean_a + distance * share, m2_a + m2_b + distance * distance * n_a * share


def pool(n: Float, mean: Float, m2: NDArray[np.floating[Any]]) -> tuple[Float, Float, Float]:
    """Return the moments of the union along the last axis, two-pass; empty cells hold n = 0 and m2 = 0.

    mean = sum(n mean_i) / sum(n),  m2 = sum(m2_i + n_i (mean_i - mean)²)
    """
    total = n.sum(axis=-1)
    # The first filled mean is taken out before summing, so that a large common offset costs no digits.
    first = np.take_along_axis(mean, np.argmax(n > 0, axis=-1)[..., None], axis=-1)
    distance = mean - first
    shift = np.divide((n * distance).sum(axis=-1), total, out=np.zeros_like(total), where=total > 0)
    distance -= shift[..., None]
    distance *= distance
    distance *= n
    distance += m2
    pooled = np.where(total > 0, first[..., 0] + shift, 0.0)
    return total, pooled, np.where(total > 0, distance.sum(axis=-1), 0.0)
