"""Peaks of local days against the oracle: odd offsets, clock changes, midnight, gaps, and how far back they reach."""

import math
from datetime import datetime
from functools import cache
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.sample import encode
from streams.fold.batch import Arrived
from streams.fold.fold import fold
from streams.fold.peaks import Zone, day_peaks
from streams.fold.ring import HOURS, R, Ring, slot_of
from streams.fold.table import Table
from streams.state.partition import Partition
from tests.effort import LONG, examples
from tests.streams import oracle
from tests.streams.batches import START, batch_of, sample

HOUR = 3600
ROW = np.array([0])
BATCH = 180


def epoch(zone, *moment):
    return datetime(*moment, tzinfo=ZoneInfo(zone)).timestamp()


@cache
def load(begin):
    """Slot means [slots, R] of three days with a peak in some minute of most hours."""
    rng = np.random.default_rng(begin)
    return rng.uniform(0, 10, (3 * 8640, R)) + 50 * (rng.random((3 * 8640, 1)) < 0.01)


def wanted(slots, means, begin, end):
    """The highest one-minute mean of [begin, end) straight from the slots; NaN when there is none.

    The minute that is not over counts only if there is no other.
    """
    inside = (slots * 10 >= begin) & (slots * 10 < end)
    over = inside & ((slots // 6 < slots[-1] // 6) | (slots[-1] % 6 == 5))
    inside = over if over.any() else inside
    minutes, place = np.unique(slots[inside] // 6, return_inverse=True)
    if not len(minutes):
        return np.full(R, np.nan)
    sums = np.zeros((len(minutes), R))
    np.add.at(sums, place, means[inside])
    return (sums / np.bincount(place)[:, None]).max(axis=0)


def fold_from(begin, end, zone, keep=None):
    """Fold what lies between two moments in batches, as a worker would in that zone; return slots and means too."""
    ring, cut = Ring(), Zone(zone)
    slots = np.arange(int(begin // 10), int(end // 10))
    means = load(int(begin))[: len(slots)]
    if keep is not None:
        slots, means = slots[keep(slots)], means[keep(slots)]
    for start in range(0, len(slots), BATCH):
        part = slice(start, start + BATCH)
        at = slots[part] * 10.0 + 7
        batch = batch_of(["m"] * len(at), at, means[part])
        fold(ring, batch, cut.shift_minutes(float(batch.recorded_at[-1])))
    return ring, slots, means


def assert_peaks(ring, slots, means, zone):
    """Today's and yesterday's peak are the oracle's for the local days of the newest slot."""
    got = day_peaks(ring, ROW, Zone(zone))
    yesterday, today, tomorrow = oracle.zone_days(float(slots[-1] * 10), zone)
    assert got["peak_day"][0] == today
    np.testing.assert_allclose(got["peak_today"][0], wanted(slots, means, today, tomorrow), rtol=1e-6)
    np.testing.assert_allclose(got["peak_yesterday"][0], wanted(slots, means, yesterday, today), rtol=1e-6)
    for name, begin, end in (("today", today, tomorrow), ("yesterday", yesterday, today)):
        assert_time_of_peak(got, name, slots, means, begin, end)
    return got


def assert_time_of_peak(got, name, slots, means, begin, end):
    """The highest minute is in the hour, or is the minute, that the column names; an earlier hour is not as high."""
    at = got["peak_day"][0] + got[f"peak_{name}_s"][0].astype(np.float64)
    peak = got[f"peak_{name}"][0]
    np.testing.assert_array_equal(np.isnan(at), np.isnan(peak))
    for r in np.flatnonzero(np.isfinite(at)):
        assert begin - HOUR < at[r] < end
        inside = wanted(slots, means, max(begin, at[r]), min(end, at[r] + HOUR))
        np.testing.assert_allclose(inside[r], peak[r], rtol=1e-6)


ZONES = [
    ("UTC", "UTC", (2026, 6, 10)),
    ("half an hour: India", "Asia/Kolkata", (2026, 6, 10)),
    ("three quarters: Nepal", "Asia/Kathmandu", (2026, 6, 10)),
    ("minus half an hour: Newfoundland", "America/St_Johns", (2026, 6, 10)),
    ("west of the date line", "Pacific/Kiritimati", (2026, 6, 10)),
    ("spring in Berlin, 23 hours", "Europe/Berlin", (2026, 3, 29)),
    ("the day after spring in Berlin", "Europe/Berlin", (2026, 3, 30)),
    ("autumn in Berlin, 25 hours", "Europe/Berlin", (2026, 10, 25)),
    ("the day after autumn in Berlin", "Europe/Berlin", (2026, 10, 26)),
    ("three quarters and a clock change: Chatham", "Pacific/Chatham", (2026, 9, 27)),
    ("midnight twice: Havana in autumn", "America/Havana", (2026, 11, 1)),
    ("no midnight: Havana in spring", "America/Havana", (2026, 3, 8)),
]


INTO_S = [10, 40 * 60, 2 * HOUR, 12 * HOUR + 50, 22 * HOUR + 1800][:: 1 if LONG else 4]


@pytest.mark.long
@pytest.mark.parametrize(("name", "zone", "day"), ZONES)
@pytest.mark.parametrize("into_s", INTO_S)
def test_peaks_are_of_local_days(name, zone, day, into_s):
    """At any hour of the day, both days are whole: from the first minute of yesterday, 48 hours back and more."""
    today = oracle.zone_days(epoch(zone, *day, 12), zone)[1]
    ring, slots, means = fold_from(today - 27 * HOUR, today + into_s, zone)
    got = assert_peaks(ring, slots, means, zone)
    assert got["peak_since"][0] <= oracle.zone_days(today, zone)[0], name


@pytest.mark.parametrize(("name", "zone", "day"), ZONES)
def test_the_last_minute_of_a_day_is_still_its_own(name, zone, day):
    """Just before and after midnight, also where the day has 23 or 25 hours."""
    _, today, tomorrow = oracle.zone_days(epoch(zone, *day, 12), zone)
    ring, slots, means = fold_from(today - 25 * HOUR, tomorrow, zone)
    before = assert_peaks(ring, slots, means, zone)
    assert before["peak_day"][0] == today, name
    slots, means = np.append(slots, slots[-1] + 1), load(int(today - 25 * HOUR))[: len(slots) + 1]
    batch = batch_of(["m"], slots[-1:] * 10.0 + 7, means[-1:])
    fold(ring, batch, Zone(zone).shift_minutes(float(batch.recorded_at[-1])))
    after = assert_peaks(ring, slots, means, zone)
    assert after["peak_day"][0] == tomorrow
    np.testing.assert_array_equal(after["peak_yesterday"], before["peak_today"])


@pytest.mark.parametrize(
    ("name", "begins_before_s", "partial_yesterday", "partial_today"),
    [
        ("since long before", 26 * HOUR, False, False),
        ("since yesterday's midnight", 24 * HOUR, False, False),
        ("since yesterday noon", 12 * HOUR, True, False),
        ("since midnight", 0, True, False),
        ("since an hour ago", -11 * HOUR, True, True),
    ],
)
def test_peaks_say_since_when_they_know(name, begins_before_s, partial_yesterday, partial_today):
    """``peak_since`` later than a day's start marks that day's peak as partial."""
    zone = "Asia/Kolkata"
    yesterday, today, _ = oracle.zone_days(epoch(zone, 2026, 6, 10, 12), zone)
    ring, slots, means = fold_from(today - begins_before_s, today + 12 * HOUR, zone)
    since = float(assert_peaks(ring, slots, means, zone)["peak_since"][0])
    assert (since > yesterday, since > today) == (partial_yesterday, partial_today), name
    if partial_yesterday:
        assert since == slots[0] // 6 * 60


@settings(max_examples=examples(15, 250), deadline=None)
@given(
    gaps=st.lists(st.tuples(st.integers(0, 52 * 360), st.integers(1, 9000)), max_size=5),
    zone=st.sampled_from([z for _, z, _ in ZONES]),
    late=st.integers(0, 300),
)
def test_gaps_hide_only_what_fell_into_them(gaps, zone, late):
    begin = epoch(zone, 2026, 10, 24)

    def keep(slots):
        there = np.ones(len(slots), bool)
        for start, length in gaps:
            there &= ~((slots >= begin // 10 + start) & (slots < begin // 10 + start + length))
        there[-1] = True
        return there

    ring, slots, means = fold_from(begin, begin + 40 * HOUR + late * 60, zone, keep)
    assert_peaks(ring, slots, means, zone)


@pytest.mark.parametrize(("interval_s", "each_minute"), [(10, 6), (30, 2), (60, 1)])
def test_a_peak_does_not_fall_while_its_minute_fills(interval_s, each_minute):
    """A minute that begins with a burst counts when it is over, with its mean; today's peak only rises."""
    begin = epoch("UTC", 2026, 6, 10, 3)
    ring, seen = Ring(), []
    for step in range(each_minute * 3):
        minute, part = divmod(step, each_minute)
        mean = 60.0 if minute == 1 and part == 0 else 6.0
        fold(ring, batch_of(["m"], begin + (step + 1) * interval_s - 1, [mean], interval_s=interval_s))
        seen.append(float(day_peaks(ring, ROW, Zone())["peak_today"][0, 0]))
    assert seen == sorted(seen)
    assert seen[-1] == (60.0 + 6.0 * (each_minute - 1)) / each_minute
    if each_minute > 1:
        assert seen[each_minute * 2 - 2] == 6.0


def test_machines_in_different_days_each_get_their_own():
    """Around midnight one machine is in the new day while another is still in the old one."""
    midnight = epoch("Europe/Berlin", 2026, 6, 10)
    ring, zone = Ring(), Zone("Europe/Berlin")
    fold(ring, batch_of(["early", "late"], [midnight - 1000, midnight - 1000], [9.0, 8.0]))
    fold(ring, batch_of(["early", "late"], [midnight - 5, midnight + 5], [1.0, 2.0]))
    got = day_peaks(ring, np.array([0, 1]), zone)
    assert list(got["peak_day"]) == [midnight - 24 * HOUR, midnight]
    assert list(got["peak_today"][:, 0]) == [9.0, 2.0]
    assert math.isnan(got["peak_yesterday"][0, 0])
    assert got["peak_yesterday"][1, 0] == 8.0


def test_an_unknown_zone_is_refused_by_name():
    for name in ("Mars/Olympus", "", "../etc/passwd"):
        with pytest.raises(ValueError, match=r"^time_zone: ") as error:
            Zone(name)
        assert repr(name) in str(error.value)


@pytest.mark.parametrize(
    ("name", "at", "slot"),
    [
        ("end of the first slot", 10.0, 0),
        ("just after it", 10.000001, 1),
        ("inside the second", 15.0, 1),
        ("end of the second", 20.0, 1),
        ("the epoch", 0.0, -1),
        ("just after the epoch", 1e-9, 0),
        ("a time of today", 1_790_000_000.0, 178_999_999),
        ("the latest that is read", 1e11, 9_999_999_999),
    ],
)
def test_an_interval_belongs_to_the_slot_it_ends_in(name, at, slot):
    """A slot holds the moment just before the interval's end."""
    assert slot_of(np.array([at]))[0] == slot, name


SLOTS = 500
LOG_BATCH = 20


def log():
    """Samples of two machines over more than an hour; those of one begin late."""
    samples = [sample(m, slot, seq=slot) for slot in range(SLOTS) for m in ("a", "b") if slot >= 150 or m == "a"]
    return [Arrived(n, encode(one), one.at + 0.05, one.machine.encode()) for n, one in enumerate(samples)]


def partition(zone):
    return Partition(0, Table((300, 900, 3600), Zone(zone)))


@pytest.mark.parametrize(
    ("zone", "lost", "first_slot", "while_read", "known_from"),
    [
        pytest.param("UTC", 0, 0, (60, 60), (0, 25), id="the whole log"),
        pytest.param("UTC", 0, 100, (60, 60), (16, 25), id="from within the hour"),
        pytest.param("UTC", 0, 150, (60, 60), (25, 25), id="from where the other machine begins"),
        pytest.param("UTC", 0, 365, (60, 60), (60, 60), id="from after it"),
        pytest.param("Asia/Kolkata", 0, 0, (30, 30), (0, 25), id="hours cut at half past: the whole log"),
        pytest.param("Asia/Kolkata", 0, 100, (30, 30), (16, 25), id="hours cut at half past: from within the hour"),
        pytest.param("Asia/Kolkata", 0, 365, (30, 30), (30, 30), id="hours cut at half past: from after it"),
        pytest.param("UTC", 5, 0, (0, 25), (0, 25), id="an hour in which nothing was"),
    ],
)
def test_a_lost_hour(zone, lost, first_slot, while_read, known_from):
    """While the log is read the peaks are known from its end on, then from where the log begins (minutes)."""
    whole, again, messages = partition(zone), partition(zone), log()
    for state in (whole, again):
        for first in range(0, len(messages), LOG_BATCH):
            state.fold(messages[first : first + LOG_BATCH])
    place = (START // 3600 + (lost - HOURS if lost else 0)) % HOURS
    again.ring.peak[:, :, place] = np.nan
    again.rebuild(again.lost_positions, {place})
    if not lost:
        assert tuple(again.ring.first_minute[:2] - START // 60) == while_read
    again.fold([one for one in messages if one.recorded_at > START + first_slot * 10])
    assert again.end_rebuild() == 0
    assert tuple(again.ring.first_minute[:2] - START // 60) == known_from
    assert place in again.hours
    if not first_slot:
        np.testing.assert_array_equal(again.ring.peak[:2], whole.ring.peak[:2])
        assert np.isnan(again.ring.peak[:2, :, place]).all() == bool(lost)
