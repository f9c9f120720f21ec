"""The resources and statistics of load that a filter or a score can be configured with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.machines.machines import Machines
from scorer.snapshot.arrays import Floats

if TYPE_CHECKING:
    ResourceName = str
else:
    ResourceName = Literal[RESOURCES]
    """One of the resources: a profile that names another is refused."""
Statistic = Literal["mean", "p50", "p90", "p95", "p99", "max"]
KOORDINATOR_EXPIRATION_S = 180.0


def prod_usage(machines: Machines, with_system: object) -> Floats:
    """Return [R, n]: the usage by class prod; ``with_system``: plus what the machine uses besides its instances."""
    usage = machines.class_mean("prod")
    return usage + np.nan_to_num(machines.system_usage) if with_system else usage


def statistic(machines: Machines, name: Statistic, missing: str = "refuse") -> Floats:
    """Return [R, n]: that statistic of the usage, with credits; NaN without data.

    ``missing = "estimates"`` does as Koordinator: a percentile over a window less than half covered counts as missing.
    Where it is missing, the estimates of all instances placed count instead. With ``"mean"`` the mean counts instead.
    Without any measurement the result stays NaN.
    """
    if name == "mean":
        return machines.mean
    values = machines.max if name == "max" else machines.percentile(int(name[1:]))
    if missing not in ("estimates", "mean"):
        return values
    absent = np.isnan(values) | machines.warming
    instead = machines.mean if missing == "mean" else machines.estimated
    measured = np.isfinite(machines.mean)
    found: Floats = np.where(measured, np.where(absent, instead, values), np.nan)
    return found
