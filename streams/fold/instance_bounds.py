"""Bounds on the pairs of machine and instance: when there are too many the longest silent are dropped. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]


def within_bounds(machines: Rows, at: NDArray[np.floating[Any]], pairs_max: int, machine_pairs_max: int) -> Rows:
    """Return the rows that stay, ascending; all of them while no bound is exceeded.

    ``machines`` [K]: the number of each row's machine; ``at`` [K]: end of its last report. First a machine's own pairs
    are reduced to nine tenths of ``machine_pairs_max``, then all pairs to nine tenths of ``pairs_max``.

    >>> within_bounds(np.array([0, 1, 1, 1]), np.array([9.0, 5.0, 7.0, 6.0]), 10, 2).tolist()
    [0, 2]
    """
    rows = np.arange(len(machines))
    counts = np.bincount(machines, minlength=1)
    if len(rows) <= pairs_max and counts.max() <= machine_pairs_max:
        return rows
    kept = np.ones(len(rows), np.bool_)
    for machine in np.flatnonzero(counts > machine_pairs_max):
        own = np.flatnonzero(machines == machine)
        kept[_oldest(own, at, len(own) - machine_pairs_max * 9 // 10)] = False
    if kept.sum() > pairs_max:
        left = np.flatnonzero(kept)
        kept[_oldest(left, at, len(left) - pairs_max * 9 // 10)] = False
    return np.flatnonzero(kept)


def _oldest(rows: Rows, at: NDArray[np.floating[Any]], number: int) -> Rows:
    return rows[np.argsort(at[rows], kind="stable")][:number]
