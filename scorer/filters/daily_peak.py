"""Daily peak: the highest minute of today and yesterday, with the newcomer, stays below a share of allocatable."""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from schemas.request import Request
from scorer.filters.usage_threshold import Thresholds, as_column, check_thresholds
from scorer.machines import Machines, numbers
from scorer.snapshot import Bools

Day = Literal["today", "yesterday"]


@dataclass(frozen=True)
class DailyPeak:
    """Refuse machines where ``peak + expected > threshold * allocatable`` on any of ``days``, in any resource.

    A peak that is not known (a new machine has no yesterday) refuses nobody. Instances placed since that day began are
    added to its peak. ``time_zone`` says when a day begins, as for the stream app.
    """

    name: ClassVar[str] = "daily_peak"
    reason: ClassVar[str] = "daily peak over threshold"

    thresholds: Thresholds = field(default_factory=dict)
    days: tuple[Day, ...] = ("today", "yesterday")
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        check_thresholds("thresholds", self.thresholds)
        try:
            zoneinfo.ZoneInfo(self.time_zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"time_zone: no time zone {self.time_zone!r}") from None

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip while nobody set a threshold."""
        return any(self.thresholds.values()) and not machines.fleet.requests_alone

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        allowed = np.ones(len(machines), np.bool_)
        for mask in self.reasons(request, machines).values():
            allowed &= ~mask
        return allowed

    def reasons(self, request: Request, machines: Machines) -> Mapping[str, Bools]:
        """Name the day."""
        threshold = as_column(self.thresholds)
        limit = np.where(threshold > 0, threshold * machines.allocatable, np.inf)
        return {
            f"{day}'s peak over threshold": (
                machines.peak(day, self.time_zone) + machines.expected[:, None] > limit
            ).any(axis=0)
            for day in self.days
        }

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show the peaks with the newcomer, and the thresholds."""
        peaks = {day: numbers(machines.peak(day, self.time_zone)[:, position] + machines.expected) for day in self.days}
        return {**peaks, "limit": numbers(as_column(self.thresholds)[:, 0] * machines.allocatable[:, position])}
