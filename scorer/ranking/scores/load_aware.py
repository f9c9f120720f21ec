"""Load aware: Koordinator's LoadAwareScheduling score."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.resources import RESOURCES
from scorer.ranking.formulas.allocation import INTEGER_UNITS, check_weights
from scorer.ranking.kernel.layout import R, struct
from scorer.ranking.plugin import MISSING, Detail, Floats, Machines, Plugin, Request, Statistic, by_resource, number_of
from scorer.snapshot.rules import MachineRules


@dataclass(frozen=True)
class LoadAware(Plugin):
    """Prefer machines with low usage: the weighted mean of ``(allocatable - used) * 100 / allocatable``.

    ``used`` is a statistic of the usage with credits, plus the instance's expected usage. A resource over its limit, or
    without one, scores 0. So does a machine without data or with data as old as ``expiration_s`` (0: of any age). The
    peer's numbers come with its estimate and credits ``koordinator-pending``, which the profile ``koordinator`` sets.

    weights, dominant_weight:
        by resource, cpu and memory 1 each where neither is given; the dominant weight is that of the resource
        with the lowest value (cpu and memory are always compared).
    statistic:
        ``mean`` or a percentile or the maximum, of the window that the profile chooses.
    prod_usage:
        for a request of class prod, use the mean usage of class prod.
    prod_with_system:
        add the usage of the machine's system (the peer's prodUsageIncludeSys).
    missing:
        how a machine without the statistic is scored. ``estimates``: by those of placed instances, as the peer does
        for a window of a given length. ``mean``: by the mean, as the peer does without one. ``zero``: it scores 0.
    rounding:
        the peer's integers: every division truncates.

    Reference: Koordinator, pkg/scheduler/plugins/loadaware/load_aware.go.
    """

    name = "load_aware"
    struct = struct(
        weights=("f8", R), units=("f8", R), dominant_weight="f8", expiration_s="f8", statistic="i4", missing="i4",
        by_prod="i4", with_system="i4", rounding="i4", used=("?", R),
    )  # fmt: skip

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

    def _used(self) -> list[str]:
        return [name for name in RESOURCES if name in self.weights or name in ("cpu", "memory")]

    def needs(self, rules: MachineRules) -> frozenset[str]:
        """Return ``statistics`` where a percentile is scored, and ``prod`` where the usage of class prod is."""
        return frozenset(
            [*(["statistics"] if self.statistic != "mean" else []), *(["prod"] if self.prod_usage else [])]
        )

    def derived(self) -> dict[str, Any]:
        return {
            "weights": self.weights if self.weights or self.dominant_weight else {"cpu": 1.0, "memory": 1.0},
            "units": INTEGER_UNITS[:, 0],
            "expiration_s": self.expiration_s or math.inf,
            "statistic": number_of(self.statistic),
            "missing": MISSING[self.missing],
            "by_prod": self.prod_usage,
            "with_system": self.prod_with_system,
            "used": tuple(self._used()),
        }

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {"left_percent": by_resource(said, 0, self._used())}
