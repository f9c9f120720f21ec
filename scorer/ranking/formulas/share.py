"""Scores that compare a machine with the other feasible ones."""

from __future__ import annotations

import numpy as np

from scorer.snapshot.arrays import Bools, Floats


def share_of_largest(values: Floats, feasible: Bools, rounding: bool = False, reverse: bool = False) -> Floats:
    """Return ``100 * value / largest`` over the feasible machines; reversed, 100 less that. All 0: 0, reversed 100.

    kube-scheduler's default normalisation; ``rounding`` truncates as it does.
    """
    among = values[feasible]
    largest = float(among.max()) if among.size else 0.0
    if largest <= 0:
        return np.full(values.shape, 100.0 if reverse else 0.0)
    score = np.clip(100.0 * values / largest, 0.0, 100.0)
    score = np.floor(score + 1e-9) if rounding else score
    return 100.0 - score if reverse else score
