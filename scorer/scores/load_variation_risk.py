"""Load variation risk: Trimaran's LoadVariationRiskBalancing, and the reduced form of the in-house study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from schemas.request import Request
from schemas.resources import RESOURCES
from scorer.load import ResourceName
from scorer.machines import Machines, numbers
from scorer.scores.arithmetic import known_or, round_half_away
from scorer.snapshot import Bools, Floats


def risk_of(mu: Floats, sigma: Floats, margin: float = 1.0, sensitivity: float = 1.0) -> Floats:
    """Return the risk 0-1 from mean and standard deviation as shares of the capacity.

    ``sigma = clip(clip(sigma) ** (1 / sensitivity) * margin)``, ``risk = (clip(mu) + sigma) / 2``. Sensitivity 0 leaves
    only a sigma of 1; a negative one means no root.
    """
    if margin == 1.0 and sensitivity == 1.0:
        return (np.clip(mu, 0.0, 1.0) + np.clip(sigma, 0.0, 1.0)) * 0.5
    sigma = np.clip(sigma, 0.0, 1.0)
    if sensitivity == 0:
        sigma = np.where(sigma >= 1.0, 1.0, 0.0)
    elif sensitivity > 0 and sensitivity != 1.0:
        sigma = sigma ** (1.0 / sensitivity)
    sigma = np.clip(sigma * margin, 0.0, 1.0)
    return (np.clip(mu, 0.0, 1.0) + sigma) * 0.5


def reduced_risk_of(mu: Floats, sigma: Floats) -> Floats:
    """Return ``min(mu + sigma, 1)``: the form of the study and of Trimaran's proposal; it saturates."""
    return np.clip(mu, 0.0, None) + np.clip(sigma, 0.0, None)


@dataclass(frozen=True)
class LoadVariationRisk:
    """Prefer machines whose load is low and steady: ``100 * (1 - risk)``, of the worst resource.

    Per resource ``mu = (mean + request) / allocatable``, ``sigma = std / allocatable``, both clipped to 0-1, and
    ``risk = (mu + min(margin * sigma^(1/sensitivity), 1)) / 2``. So a full but steady machine scores 50. The newcomer's
    own standard deviation is 0 until something knows better. A resource without data is left out; a machine without any
    scores 0, and so does one whose allocatable amount of a measured resource is 0.

    resources:
        which; the peer knows cpu and memory.
    margin, sensitivity:
        as above; a higher sensitivity makes small deviations count more.
    form:
        ``trimaran``; ``reduced``: ``risk = min(mu + sigma, 1)``, which loses all order among busy machines.
    newcomer:
        ``request``, as the peer; ``expected``: what it is expected to use.
    rounding:
        round the result half away from zero, as the peer does.

    Reference: Trimaran, pkg/trimaran/loadvariationriskbalancing/analysis.go.
    """

    name: ClassVar[str] = "load_variation_risk"

    margin: float = 1.0
    sensitivity: float = 1.0
    resources: tuple[ResourceName, ...] = ("cpu", "memory")
    form: Literal["trimaran", "reduced"] = "trimaran"
    newcomer: Literal["request", "expected"] = "request"
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
        total *= -100.0
        total += 100.0
        known: Bools = machines.constant(
            ("any_data", *self._rows), lambda m: np.isfinite(m.mean[list(self._rows)]).any(axis=0)
        )
        return total if known.all() else np.where(known, total, 0.0)

    @property
    def _rows(self) -> tuple[int, ...]:
        return tuple(RESOURCES.index(name) for name in self.resources)

    def _worst(self, machines: Machines) -> Floats:
        """Return [n]: the largest risk, of halves that no newcomer changes; -inf without data."""
        newcomer = machines.amounts if self.newcomer == "request" else machines.expected
        idle = [row for row in self._rows if newcomer[row] <= 0]
        worst: Floats | None = None
        if idle:
            unchanged: Floats = machines.derived(
                ("risk", *idle, self.margin, self.sensitivity),
                lambda m: self._largest_half(m, idle),
            )
            worst = unchanged.copy()
        for row in self._rows:
            if newcomer[row] > 0:
                risk: Floats = machines.constant(("half", row), partial(self._half_inverse, row=row)) * newcomer[row]
                risk += machines.derived(("half mu", row), partial(self._half_mu, row=row))
                np.minimum(risk, 0.5, out=risk)
                risk += machines.constant(
                    ("half sigma", row, self.margin, self.sensitivity), partial(self._half_sigma, row=row)
                )
                worst = risk if worst is None else np.maximum(worst, risk, out=worst)
        return np.zeros(len(machines)) if worst is None else worst

    def _largest_half(self, machines: Machines, rows: Sequence[int]) -> Floats:
        """Return [n]: the largest risk over resources that the newcomer does not use."""
        largest: Floats = np.maximum.reduce(
            [
                np.minimum(self._half_mu(machines, row), 0.5)
                + machines.constant(
                    ("half sigma", row, self.margin, self.sensitivity), partial(self._half_sigma, row=row)
                )
                for row in rows
            ]
        )
        return largest

    @staticmethod
    def _half_inverse(machines: Machines, row: int) -> Floats:
        """Return [n]: half of 1 / allocatable."""
        return 0.5 * known_or(machines.inverse_allocatable[row], 0.0)

    @staticmethod
    def _half_mu(machines: Machines, row: int) -> Floats:
        """Return [n]: half of mean / allocatable; -inf without data, inf without allocatable."""
        half = 0.5 * machines.utilization[row]
        if np.isnan(half.sum()):
            empty = (machines.allocatable[row] <= 0) & np.isfinite(machines.mean[row])
            half = np.where(empty, np.inf, np.where(np.isnan(half), -np.inf, half))
        found: Floats = half
        return found

    def _half_sigma(self, machines: Machines, row: int) -> Floats:
        """Return [n]: half of sigma as margin and sensitivity make it; of 1 without allocatable."""
        deviation = machines.deviation[row]
        half = risk_of(np.zeros(1), known_or(deviation, 0.0), self.margin, self.sensitivity)
        if np.isnan(deviation.sum()):
            half = np.where((machines.allocatable[row] <= 0) & np.isfinite(machines.mean[row]), 0.5, half)
        return half

    def risks(self, machines: Machines) -> Floats:
        """Return [resources, n]: the risk by resource; NaN without data, 1 without capacity."""
        rows = list(self._rows)
        newcomer = machines.amounts if self.newcomer == "request" else machines.expected
        part = slice(rows[0], rows[-1] + 1) if rows == list(range(rows[0], rows[-1] + 1)) else rows
        if self.rounding:  # divide as the peer does: a half must stay a half
            limit = np.where(machines.allocatable[part] > 0, machines.allocatable[part], np.nan)
            mu = (machines.mean[part] + newcomer[part, None]) / limit
        else:
            mu = machines.utilization[part] + newcomer[part, None] * machines.inverse_allocatable[part]
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
        risks = numbers(machines.once(id(self), lambda: self.risks(machines))[:, position], tuple(self.resources))
        known = [risk for risk in risks.values() if risk is not None]
        return {"risk": max(known) if known else None, "risks": risks}
