"""Credits: what placed instances add, how it fades as the window absorbs them, and that release removes it at once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tables.learned import Learned
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.profiles.profile import LoadModel
from tests.scorer.fleets import STATISTICS, fleet, machine, see

HOUR = {"windows_s": [300, 900, 3600]}


def credit(model, window=3600, *, machines=None, **instance):
    """Return the cpu credit of one instance of 4 cores on an otherwise idle machine."""
    host = machine("m", usage={"cpu": 0, "memory": 0}, **(machines or {}))
    placed = {"id": "i", "machine": "m", "cpu": 4, **instance}
    offline = fleet(host, instances=[placed], **HOUR)
    return float(see(offline, None, LoadModel(window=window, credits=model)).mean[0, 0])


@pytest.mark.parametrize(
    ("window_s", "ago_s", "expected"),
    [
        (3600, 0, 4.0),
        (3600, 9, 4.0),
        (3600, 10, 4 * 359 / 360),
        (3600, 900, 3.0),
        (3600, 1800, 2.0),
        (3600, 3600, 0.0),
        (3600, 1e6, 0.0),
        (300, 150, 2.0),
        (300, 300, 0.0),
        (900, 450, 2.0),
    ],
)
def test_a_mean_gets_less_as_slots_after_the_start_fill_the_window(window_s, ago_s, expected):
    """Credit = expected * (1 - share of the window's filled slots later than the start), in whole slots."""
    assert credit("window", window_s, placed_ago_s=ago_s) == pytest.approx(expected)


def test_time_is_measured_to_the_windows_end_and_never_to_now():
    """While data is late nothing is absorbed: an instance placed after the window's end counts in full."""
    late = {"age_s": 900}
    assert credit("window", placed_ago_s=900, machines=late) == 4.0
    assert credit("window", placed_ago_s=1800, machines=late) == pytest.approx(3.0)


@pytest.mark.parametrize("state", [{"state": "reserved"}, {"started": False}])
def test_an_instance_not_confirmed_started_counts_in_full(state):
    assert credit("window", placed_ago_s=3000, **state) == 4.0


def test_a_warming_machine_absorbs_by_the_slots_it_has():
    thin = {"cpu": {"mean": 0, "filled": 10, "coverage": 10 / 360}, "memory": 0}
    host = machine("m", windows={"300": thin, "900": thin, "3600": thin})
    placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": 50}]
    offline = fleet(host, instances=placed, **HOUR)
    assert see(offline, None, LoadModel(window=3600)).mean[0, 0] == pytest.approx(2.0)


def test_a_slow_publisher_fills_fewer_slots_and_fades_as_fast():
    """A machine with a minute's interval fills every sixth slot: half an hour absorbs half, as elsewhere."""
    assert credit("window", placed_ago_s=1800, machines={"interval_s": 60}) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("percent", "ago_s", "expected"),
    [(50, 1790, 4.0), (50, 1810, 0.0), (95, 180, 4.0), (95, 190, 0.0), (99, 30, 4.0), (99, 40, 0.0)],
)
def test_a_percentile_gets_all_until_the_share_exceeds_what_lies_above_it(percent, ago_s, expected):
    """p_q gets the credit in full until the share of later slots exceeds 1 - q, then none."""
    placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": ago_s}]
    offline = fleet(machine("m", usage={"cpu": 1, "memory": 0}), instances=placed, **HOUR)
    seen = see(offline, None, LoadModel(window=3600), STATISTICS)
    assert seen.percentile(percent)[0, 0] == pytest.approx(1 + expected)


def test_a_maximum_gets_all_until_the_first_later_slot_and_a_std_nothing():
    """The first slot after the start shows the maximum; the requested instance's own deviation is unknown and 0."""
    for ago_s, expected in ((5, 4.0), (10, 0.0)):
        placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": ago_s}]
        host = machine("m", usage={"cpu": {"mean": 1, "std": 0.5, "max": 2}})
        machines = see(fleet(host, instances=placed, **HOUR), profile=STATISTICS)
        assert machines.max[0, 0] == pytest.approx(2 + expected)
        assert machines.std[0, 0] == pytest.approx(0.5)


NOON = 1_700_049_600.0
"""Noon of a day in UTC; a fleet file's now where a day's hours matter."""
HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("what", "placed_ago_s", "today_ago_s", "yesterday_ago_s", "expected"),
    [
        ("started after both peaks", 60, 5 * HOUR_S, 15 * HOUR_S, (6, 5)),
        ("started before today's peak, this morning", 6 * HOUR_S, 5 * HOUR_S, 15 * HOUR_S, (2, 5)),
        ("started at the very moment of today's peak", 5 * HOUR_S, 5 * HOUR_S, 15 * HOUR_S, (2, 5)),
        ("started this morning after today's peak", 4 * HOUR_S, 5 * HOUR_S, 15 * HOUR_S, (6, 5)),
        ("started yesterday before its peak", 16 * HOUR_S, 5 * HOUR_S, 15 * HOUR_S, (2, 1)),
        ("started yesterday after its peak", 14 * HOUR_S, 5 * HOUR_S, 15 * HOUR_S, (2, 5)),
        ("started before yesterday", 400_000, 5 * HOUR_S, 15 * HOUR_S, (2, 1)),
        ("when is not known, started a minute ago", 60, None, None, (2, 5)),
        ("when is not known, started within the last minute", 50, None, None, (6, 5)),
        ("when is not known, started yesterday", 16 * HOUR_S, None, None, (2, 1)),
    ],
)
def test_a_daily_peak_gets_all_unless_the_instance_had_started_when_the_peak_was(
    what, placed_ago_s, today_ago_s, yesterday_ago_s, expected
):
    """An instance that ran at the time of the peak is in it; where the time is not known, one that a minute shows."""
    host = machine("m", usage={"cpu": 0}, peak_today={"cpu": 2}, peak_yesterday={"cpu": 1})
    for day, ago_s in (("today", today_ago_s), ("yesterday", yesterday_ago_s)):
        if ago_s is not None:
            host[f"peak_{day}_ago_s"] = {"cpu": ago_s}
    placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": placed_ago_s}]
    machines = see(fleet(host, instances=placed, now=NOON, **HOUR))
    assert (machines.peak("today")[0, 0], machines.peak("yesterday")[0, 0]) == expected, what


@given(ago_s=st.floats(0, 200_000), peak_ago_s=st.floats(0, 43_000), more_s=st.floats(0, 50_000))
def test_a_peaks_credit_is_all_or_nothing_and_no_earlier_start_gets_more(ago_s, peak_ago_s, more_s):
    """Of two instances the one that started earlier adds no more to a peak, and neither more than its expected use."""

    def added(ago):
        host = machine("m", usage={"cpu": 0}, peak_today={"cpu": 2}, peak_today_ago_s={"cpu": peak_ago_s})
        placed = [{"id": "i", "machine": "m", "cpu": 4, "placed_ago_s": ago}]
        return float(see(fleet(host, instances=placed, now=NOON, **HOUR)).peak("today")[0, 0]) - 2

    assert added(ago_s) in (0, 4)
    assert added(ago_s + more_s) <= added(ago_s)


@pytest.mark.parametrize(
    ("model", "ago_s", "expected"),
    [
        ("trimaran-60s", 59, 4.0),
        ("trimaran-60s", 60, 0.0),
        ("koordinator-pending", 59, 4.0),
        ("koordinator-pending", 60, 0.0),
        ("none", 0, 0.0),
    ],
)
def test_the_peers_models_are_all_or_nothing(model, ago_s, expected):
    assert credit(model, placed_ago_s=ago_s) == expected


@given(ago_s=st.floats(0, 5000), more_s=st.floats(0, 5000))
def test_a_credit_only_falls_with_time(ago_s, more_s):
    first, later = credit("window", placed_ago_s=ago_s), credit("window", placed_ago_s=ago_s + more_s)
    assert 0 <= later <= first + 1e-9 <= 4 + 1e-9


@pytest.mark.parametrize(
    ("what", "instance", "cpu", "memory"),
    [
        ("not reported", {}, 0.75 * 2.0, 0.75 * 4.0),
        ("reported for as long as it runs", {"usage_since_s": 900.0}, 0.75 * (0.4 * 2.0 + 0.6 * 7.0), 0.75 * 4.0),
        ("reported since ten minutes", {"usage_since_s": 600.0}, 0.75 * (0.5 * 2.0 + 0.5 * 7.0), 0.75 * 4.0),
        ("reported before it came here", {"usage_since_s": 9e4}, 0.75 * (0.4 * 2.0 + 0.6 * 7.0), 0.75 * 4.0),
        ("an earlier instance of its id", {"usage_age_s": 901.0, "usage_since_s": 60.0}, 0.75 * 2.0, 0.75 * 4.0),
        ("its use was said", {"usage_since_s": 600.0, "expected": {"cpu": 1}}, 0.75 * 1.0, 0.75 * 4.0),
        ("a lie", {"usage_since_s": 600.0, "usage": {"cpu": 1e9}}, 0.75 * (0.5 * 2.0 + 0.5 * 4 * 4.0), 0.75 * 4.0),
        ("not started", {"usage_since_s": 600.0, "started": False}, 2.0, 4.0),
    ],
)
def test_what_is_reported_of_an_instance_stands_for_its_estimate(what, instance, cpu, memory):
    """By a profile that learns: half of it after ten minutes of reports since the start; memory stays expected."""
    usage = {} if what == "not reported" else {"usage": {"cpu": 7, "memory": 1}}
    placed = {"id": "i", "machine": "m", "cpu": 4, "memory": 8, "placed_ago_s": 900, **usage, **instance}
    offline = fleet(machine("m", usage={"cpu": 0, "memory": 0}), instances=[placed], **HOUR)
    offline = replace(offline, snapshot=with_learned(offline.snapshot))
    seen = see(offline, None, LoadModel(window=3600, credits="window", learned=True))
    assert seen.mean[:2, 0] == pytest.approx([cpu, memory])
    plain = see(offline, None, LoadModel(window=3600, credits="window"))
    assert plain.mean[0, 0] == pytest.approx(
        (1.0 if "expected" in instance else 4.0) * (1.0 if "started" in instance else 0.75)
    )


def test_where_nothing_is_asked_a_report_changes_nothing():
    """There is no amount that bounds what an agent may say: the profile's estimate stays."""
    placed = {"id": "i", "machine": "m", "memory": 8, "placed_ago_s": 900, "usage": {"cpu": 7}, "usage_since_s": 900.0}
    offline = fleet(machine("m", usage={"cpu": 0, "memory": 0}), instances=[placed], **HOUR)
    offline = replace(offline, snapshot=with_learned(offline.snapshot))
    model = LoadModel(window=3600, credits="window", learned=True, estimate=Estimate(default={"cpu": 3.0}))
    assert see(offline, None, model).mean[0, 0] == pytest.approx(0.75 * 3.0)


def with_learned(snapshot):
    return snapshot.with_use(Learned(version=1, factors={"cpu": 0.5, "memory": 0.5}), snapshot.usages, None)
