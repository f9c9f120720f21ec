"""Load variation risk: Trimaran's LoadVariationRiskBalancing, and the reduced form of the in-house study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from schemas.resources import RESOURCES
from schemas.rpc.request import Request
from scorer.ranking.formulas.rounding import known_or, round_half_away
from scorer.ranking.formulas.statistics import ResourceName
from scorer.ranking.machines.machines import Machines
from scorer.ranking.scope import Scope
from scorer.snapshot.arrays import Bools, Floats, picking

WHOLE = 1.0 - 1e-9
"""From this quotient on a deviation counts as large as the capacity: division may give slightly less than 1."""


def risk_of(mu: Floats, sigma: Floats, margin: float = 1.0, sensitivity: float = 1.0) -> Floats:
    """Return the risk 0-1 from mean and standard deviation as shares of the capacity.

    ``sigma = clip(clip(sigma) ** (1 / sensitivity) * margin)``, ``risk = (clip(mu) + sigma) / 2``. Sensitivity 0 leaves
    only a sigma of 1; a negative one means no root.
    """
    return (np.clip(mu, 0.0, 1.0) + spread_of(sigma, margin, sensitivity)) * 0.5


def spread_of(sigma: Floats, margin: float = 1.0, sensitivity: float = 1.0) -> Floats:
    """Return the part of the standard deviation in twice the risk."""
    sigma = np.clip(sigma, 0.0, 1.0)
    if margin == 1.0 and sensitivity == 1.0:
        return sigma
    if sensitivity == 0:
        sigma = np.where(sigma >= WHOLE, 1.0, 0.0)
    elif sensitivity > 0 and sensitivity != 1.0:
        sigma = sigma ** (1.0 / sensitivity)
    return np.clip(sigma * margin, 0.0, 1.0)


def reduced_risk_of(mu: Floats, sigma: Floats) -> Floats:
    """Return ``min(mu + sigma, 1)``: the form of the study and of Trimaran's proposal; it saturates."""
    return np.clip(mu, 0.0, None) + np.clip(sigma, 0.0, None)


@dataclass(frozen=True)
class LoadVariationRisk:
    """Prefer machines whose load is low and steady: ``100 * (1 - risk)``, of the worst resource.

    Per resource ``mu = (mean + expected) / allocatable``, ``sigma = std / allocatable``, both clipped to 0-1, and
    ``risk = (mu + min(margin * sigma^(1/sensitivity), 1)) / 2``. So a full but steady machine scores 50. The instance's
    own standard deviation counts as 0. A resource without data is left out. A machine without any data scores 0, and so
    does one whose allocatable amount of a measured resource is 0.

    resources:
        the resources compared; the peer has cpu and memory.
    margin, sensitivity:
        as above; a higher sensitivity makes small deviations count more.
    form:
        ``trimaran``; ``reduced``: ``risk = min(mu + sigma, 1)``, which loses all order among busy machines.
    newcomer:
        ``expected``: what it is expected to use; ``request``, as the peer.
    rounding:
        round the result half away from zero, as the peer does.

    Reference: Trimaran, pkg/trimaran/loadvariationriskbalancing/analysis.go.
    """

    name: ClassVar[str] = "load_variation_risk"
    scope: ClassVar[Scope] = "machine"

    margin: float = 1.0
    sensitivity: float = 1.0
    resources: tuple[ResourceName, ...] = ("cpu", "memory")
    form: Literal["trimaran", "reduced"] = "trimaran"
    newcomer: Literal["request", "expected"] = "expected"
    rounding: bool = False

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise ValueError(f"margin: expected zero or more, got {self.margin}")
        if not self.sensitivity >= 0:
            raise ValueError(f"sensitivity: expected zero or more, got {self.sensitivity}")
        if not self.resources:
            raise ValueError("resources: expected at least one")

    def __call__(self, request: Request, machines: Machines) -> Floats:
        """Return [n]."""
        if self.rounding or self.form != "trimaran":
            worst = np.nan_to_num(np.fmax.reduce(self.risks(machines), axis=0), nan=1.0)
            total = 100.0 * (1.0 - worst)
            return round_half_away(total) if self.rounding else total
        total = self._worst(machines)
        total *= -50.0
        total += 100.0
        if machines.of_snapshot("all_data", lambda m: bool(self._any_data(m).all())):
            return total
        return np.where(machines.constant("any_data", self._any_data), total, 0.0)

    @cached_property
    def _rows(self) -> tuple[int, ...]:
        return tuple(RESOURCES.index(name) for name in self.resources)

    def _any_data(self, machines: Machines) -> Bools:
        """Return [n]: whether any of the resources was measured."""
        known: Bools = np.isfinite(machines.mean[picking(self._rows)]).any(axis=0)
        return known

    def _worst(self, machines: Machines) -> Floats:
        """Return [n]: twice the largest risk; -inf without data."""
        added = (machines.amounts if self.newcomer == "request" else machines.expected).tolist()
        sigma, inverse = machines.constant("sigma", self._sigma), machines.constant("inverse", self._inverse)
        worst: Floats | None = None
        for place, row in enumerate(self._rows):
            mu = self._mu(machines, row)
            if added[row] > 0:
                risk: Floats = inverse[place] * added[row]
                risk += mu
            else:
                risk = mu.copy()
            if self._may_exceed(machines, row, added[row]):
                np.minimum(risk, 1.0, out=risk)
            risk += sigma[place]
            worst = risk if worst is None else np.maximum(worst, risk, out=worst)
        assert worst is not None
        return worst

    @staticmethod
    def _may_exceed(machines: Machines, row: int, added: float) -> bool:
        """Return whether any mu could be over 1 and must be clipped; usually none can."""
        return machines.copies is not None or not machines.busiest[row] + added * machines.smallest[row] <= WHOLE

    def _mu(self, machines: Machines, row: int) -> Floats:
        """Return [n] mean / allocatable; -inf without data, inf without allocatable."""
        if not math.isnan(machines.busiest[row]):
            found: Floats = machines.utilization[row]
            return found

        def known(m: Machines) -> Floats:
            mu = m.utilization[row]
            empty = (m.allocatable[row] <= 0) & np.isfinite(m.mean[row])
            return np.where(empty, np.inf, np.where(np.isnan(mu), -np.inf, mu))

        column: Floats = machines.derived(("mu", row), known)
        return column

    def _inverse(self, machines: Machines) -> Floats:
        """Return [resources, n]: 1 / allocatable; 0 where unknown."""
        return known_or(machines.inverse_allocatable[picking(self._rows)], 0.0)

    def _sigma(self, machines: Machines) -> Floats:
        """Return [resources, n]: the deviation after margin and sensitivity; 1 without allocatable."""
        rows = picking(self._rows)
        deviation = machines.deviation[rows]
        known = known_or(deviation, 0.0)
        sigma = spread_of(known, self.margin, self.sensitivity)
        if known is not deviation:
            sigma = np.where((machines.allocatable[rows] <= 0) & np.isfinite(machines.mean[rows]), 1.0, sigma)
        return sigma

    def risks(self, machines: Machines) -> Floats:
        """Return [resources, n]: the risk by resource; NaN without data, 1 without capacity."""
        rows = list(self._rows)
        added = machines.amounts if self.newcomer == "request" else machines.expected
        part = slice(rows[0], rows[-1] + 1) if rows == list(range(rows[0], rows[-1] + 1)) else rows
        if self.rounding:  # divide as the peer does: a half must stay a half
            limit = np.where(machines.allocatable[part] > 0, machines.allocatable[part], np.nan)
            mu = (machines.mean[part] + added[part, None]) / limit
        else:
            mu = machines.utilization[part] + added[part, None] * machines.inverse_allocatable[part]
        sigma = np.nan_to_num(machines.deviation[part]) if self._std_missing(machines) else machines.deviation[part]
        risk = self._risk(mu, sigma)
        without = np.isnan(risk)
        if without.any():
            no_capacity = without & (machines.allocatable[part] <= 0) & np.isfinite(machines.mean[part])
            risk[no_capacity] = 1.0
        return risk

    def _risk(self, mu: Floats, sigma: Floats) -> Floats:
        if self.form == "reduced":
            return np.minimum(reduced_risk_of(mu, sigma), 1.0)
        return risk_of(mu, sigma, self.margin, self.sensitivity)

    @staticmethod
    def _std_missing(machines: Machines) -> bool:
        return bool(np.isnan(machines.deviation).any())

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show the risk by resource."""
        if self.rounding:
            risks = machines.once("risks", lambda: self.risks(machines))[:, position].tolist()
        else:
            risks = self._risks_at(machines, position)
        shown = {name: risk if math.isfinite(risk) else None for name, risk in zip(self.resources, risks, strict=True)}
        return {"risk": max((risk for risk in shown.values() if risk is not None), default=None), "risks": shown}

    def _risks_at(self, machines: Machines, position: int) -> list[float]:
        """Return `risks` of one machine as plain numbers, which for a few machines is faster than arrays."""
        added = (machines.amounts if self.newcomer == "request" else machines.expected).tolist()
        utilization, deviation = machines.plain("utilization", position), machines.plain("deviation", position)
        inverse, found = machines.plain("inverse_allocatable", position), []
        for row in self._rows:
            mu, sigma = utilization[row] + added[row] * inverse[row], deviation[row]
            sigma = 0.0 if math.isnan(sigma) else sigma
            if math.isnan(mu):
                empty = machines.allocatable[row, position] <= 0 and math.isfinite(machines.mean[row, position])
                found.append(1.0 if empty else math.nan)
            elif self.form == "reduced":
                found.append(min(max(mu, 0.0) + max(sigma, 0.0), 1.0))
            else:
                sigma = min(max(sigma, 0.0), 1.0)
                if self.sensitivity == 0:
                    sigma = float(sigma >= WHOLE)
                elif self.sensitivity != 1.0:
                    sigma = sigma ** (1.0 / self.sensitivity)
                found.append((min(max(mu, 0.0), 1.0) + min(sigma * self.margin, 1.0)) / 2)
        return found
