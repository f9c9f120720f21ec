"""Decayed histograms of usage as a share of capacity, many at once. Pure.

Bucket b begins at ``0.001 * (1.05^b - 1) / 0.05``, so each is 5 % wider than the one before; 96 of them reach beyond
twice the capacity, and what is larger is in the last. A sample weighs 1 when it is new and half as much a half-life
later: all weights are multiplied by ``2^(-dt / half-life)`` before one is added.

Reference: Koordinator, pkg/util/histogram (of the autoscaler of Kubernetes), whose buckets are in cores and bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scorer.snapshot.arrays import Bools, Floats, Integers

FIRST, GROWTH, BUCKETS = 0.001, 1.05, 96
STARTS: Floats = FIRST * (np.power(GROWTH, np.arange(BUCKETS + 1, dtype=np.float64)) - 1.0) / (GROWTH - 1.0)
"""[B + 1] Where each bucket begins; the last is where the last one ends."""
LEAST = 1e-4
"""A histogram of less weight counts as empty."""


def bucket_of(shares: Floats) -> Integers:
    """Return the bucket of each share; a share below 0 is in the first.

    >>> bucket_of(np.array([0.0, 0.0005, 0.001, 0.5, 9.0])).tolist()
    [0, 0, 1, 66, 95]
    """
    found: Integers = np.clip(np.searchsorted(STARTS, shares, side="right") - 1, 0, BUCKETS - 1)
    return found


def add(weights: NDArray[np.float32], shares: Floats, elapsed_s: Floats, half_life_s: float) -> None:
    """Add a sample to each of n histograms [B, n], in place; ``elapsed_s`` [n]: since the sample before.

    A histogram whose share is not finite stays as it is.
    """
    known: Bools = np.isfinite(shares)
    weights[:, known] *= np.exp2(-elapsed_s[known] / half_life_s).astype(np.float32)
    weights[bucket_of(shares[known]), np.flatnonzero(known)] += 1.0


def quantile(weights: NDArray[np.float32], q: float) -> Floats:
    """Return [n]: the end of the bucket in which the share q of the weight is reached; NaN for an empty histogram.

    >>> weights = np.zeros((BUCKETS, 1), np.float32)
    >>> add(weights, np.array([0.5]), np.array([0.0]), 3600.0)
    >>> quantile(weights, 0.95).round(3).tolist()
    [0.506]
    """
    total = weights.sum(axis=0, dtype=np.float64)
    reached = np.cumsum(weights, axis=0, dtype=np.float64) >= q * total * (1.0 - 1e-9)
    bucket = np.where(weights > 0, reached, False).argmax(axis=0)
    return np.where(total >= LEAST, STARTS[bucket + 1], np.nan)
