"""Figures of memory, of worlds whose machines and instances have some.

With v(m, t) the memory demand of machine m in minute t over its capacity:

| figure  | what it is                                                                                              |
|---------|---------------------------------------------------------------------------------------------------------|
| mem_std | standard deviation of min(v, 1) over the machines, mean over time                                       |
| mem90   | share of the machine-minutes with v > 0.9                                                               |
| mem100  | the same with v > 1: the kernel would have killed a process                                             |
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ops.replay.play.simulation import Outcome
from schemas.resources import MEMORY


def memory_figures(outcome: Outcome, first: int, last: int) -> Mapping[str, float]:
    """Return the figures of the minutes from ``first`` until before ``last``; none where memory is not measured."""
    fleet = outcome.fleet
    at = np.flatnonzero(fleet.measured == MEMORY)
    if not at.size:
        return {}
    demand = fleet.load[at[0], :, first:last] / fleet.capacity[at[0]][:, None]
    return {
        "mem_std": float(np.minimum(demand, 1.0).std(axis=0).mean()),
        "mem90": float((demand > 0.9).mean()),
        "mem100": float((demand > 1.0).mean()),
    }
