"""Daily peak: the highest minute of today and yesterday, with the instance, stays below a share of allocatable."""

import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.resources import RESOURCES
from scorer.ranking.kernel.layout import DAYS, R, struct
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request, Thresholds, by_resource, check_thresholds

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
    momentary = True
    struct = struct(thresholds=("f8", R), days="i4", day=("i4", len(DAYS)))

    thresholds: Thresholds = field(default_factory=dict)
    days: tuple[Day, ...] = ("today", "yesterday")
    time_zone: str = "UTC"

    def __post_init__(self) -> None:
        check_thresholds("thresholds", self.thresholds)
        if not self.days or len(set(self.days)) < len(self.days):
            raise ValueError("days: expected at least one of today, yesterday; without thresholds the filter is off")
        try:
            zoneinfo.ZoneInfo(self.time_zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"time_zone: no time zone {self.time_zone!r}") from None

    def compares(self) -> Sequence[tuple[str, str]]:
        what = f"peak of {' and '.join(self.days)} at most"
        return [(name, f"{what} {limit:g} of allocatable") for name, limit in self.thresholds.items() if limit > 0]

    def wanted(self, request: Request, machines: Machines) -> bool:
        return any(self.thresholds.values()) and not machines.requests_alone

    def derived(self) -> dict[str, Any]:
        days = [DAYS.index(day) for day in self.days[: len(DAYS)]]
        return {"days": len(days), "day": [*days, 0][: len(DAYS)]}

    @property
    def reasons(self) -> Sequence[str]:
        return [f"{day}'s peak of use over threshold" for day in self.days]

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        limited = [name for name in RESOURCES if self.thresholds.get(name)]
        peaks: dict[str, Any] = {day: by_resource(said, place) for place, day in enumerate(self.days)}
        return {**peaks, "limit": by_resource(said, len(DAYS), limited)}
