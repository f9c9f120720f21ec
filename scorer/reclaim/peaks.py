"""What prod asked for and will not use, by its predicted peak. Pure."""

from __future__ import annotations

import numpy as np

from scorer.reclaim.capacity import cut, part_of
from scorer.snapshot.arrays import Floats


def unused(requested: Floats, peak: Floats, system_peak: Floats, allocatable: Floats, margin: float) -> Floats:
    """Return [R, n]: ``min(requested, allocatable) - (peak + system peak) * (1 + margin)``, never below 0.

    ``requested``: what prod asks for; ``peak`` and ``system_peak``: predicted usage of prod and of what is no instance.
    0 where a peak is not known: without a prediction nothing is promised on it.
    """
    busy = part_of(cut(peak) + cut(system_peak), 1.0 + margin)
    found = np.minimum(requested, allocatable) - busy
    return np.maximum(np.where(np.isfinite(found), found, 0.0), 0.0)
