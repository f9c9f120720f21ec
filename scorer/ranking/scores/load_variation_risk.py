"""Load variation risk: Trimaran's LoadVariationRiskBalancing, and the reduced form of the in-house study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.formulas.rounding import known_or, round_half_away
from scorer.ranking.formulas.statistics import ResourceName
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request
from scorer.snapshot.arrays import picking

WHOLE = 1.0 - 1e-9
"""From this quotient on a deviation counts as large as the capacity: division may give slightly less than 1."""

KEPT_FROM = 10_000
"""From so many machines on, to compute the changed rows of a kept column takes less time than a new one."""


def risk_of(mu: Floats, sigma: Floats, margin: float = 1.0, sensitivity: float = 1.0) -> Floats:
    """Return the risk 0-1 from mean and standard deviation as shares of the capacity.

    ``sigma = clip(clip(sigma) ** (1 / sensitivity) * margin)``, ``risk = (clip(mu) + sigma) / 2``. Sensitivity 0 leaves
    only a sigma of 1; a negative one means no root.
    """
    return 0.5 * twice_risk(np.maximum(mu, 0.0), spread_of(sigma, margin, sensitivity))


def twice_risk(mu: Floats, spread: Floats, below_1: bool = False) -> Floats:
    """Return twice the risk, in the place of mu; ``spread`` from `spread_of`; ``below_1``: no mu has to be cut."""
    if not below_1:
        np.minimum(mu, 1.0, out=mu)
    mu += spread
    return mu


def twice_risk_of(mu: float, spread: float) -> float:
    """Return the same of one machine."""
    return min(mu, 1.0) + spread


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


@dataclass(frozen=True)
class LoadVariationRisk(Plugin):
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

    name = "load_variation_risk"
    scope = "machine"

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
        """Return [n]; in large fleets kept for the amounts asked for last."""
        added = self._added(machines)
        if len(machines) < KEPT_FROM:
            return self._score(machines, added)
        found: Floats = machines.recent(("score", *added), lambda m: self._score(m, added))
        return found

    def _score(self, machines: Machines, added: Sequence[float]) -> Floats:
        """Return [n]."""
        total: Floats
        total, *others = self._multiples(machines, added)
        for each in others:
            np.maximum(total, each, out=total)
        total *= -100.0 * self._unit
        total += 100.0
        if math.isnan(machines.busiest[self._rows[0]]):  # else each machine has a figure
            total = np.where(total < np.inf, total, 0.0)
        return round_half_away(total) if self.rounding else total

    @cached_property
    def _rows(self) -> tuple[int, ...]:
        return tuple(RESOURCES.index(name) for name in self.resources)

    @cached_property
    def _picked(self) -> slice | list[int]:
        return picking(self._rows)

    @cached_property
    def _unit(self) -> float:
        """What the risks of `_multiples` are multiples of."""
        return 0.5 if self.form == "trimaran" else 1.0

    def risks(self, machines: Machines) -> Floats:
        """Return [resources, n]: the risk by resource; -inf without data, 1 without capacity."""
        return np.array(self._multiples(machines, self._added(machines))) * self._unit

    def _added(self, machines: Machines) -> list[float]:
        """Return [R]: what the instance adds."""
        added: list[float] = (machines.amounts if self.newcomer == "request" else machines.expected).tolist()
        return added

    def _multiples(self, machines: Machines, added: Sequence[float]) -> list[Floats]:
        """Return [n] of each resource; row by row, since arrays of all of them together take longer to allocate."""
        inverse, sigma = machines.constant("inverse", self._inverse), machines.constant("sigma", self._sigma)
        busiest, smallest, found = machines.busiest, machines.smallest, []
        for place, row in enumerate(self._rows):
            most = busiest[row] + added[row] * smallest[row]
            if self.rounding:  # divide as the peer does: a half must stay a half
                mu = _quotient(machines, row, added[row])
            else:
                mu = inverse[place] * added[row]
                load = machines.derived(("mu", row), partial(_quotient, row=row)) if math.isnan(most) else None
                mu += machines.utilization[row] if load is None else load
            if self.form == "trimaran":
                found.append(twice_risk(mu, sigma[place], machines.copies is None and most <= WHOLE))
            else:
                found.append(np.minimum(mu + sigma[place], 1.0))
        return found

    def _inverse(self, machines: Machines) -> Floats:
        """Return [resources, n]: 1 / allocatable; 0 where unknown."""
        return known_or(machines.inverse_allocatable[self._picked], 0.0)

    def _sigma(self, machines: Machines) -> Floats:
        """Return [resources, n]: the part of the deviation in the risk; 1 without allocatable."""
        deviation, limit = machines.deviation[self._picked], machines.allocatable[self._picked]
        known = known_or(deviation, 0.0)
        reduced = self.form == "reduced"
        sigma = np.maximum(known, 0.0) if reduced else spread_of(known, self.margin, self.sensitivity)
        if known is deviation:
            return sigma
        return np.where((limit <= 0) & np.isfinite(machines.mean[self._picked]), 1.0, sigma)

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the risk by resource."""
        risks = self._risks_of(machines, position)
        shown = {name: risk if math.isfinite(risk) else None for name, risk in zip(self.resources, risks, strict=True)}
        return {"risk": max((risk for risk in shown.values() if risk is not None), default=None), "risks": shown}

    def _risks_of(self, machines: Machines, position: int) -> list[float]:
        """Return [resources]: `risks` of one machine; where all is known by plain numbers, in a third of the time."""
        load = machines.plain("utilization", position)
        if self.rounding or self.form != "trimaran" or any(math.isnan(load[row]) for row in self._rows):
            found: list[float] = machines.once("risks", lambda: self.risks(machines).T)[position].tolist()
            return found
        added, inverses, sigmas = machines.once("plain", lambda: self._plain(machines))
        each = zip(self._rows, inverses[position], sigmas[position], strict=True)
        return [0.5 * twice_risk_of(inverse * added[row] + load[row], sigma) for row, inverse, sigma in each]

    def _plain(self, machines: Machines) -> tuple[list[float], list[list[float]], list[list[float]]]:
        """Return as plain numbers what the instance adds [R], and [n][resources] inverses and spreads."""
        inverse, sigma = machines.constant("inverse", self._inverse), machines.constant("sigma", self._sigma)
        return self._added(machines), inverse.T.tolist(), sigma.T.tolist()


def _quotient(machines: Machines, row: int, added: float = 0.0) -> Floats:
    """Return [n]: (mean + added) / allocatable; -inf without data, inf without allocatable."""
    limit, mean = machines.allocatable[row], machines.mean[row]
    mu = (mean + added) / np.where(limit > 0, limit, np.nan)
    return np.where((limit <= 0) & np.isfinite(mean), np.inf, np.where(np.isnan(mu), -np.inf, mu))
