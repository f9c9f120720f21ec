"""Filters: which machines may take the requested instance. Each has its own file, and an entry in `FILTERS`."""

from typing import Any

from scorer.ranking.filters.affinity import Affinity, AntiAffinity
from scorer.ranking.filters.cordon import Cordon
from scorer.ranking.filters.daily_peak import DailyPeak
from scorer.ranking.filters.fits import Fits
from scorer.ranking.filters.fresh import Fresh
from scorer.ranking.filters.machine_name import MachineName
from scorer.ranking.filters.masters import Masters
from scorer.ranking.filters.maxmemory import Maxmemory
from scorer.ranking.filters.memory_pressure import MemoryPressure
from scorer.ranking.filters.ports import Ports
from scorer.ranking.filters.selector import Selector
from scorer.ranking.filters.taints import Taints
from scorer.ranking.filters.usage_threshold import UsageThreshold
from scorer.ranking.filters.warming import Warming

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
