"""The start of a day in a time zone."""

from __future__ import annotations

import zoneinfo
from datetime import datetime
from functools import lru_cache


def day_start_s(now_s: float, day: str, time_zone: str) -> float:
    """Return when ``today`` or ``yesterday`` began in a time zone; a day has 23 or 25 hours where the clocks change.

    >>> day_start_s(1_700_000_000.0, "today", "UTC"), day_start_s(1_700_000_000.0, "yesterday", "UTC")
    (1699920000.0, 1699833600.0)
    """
    return _day_start_s(now_s // 900 * 900, day, time_zone)  # days begin at quarters of an hour, everywhere


@lru_cache(maxsize=64)
def _day_start_s(now_s: float, day: str, time_zone: str) -> float:
    zone = zoneinfo.ZoneInfo(time_zone)
    midnight = datetime.fromtimestamp(now_s, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if day == "today":
        return midnight.timestamp()
    before = datetime.fromtimestamp(midnight.timestamp() - 1, zone)
    return before.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
