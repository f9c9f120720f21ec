"""Moments: (n, mean, m2) of a set of readings, and of the union of several sets.

m2 is the sum of squared distances from the mean. The union is computed from sums about one of the means, the shift:

    d_i = mean_i - shift,   first = sum(n_i d_i),   second = sum(m2_i + n_i d_i²)
    mean = shift + first / n,   m2 = second - first² / n

The sums add up, so nested windows share them. The subtraction is harmless where the shift is a mean of the set itself:
m2 is then at least ``n_s (shift - mean)²`` (n_s: readings of that member), so its relative error is at most n / n_s
roundings. Sums about another number lose the spread: on an offset of 1e9 all of it.

Chosen over merging segment by segment (Chan, Golub and LeVeque 1979): as exact, and half the calls of numpy. Nothing
here subtracts an old sample. Running sums with subtraction drift and go negative (a std of 1600 for a true 10 after one
burst).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]


def about(shift: Float, n: Float, mean: Float, m2: NDArray[np.floating[Any]]) -> tuple[Float, Float]:
    """Return the terms of ``first`` and ``second``; arrays of one shape, an empty set has n = 0 and m2 = 0."""
    distance = mean - shift
    first = n * distance
    distance *= first
    distance += m2
    return first, distance


def pool(shift: Float, n: Float, first: Float, second: Float) -> tuple[Float, Float]:
    """Return mean and m2 of the union from the sums about ``shift``, a mean of the set; NaN and 0 where n = 0.

    >>> n, mean, m2 = np.array([2.0, 2.0]), np.array([1.0, 3.0]), np.array([0.0, 8.0])  # readings 1 1, 1 5
    >>> terms = about(mean[:1], n, mean, m2)
    >>> [float(one) for one in pool(mean[0], n.sum(), terms[0].sum(), terms[1].sum())]
    [2.0, 12.0]
    """
    offset = np.divide(first, n, out=np.full_like(n, np.nan), where=n > 0)
    return shift + offset, np.maximum(second - np.where(n > 0, first * offset, 0.0), 0.0)
