"""The filter `daily_peak`: the peaks of today and yesterday."""

from __future__ import annotations

from scorer.ranking.filters.daily_peak import DailyPeak
from tests.scorer.fleets import IDLE, allowed, fleet, machine, passes, request, why


def test_an_instance_that_a_peak_shows_is_not_added_to_it() -> None:
    """16 G of memory, an instance of 8 G since 10 h, today's peak 8 G with it in: 4 G more fit, 9 G do not."""
    busy = machine("m", memory=16e9, usage={"cpu": 0, "memory": 8e9}, peak_today={"memory": 8e9})
    since = {"id": "i", "machine": "m", "memory": 8e9, "placed_ago_s": 36_000}
    plugin = DailyPeak(thresholds={"memory": 1.0}, days=("today",))
    for peak in ({}, {"peak_today_ago_s": {"memory": 3600.0}}):
        offline = fleet(busy | peak, instances=[since], now=1_700_049_600.0 - 1.0)
        assert allowed(plugin, offline, request(memory=4e9)) == {"m": True}
        assert allowed(plugin, offline, request(memory=9e9)) == {"m": False}


def test_daily_peak() -> None:
    """Today's and yesterday's peak, with the requested instance, stay below; an unknown peak refuses nobody."""
    plugin = DailyPeak(thresholds={"cpu": 0.8})
    machines = [
        machine("today", usage=IDLE, peak_today={"cpu": 8}),
        machine("yesterday", usage=IDLE, peak_today={"cpu": 1}, peak_yesterday={"cpu": 8}),
        machine("low", usage=IDLE, peak_today={"cpu": 5}, peak_yesterday={"cpu": 5}),
        machine("new", usage=IDLE, peak_today={"cpu": 5}),
    ]
    assert passes(plugin, *machines, cpu=1) == "low new"
    assert why(plugin, *machines, cpu=1) == ["today's peak over threshold", "yesterday's peak over threshold"]
    assert passes(DailyPeak(thresholds={"cpu": 0.8}, days=("yesterday",)), *machines, cpu=1) == "today low new"
