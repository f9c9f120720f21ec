"""Noise without state: a value is a hash of (seed, stream, machine, time), so it can be computed in any order.

So a fleet that is restarted, or has one more machine, has the same values. The hash is SplitMix64's finalizer (Steele,
Lea and Flood 2014).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Unsigned = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(value: Unsigned) -> Unsigned:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


class Noise:
    """The noise of some machines. ``rows`` [M] numbers them; results have the machine as last axis."""

    def __init__(self, seed: int, rows: NDArray[np.int64]) -> None:
        start = _mix(np.asarray([seed % 2**64], np.uint64) + _GOLDEN)
        self._keys = _mix(start + (rows.astype(np.uint64) + np.uint64(1)) * _GOLDEN)

    def _hash(self, stream: int, count: NDArray[Any]) -> Unsigned:
        """Return the hash of one stream at whole numbers ``count``, broadcast against [M]."""
        stream_key = np.uint64((stream * 0xD1342543DE82EF95) % 2**64)
        return _mix(_mix(self._keys + stream_key) + count.astype(np.int64).astype(np.uint64) * _GOLDEN)

    def uniform(self, stream: int, count: NDArray[Any] | int = 0) -> Float:
        """Return uniform values in [0, 1)."""
        return (self._hash(stream, np.asarray(count)) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def normal(self, stream: int, count: NDArray[Any]) -> Float:
        """Return roughly normal values (a sum of four uniform ones) of mean 0 and standard deviation 1, within ±3.5."""
        bits = self._hash(stream, count)
        low = np.uint64(0xFFFF)
        total = (
            (bits & low) + ((bits >> np.uint64(16)) & low) + ((bits >> np.uint64(32)) & low) + (bits >> np.uint64(48))
        )
        centred: Float = total.astype(np.float64) / 65_536 - 2 + 2 / 65_536
        return centred * math.sqrt(3)

    def smooth(self, stream: int, times_s: Float, period_s: float) -> Float:
        """Return noise of mean 0 and standard deviation about 1 that takes ``period_s`` to change."""
        position = times_s / period_s
        before = np.floor(position)
        share = position - before
        share *= share * (3 - 2 * share)
        left, right = self.normal(stream, before), self.normal(stream, before + 1)
        mixed: Float = (left * (1 - share) + right * share) / np.sqrt((1 - share) ** 2 + share**2)
        return mixed
