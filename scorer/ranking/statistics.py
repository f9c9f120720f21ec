"""The resources and statistics of load that a filter or score may be told to go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.machines import Machines
from scorer.snapshot.arrays import Floats

if TYPE_CHECKING:
    ResourceName = str
else:
    ResourceName = Literal[RESOURCES]
    """One of the resources: a profile that names another is refused."""
Statistic = Literal["mean", "p50", "p90", "p95", "p99", "max"]
KOORDINATOR_EXPIRATION_S = 180.0


def prod_usage(machines: Machines, with_system: object) -> Floats:
    """Return [R, n]: the usage by class prod, with what a machine is known to use beside its instances if asked for."""
    usage = machines.class_mean("prod")
    return usage + np.nan_to_num(machines.system_usage) if with_system else usage


def statistic(machines: Machines, name: Statistic, missing: str = "refuse") -> Floats:
    """Return [R, n]: that statistic of the usage, with credits; NaN without data.

    ``missing = "estimates"`` does as Koordinator: a percentile over a window not half covered is no percentile. Where
    it is missing, the estimates of all instances placed count instead of any measurement. With ``"mean"`` the mean
    counts. What is not measured at all stays NaN.
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
