"""The cost of a move: the memory of the instance is copied over the NICs of both machines.

Until the copy is done both machines carry the instance and the copying: `COPY_CORES`, and the bytes on the NIC. The
load is assumed to last for `LASTS_S`. Over that time the mean effect of a move is its gain less

    cost = t / LASTS_S * (cut + rise of the source + rise of the target),   t: seconds of the copy, LASTS_S at most

in machines of mean size. During the copy the source keeps the load that the move removes (``cut``), and the
copying adds the two rises: to the source as it is, and to the target with the instance.
"""

import numpy as np

from scorer.snapshot.arrays import Floats, known_or

UNKNOWN_NIC = 125e6
"""Bytes/s of a NIC whose speed is not known: 1 Gbit/s."""
UNKNOWN_MEMORY = 4 * 2.0**30
"""Bytes for each core that an instance asks for, when its memory is unknown."""
COPY_CORES = 1.0
"""Cores that the copying takes on each of both machines."""
LASTS_S = 1800.0
"""How long a gain lasts, s: the expected overload is calibrated for the next half hour (docs/results/tuning.md)."""


def copy_rates(nic: Floats, share: float, unknown: float = UNKNOWN_NIC) -> Floats:
    """Return [M] the rate of a copy on each machine's NIC, bytes/s; ``nic`` [M]: the capacities.

    >>> copy_rates(np.array([1.25e9, np.nan]), 0.5).tolist()
    [625000000.0, 62500000.0]
    """
    found: Floats = np.where(known_or(nic, 0.0) > 0, known_or(nic, 0.0), unknown) * share
    return found


def copy_seconds(memory_bytes: float, source: float, target: Floats) -> Floats:
    """Return the seconds that a copy takes at the slower of two rates; both machines are busy meanwhile.

    >>> float(copy_seconds(12.5e9, 625e6, np.float64(62.5e6)))
    200.0
    """
    found: Floats = memory_bytes / np.minimum(source, target)
    return found


def memory_of(usage: Floats, cores: Floats) -> Floats:
    """Return [N] the bytes that a move copies: the memory used, or `UNKNOWN_MEMORY` for each requested core.

    >>> memory_of(np.array([1e9, 0.0, np.nan]), np.array([2.0, 2.0, 0.5])).tolist()
    [1000000000.0, 8589934592.0, 2147483648.0]
    """
    known = known_or(usage, 0.0)
    found: Floats = np.where(known > 0, known, UNKNOWN_MEMORY * cores)
    return found


def part_of_gain(seconds: Floats) -> Floats:
    """Return [n] the part of `LASTS_S` that copies of these durations take, at most 1.

    >>> part_of_gain(np.array([0.0, 450.0, 1e9])).tolist()
    [0.0, 0.25, 1.0]
    """
    found: Floats = np.minimum(seconds / LASTS_S, 1.0)
    return found
