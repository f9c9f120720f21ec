"""Filters: which machines may take the newcomer. One a file, all of them in `FILTERS`."""

from __future__ import annotations

from typing import Any

from scorer.filters.affinity import Affinity, AntiAffinity
from scorer.filters.cordon import Cordon
from scorer.filters.daily_peak import DailyPeak
from scorer.filters.fits import Fits
from scorer.filters.fresh import Fresh
from scorer.filters.machine_name import MachineName
from scorer.filters.masters import Masters
from scorer.filters.maxmemory import Maxmemory
from scorer.filters.memory_pressure import MemoryPressure
from scorer.filters.ports import Ports
from scorer.filters.selector import Selector
from scorer.filters.taints import Taints
from scorer.filters.usage_threshold import UsageThreshold
from scorer.filters.warming import Warming

FILTERS: tuple[type[Any], ...] = (
    MachineName,
    Cordon,
    Taints,
    Selector,
    Fresh,
    Warming,
    Fits,
    UsageThreshold,
    DailyPeak,
    MemoryPressure,
    Ports,
    Maxmemory,
    Masters,
    Affinity,
    AntiAffinity,
)
