"""Load aware: Koordinator's LoadAwareScheduling score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.formulas.allocation import check_weights, counted, percent_left
from scorer.ranking.formulas.statistics import Statistic, prod_usage, statistic
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request
from scorer.snapshot.arrays import numbers


@dataclass(frozen=True)
class LoadAware(Plugin):
    """Prefer machines with much left by usage: the weighted mean of ``(allocatable - used) * 100 / allocatable``.

    ``used`` is a statistic of the usage with credits, plus what the instance is expected to use. A resource over its
    limit, or without one, scores 0. So does a machine without data or with data as old as ``expiration_s`` (0: of any
    age). The peer's numbers come with its estimate and credits ``koordinator-pending``, which the profile
    ``koordinator`` sets.

    weights, dominant_weight:
        by resource, cpu and memory 1 each where neither is given; the dominant weight is that of the least of the
        resources (cpu and memory always among them).
    statistic:
        ``mean`` or a percentile or the maximum, of the window that the profile chooses.
    prod_usage:
        for a request of class prod, use the mean usage of class prod.
    prod_with_system:
        add what a machine uses besides its instances (the peer's prodUsageIncludeSys).
    missing:
        how a machine without the statistic is scored. ``estimates``: by those of the instances placed, as the peer does
        for a window of a given length. ``mean``: by the mean, as the peer does without one. ``zero``: it scores 0.
    rounding:
        the peer's integers: every division truncates.

    Reference: Koordinator, pkg/scheduler/plugins/loadaware/load_aware.go.
    """

    name = "load_aware"
    scope = "machine"

    weights: Mapping[str, float] = field(default_factory=dict)
    dominant_weight: float = 0.0
    statistic: Statistic = "mean"
    prod_usage: bool = False
    prod_with_system: bool = False
    expiration_s: float = 180.0
    missing: Literal["zero", "estimates", "mean"] = "zero"
    rounding: bool = False

    def __post_init__(self) -> None:
        if self.weights:
            check_weights("weights", self.weights)
        if not 0 <= self.dominant_weight < float("inf"):
            raise ValueError(f"dominant_weight: expected a number of zero or more, got {self.dominant_weight}")
        if not self.expiration_s >= 0:
            raise ValueError(f"expiration_s: expected zero or more, got {self.expiration_s}")

    def __call__(self, request: Request, machines: Machines) -> Floats:
        parts, rows = self._parts(machines)
        by_name = self._weights
        weights = np.array([[by_name.get(RESOURCES[row], 0.0)] for row in rows])
        total = float(weights.sum()) + self.dominant_weight
        score = ((parts * weights).sum(axis=0) + self.dominant_weight * np.minimum(parts.min(axis=0), 100.0)) / total
        if self.rounding:
            score = np.floor(score + 1e-9)
        known = machines.has_data & (machines.age_s < (self.expiration_s or np.inf))
        found: Floats = np.where(known | machines.requests_alone, score, 0.0)
        return found

    @property
    def _weights(self) -> Mapping[str, float]:
        return self.weights if self.weights or self.dominant_weight else {"cpu": 1.0, "memory": 1.0}

    def _parts(self, machines: Machines) -> tuple[Floats, list[int]]:
        """Return [resources, n] in 0-100, and the rows of these resources."""
        rows = [row for row, name in enumerate(RESOURCES) if name in self.weights or name in ("cpu", "memory")]
        if self.prod_usage and machines.request.priority_class == "prod":
            usage = prod_usage(machines, self.prod_with_system)
        else:
            usage = statistic(machines, self.statistic, self.missing)
        used = usage[rows] + machines.expected[rows, None]
        return percent_left(*counted(used, machines.allocatable[rows], rows, self.rounding), self.rounding), rows

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show what is left by resource."""
        parts, rows = self._parts(machines)
        return {"left_percent": numbers(parts[:, position], tuple(RESOURCES[row] for row in rows))}
