"""Low risk overcommitment: Trimaran's LowRiskOverCommitment, with beta distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.formulas import beta
from scorer.ranking.formulas.rounding import round_half_away
from scorer.ranking.formulas.thresholds import check_thresholds
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request
from scorer.snapshot.arrays import numbers

VARIANCE_SHARE_MAX = 0.99


def limit_risk(requests: Floats, limits: Floats, capacity: Floats) -> Floats:
    """Return 0-1: the part of limits less requests that is above the capacity, ``(L - cap) / (L - R)``."""
    over = limits > capacity
    return np.where(over, (limits - capacity) / np.where(over, np.maximum(limits - requests, 1e-300), 1.0), 0.0)


def load_risk(mu: Floats, sigma: Floats, requests: Floats, limits: Floats, capacity: Floats) -> Floats:
    """Return 0-1: the probability that the load exceeds what is requested, given that it keeps below the limits.

    ``mu``, ``sigma``: measured mean and std as shares of the capacity; ``requests``, ``limits``: sums without the
    requested instance. sigma counts up to 0.99 of the variance that this mean can have. NaN mean: 0.
    """
    known = np.isfinite(mu)
    mu = np.clip(np.nan_to_num(mu), 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        request_share = np.clip(np.where(capacity > 0, requests / capacity, 0.0), 0.0, 1.0)
        limit_share = np.where(capacity > 0, limits / capacity, 0.0)
    sigma = np.minimum(np.nan_to_num(sigma), np.sqrt(VARIANCE_SHARE_MAX * mu * (1.0 - mu)))
    alpha, beta_, fits = beta.match(mu, sigma**2)
    alpha, beta_ = np.where(fits, alpha, 1.0), np.where(fits, beta_, 1.0)
    within = np.where(fits, beta.distribution(request_share, alpha, beta_), 0.0)
    steady = sigma == 0
    within = np.where(steady & (mu <= request_share), 1.0, np.where(steady & (mu > request_share), 0.0, within))
    within = np.where(mu == 0, 1.0, within)
    limited = (limits < capacity) & (requests <= limits)
    below_limit = np.where(fits & limited, beta.distribution(limit_share, alpha, beta_), 1.0)
    given = np.clip(within / np.where(below_limit > 0, below_limit, 1.0), 0.0, 1.0)
    within = np.where(limited & (limit_share == 0), 1.0, np.where(limited & (below_limit > 0), given, within))
    return np.where(known & (capacity > 0), 1.0 - within, 0.0)


@dataclass(frozen=True)
class LowRiskOvercommitment(Plugin):
    """Prefer machines where neither limits nor load are likely to exceed the capacity: ``100 * (1 - risk)``.

    Per resource ``risk = w * limit risk + (1 - w) * load risk`` (`limit_risk`, `load_risk`), of the worst resource. The
    requested instance counts by its limit only; load is compared with the requests of the instances already placed. The
    std is multiplied by the square root of the smoothing window. Limits are at least the requests. A best-effort
    request and a machine without any data score 0.

    smoothing_window:
        samples over which the input was averaged before its std was taken; 1 for windows whose std is over the
        readings themselves, as Windward's is; the peer's default is 5.
    limit_weights:
        w by resource.
    rounding:
        round half away from zero, as the peer does.

    Reference: Trimaran, pkg/trimaran/lowriskovercommitment/.
    """

    name = "low_risk_overcommitment"
    scope = "machine"

    smoothing_window: float = 5.0
    limit_weights: Mapping[str, float] = field(default_factory=lambda: {"cpu": 0.5, "memory": 0.5})
    rounding: bool = False

    def __post_init__(self) -> None:
        if not self.smoothing_window > 0:
            raise ValueError(f"smoothing_window: expected more than 0, got {self.smoothing_window}")
        check_thresholds("limit_weights", self.limit_weights)
        if not self.limit_weights:
            raise ValueError("limit_weights: expected at least one resource")

    def __call__(self, request: Request, machines: Machines) -> Floats:
        if not machines.limits.any():
            return np.zeros(len(machines))
        score = 100.0 * (1.0 - self.risks(machines).max(axis=0))
        score = np.where(machines.has_data, score, 0.0)
        return round_half_away(score) if self.rounding else score

    def risks(self, machines: Machines) -> Floats:
        """Return [resources, n]."""
        found = []
        for name, weight in self.limit_weights.items():
            row = RESOURCES.index(name)
            capacity = np.nan_to_num(machines.allocatable[row])
            requests = np.minimum(machines.allocated[row], capacity)
            after = np.minimum(machines.allocated[row] + machines.amounts[row], capacity)
            limits = machines.limited[row]
            by_limit = limit_risk(after, limits + machines.limits[row], capacity)
            with np.errstate(divide="ignore", invalid="ignore"):
                mu, sigma = machines.mean[row] / capacity, machines.std[row] / capacity
            sigma = np.clip(sigma, 0.0, 1.0) * np.sqrt(self.smoothing_window)
            by_load = load_risk(mu, sigma, requests, limits, capacity)
            found.append(np.clip(weight * by_limit + (1.0 - weight) * by_load, 0.0, 1.0))
        return np.array(found)

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the risk by resource."""
        return {"risks": numbers(self.risks(machines)[:, position], tuple(self.limit_weights))}
