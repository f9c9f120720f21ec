"""Daily peak: the highest minute of today and yesterday, with the instance, stays below a share of allocatable."""

from __future__ import annotations

import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from schemas.resources import RESOURCES
from scorer.ranking.formulas.thresholds import Thresholds, as_column, check_thresholds
from scorer.ranking.machines.days import day_start_s
from scorer.ranking.plugin import Bools, Detail, Floats, Machines, Plugin, Reasons, Request
from scorer.snapshot.arrays import ROUNDING, numbers, picking

Day = Literal["today", "yesterday"]


@dataclass(frozen=True)
class DailyPeak(Plugin):
    """Refuse machines where ``peak + expected > threshold * allocatable`` on any of ``days``, in any resource.

    ``thresholds`` are shares by resource; without any the filter is off. A peak that is not known (a new machine has no
    yesterday) refuses no machine. ``time_zone``: when a day begins, as for the stream app.

    Instances that started after the peak are added to it; the others are in it already. But instances that were in the
    peak may have ended since, and others taken their place. So the sum is limited by what all instances of the machine
    are expected to use, or its mean with credits, where that is more. It is never below the measured peak:

        peak = min(measured + started since, max(measured, expected of all, mean with credits))

    Without that limit a fleet whose instances live for hours refuses nearly everything from its second day on. In a
    replay (Google 2011 with memory, lives of two hours) it refused 93 % of the first tries by the profile `windward`.
    """

    name = "daily_peak"
    reason = "daily peak over threshold"
    scope = "machine"
    momentary = True

    thresholds: Thresholds = field(default_factory=dict)
    days: tuple[Day, ...] = ("today", "yesterday")
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        check_thresholds("thresholds", self.thresholds)
        if not self.days:
            raise ValueError("days: expected at least one of today, yesterday; without thresholds the filter is off")
        try:
            zoneinfo.ZoneInfo(self.time_zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"time_zone: no time zone {self.time_zone!r}") from None

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip while no threshold is set."""
        return any(self.thresholds.values()) and not machines.requests_alone

    def __call__(self, request: Request, machines: Machines) -> Bools:
        starts_s = tuple(day_start_s(machines.now_s, day, self.time_zone) for day in self.days)
        now_s = machines.now_s
        slack = machines.derived(("slack", *starts_s), lambda m: self._slack(m, now_s))
        return machines.below(slack, machines.expected[self._rows], range(len(self._rows)))

    @cached_property
    def _rows(self) -> list[int]:
        """The resources with a threshold: only these are compared."""
        return [RESOURCES.index(name) for name, threshold in self.thresholds.items() if threshold > 0]

    @cached_property
    def _picked(self) -> slice | list[int]:
        return picking(self._rows)

    def _slack(self, machines: Machines, now_s: float) -> Floats:
        """Return [rows, n]: the least that is left below the threshold on any day; inf where no peak is known."""
        limit = self._below_limit(machines)
        highest = np.fmax.reduce(self._peaks(machines, self._picked, now_s), axis=0)  # not NaN, where one is not
        slack: Floats = np.fmin(limit - highest, np.inf)
        return slack

    def _peaks(
        self, machines: Machines, rows: slice | Sequence[int] = slice(None), now_s: float | None = None
    ) -> Floats:
        """Return [days, rows, n]: the peak of each day with what started since; NaN where no peak is known."""
        present = np.fmax(machines.of_resources(rows, "estimated"), machines.of_resources(rows, "mean"))
        measured = machines.of_resources(rows, "measured_peaks", *self.days)
        found: Floats = np.minimum(machines.peaks(self.days, self.time_zone, now_s, rows), np.fmax(measured, present))
        return found

    def _below_limit(self, machines: Machines) -> Floats:
        """Return [rows, n] what the peaks are compared with."""
        limit: Floats = machines.constant("limit", lambda m: self._limit(m, self._picked) * (1 + ROUNDING))
        return limit

    def _limit(self, machines: Machines, rows: slice | Sequence[int] = slice(None)) -> Floats:
        """Return [rows, n]; inf without a threshold."""
        threshold = as_column(self.thresholds)[rows]
        limit: Floats = threshold * machines.allocatable[rows]
        limit[~(threshold[:, 0] > 0)] = np.inf
        return limit

    def reasons(self, request: Request, machines: Machines) -> Reasons:
        """Name the day."""
        left = self._below_limit(machines) - self._peaks(machines, self._picked)  # inf and NaN refuse no machine
        over = left < machines.expected[self._picked, None]
        over = over[:, 0] if len(self._rows) == 1 else np.logical_or.reduce(over, axis=1)
        return {f"{day}'s peak over threshold": here for day, here in zip(self.days, over, strict=True)}

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the peaks with the requested instance, and the limit."""
        found = self._peaks(machines)[..., position] + machines.expected
        peaks: dict[str, Any] = {day: numbers(peak) for day, peak in zip(self.days, found, strict=True)}
        limit = self._limit(machines)[:, position]
        return {**peaks, "limit": {name: value for name, value in numbers(limit).items() if self.thresholds.get(name)}}
