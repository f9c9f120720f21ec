"""Target load packing: Trimaran's TargetLoadPacking, for any resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.formulas.rounding import round_half_away
from scorer.ranking.formulas.statistics import ResourceName
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


def packing(utilization: Floats, target: float) -> Floats:
    """Return the score of a utilization in percent: rising to 100 at the target, from the target falling to 0 at 100.

    ``u <= X: (100 - X) * u / X + X``; ``X < u <= 100: X * (100 - u) / (100 - X)``; above 100: 0. It breaks at X.
    """
    rising = (100.0 - target) * utilization / target + target
    falling = target * (100.0 - utilization) / (100.0 - target) if target < 100 else np.zeros_like(utilization)
    found: Floats = np.where(utilization > 100.0, 0.0, np.where(utilization > target, falling, rising))
    return found


@dataclass(frozen=True)
class TargetLoadPacking(Plugin):
    """Fill machines up to a target utilization of one resource, then avoid them.

    ``U = (mean + expected) / limit``, the mean with the credits of placed instances. The peer's numbers come with its
    estimate (``base = "limit-first"``, factor 1.5, default 1 core) and credits ``trimaran-60s``, which the profile
    ``trimaran`` sets. A machine without data scores 0; one with a limit of 0 counts as utilization 0, as in the peer.

    target:
        share of the limit, 0-1.
    resource:
        the resource that is packed; the peer has only cpu, the in-house study needed memory.
    limit:
        ``allocatable``, or ``capacity`` as the peer.
    rounding:
        round half away from zero, as the peer.

    Reference: Trimaran, pkg/trimaran/targetloadpacking/targetloadpacking.go.
    """

    name = "target_load_packing"
    scope = "machine"

    target: float = 0.4
    resource: ResourceName = "cpu"
    limit: Literal["allocatable", "capacity"] = "allocatable"
    rounding: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise ValueError(f"target: expected more than 0 and at most 1, got {self.target}")

    def __call__(self, request: Request, machines: Machines) -> Floats:
        utilization = self._utilization(machines)
        score = packing(utilization, self.target * 100.0)
        score = np.nan_to_num(round_half_away(score) if self.rounding else score)
        return np.clip(score, 0.0, 100.0)

    def _utilization(self, machines: Machines) -> Floats:
        row = RESOURCES.index(self.resource)
        limit = machines.allocatable[row] if self.limit == "allocatable" else machines.capacity[row]
        with np.errstate(divide="ignore", invalid="ignore"):
            utilization = 100.0 * (machines.mean[row] + machines.expected[row]) / limit
        found: Floats = np.where((limit == 0) & np.isfinite(machines.mean[row]), 0.0, utilization)
        return found

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the utilization with the requested instance, in percent, and the target."""
        utilization = float(self._utilization(machines)[position])
        return {
            "utilization_percent": utilization if np.isfinite(utilization) else None,
            "target_percent": self.target * 100.0,
        }
