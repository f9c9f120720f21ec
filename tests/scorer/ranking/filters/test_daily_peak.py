"""The filter `daily_peak`: the peaks of today and yesterday."""

import pytest

from scorer.ranking.filters.daily_peak import DailyPeak
from scorer.ranking.profiles.catalogue import load_profiles
from tests.scorer.fleets import IDLE, allowed, fleet, machine, passes, request, why

NOON = 1_700_049_600.0
TODAY, BEFORE = 36_000.0, 400_000.0
"""How long ago an instance started: this morning; before yesterday, so that it is in yesterday's peak."""


@pytest.mark.parametrize(
    ("what", "placed", "usage", "room"),
    [
        ("nothing came since", [], 6.0, 4.0),
        ("all that made the peak have left, others came", [(4.0, TODAY), (4.0, TODAY)], 6.0, 4.0),
        ("one came beside those that made it", [(13.0, BEFORE), (1.0, TODAY)], 6.0, 3.0),
        ("a few came in the place of some", [(9.0, BEFORE), (2.0, TODAY), (2.0, TODAY)], 6.0, 3.0),
        ("those here are expected to use more than the peak", [(6.0, TODAY), (8.0, TODAY)], 12.0, 2.0),
        ("those here use more than the peak", [(2.0, TODAY), (2.0, TODAY)], 13.0, 3.0),
    ],
)
def test_instances_in_the_place_of_others_are_not_added_to_the_peak_of_those(what, placed, usage, room):
    """16 cores, yesterday's peak 12: what came since adds to it up to what all that are here are expected to use."""
    host = machine("m", cpu=16, usage={"cpu": usage, "memory": 0}, peak_yesterday={"cpu": 12})
    instances = [
        {"id": f"i{number}", "machine": "m", "cpu": cpu, "placed_ago_s": ago_s}
        for number, (cpu, ago_s) in enumerate(placed)
    ]
    offline = fleet(host, instances=instances, now=NOON)
    plugin = DailyPeak(thresholds={"cpu": 1.0}, days=("yesterday",))
    assert allowed(plugin, offline, request(cpu=room)) == {"m": True}, what
    assert allowed(plugin, offline, request(cpu=room + 0.01)) == {"m": False}, what


@pytest.mark.parametrize("name", ["windward", "variance-and-risk"])
def test_by_default_a_busy_minute_passes_except_of_memory(name):
    """A backup that filled a line for a minute refuses nobody for two days; memory that was full may be so again."""
    plugin = next(each.filter for each in load_profiles(()).choose(name).filters if each.filter.name == "daily_peak")
    machines = [
        machine(
            "line", memory=16e9, capacity={"nic": 1e9}, usage=IDLE, peak_today={"nic": 1e9}, peak_yesterday={"nic": 1e9}
        ),
        machine("cores", cpu=16, memory=16e9, capacity={"nic": 1e9}, usage=IDLE, peak_today={"cpu": 16}),
        machine("memory", memory=16e9, capacity={"nic": 1e9}, usage=IDLE, peak_today={"memory": 16e9}),
    ]
    assert passes(plugin, *machines, cpu=1, memory=1e9, nic=1e8) == "line cores"


def test_daily_peak():
    plugin = DailyPeak(thresholds={"cpu": 0.8})
    machines = [
        machine("today", usage=IDLE, peak_today={"cpu": 8}),
        machine("yesterday", usage=IDLE, peak_today={"cpu": 1}, peak_yesterday={"cpu": 8}),
        machine("low", usage=IDLE, peak_today={"cpu": 5}, peak_yesterday={"cpu": 5}),
        machine("new", usage=IDLE, peak_today={"cpu": 5}),
    ]
    assert passes(plugin, *machines, cpu=1) == "low new"
    assert why(plugin, *machines, cpu=1) == [
        "today's peak of use over threshold",
        "yesterday's peak of use over threshold",
    ]
    assert passes(DailyPeak(thresholds={"cpu": 0.8}, days=("yesterday",)), *machines, cpu=1) == "today low new"
