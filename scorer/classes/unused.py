"""The part of prod's requests above its predicted peak. Pure."""

from __future__ import annotations

import numpy as np

from scorer.classes.capacity import cut, part_of
from scorer.snapshot.arrays import Floats


def unused(requested: Floats, peak: Floats, system_peak: Floats, allocatable: Floats, margin: float) -> Floats:
    """Return [R, n]: ``min(requested, allocatable) - (peak + system peak) * (1 + margin)``, never below 0.

    ``requested``: prod's requests; ``peak`` and ``system_peak``: predicted usage of prod and of the system. 0 where a
    peak is not known: without a prediction nothing is allocated on it.
    """
    busy = part_of(cut(peak) + cut(system_peak), 1.0 + margin)
    found = np.minimum(requested, allocatable) - busy
    return np.maximum(np.where(np.isfinite(found), found, 0.0), 0.0)
