"""Settings of filters out of range."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.ranking.filters.daily_peak import DailyPeak
from scorer.ranking.filters.fits import Fits
from scorer.ranking.filters.fresh import Fresh
from scorer.ranking.filters.masters import Masters
from scorer.ranking.filters.maxmemory import Maxmemory
from scorer.ranking.filters.memory_pressure import MemoryPressure
from scorer.ranking.filters.usage_threshold import UsageThreshold
from scorer.ranking.filters.warming import Warming
from tests.rows import each_row


@each_row(
    ("kind", "settings"),
    [
        (UsageThreshold, {"thresholds": {"cpu": 1.1}}),
        (UsageThreshold, {"thresholds": {"gpu": 0.5}}),
        (UsageThreshold, {"expiration_s": -1}),
        (DailyPeak, {"time_zone": "Mars/Base"}),
        (Fresh, {"age_s_max": 0}),
        (Warming, {"coverage_min": 2}),
        (Maxmemory, {"share": 0}),
        (Masters, {"share": -0.1}),
        (MemoryPressure, {"available_min": 1.5}),
        (Fits, {"default_cpu": -1}),
    ],
)
def test_settings_out_of_range_are_refused(kind: type, settings: dict[str, Any]) -> None:
    """A setting out of range is an error that names it."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        kind(**settings)
