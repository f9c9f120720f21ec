"""What a move costs: the memory of the instance is copied over the NICs of both machines."""

from __future__ import annotations

import numpy as np

from scorer.ranking.rounding import known_or
from scorer.snapshot.arrays import Floats

UNKNOWN_NIC = 125e6
"""Bytes/s of a NIC whose speed is not known: 1 Gbit/s."""


def copy_rates(nic: Floats, share: float) -> Floats:
    """Return [M] the bytes/s that a copy may take of each machine's NIC, ``nic`` [M] being what it can carry.

    >>> copy_rates(np.array([1.25e9, np.nan]), 0.5).tolist()
    [625000000.0, 62500000.0]
    """
    found: Floats = np.where(known_or(nic, 0.0) > 0, known_or(nic, 0.0), UNKNOWN_NIC) * share
    return found


def copy_seconds(memory_bytes: float, source: float, target: float) -> float:
    """Return how long a copy takes at the slower of two rates; both machines are busy with it for so long.

    >>> copy_seconds(12.5e9, 625e6, 62.5e6)
    200.0
    """
    return memory_bytes / min(source, target)
