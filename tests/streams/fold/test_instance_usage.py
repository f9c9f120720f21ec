"""Usage by instance: each report counts once, by its time; what is kept is bounded; nothing depends on a clock."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.messages.sample import InstanceMeans, InstanceReport
from schemas.resources import RESOURCES
from schemas.tables.instance_table import COLUMNS, DAILY_S, RECENT_S, pair_name
from streams.fold import instance_usage
from streams.fold.instance_usage import InstanceUsage, within_bounds
from streams.fold.peaks import Zone

START = 1_790_000_000.0
DAYS = Zone().day_numbers


def report(at, system=None, **cpu):
    """A report of instances' cores, ``at`` seconds after START."""
    entries = {name: InstanceMeans(cpu=used, memory=None if used is None else used * 1e9) for name, used in cpu.items()}
    return InstanceReport(
        at=START + at, interval_s=60.0, entries=entries, system=None if system is None else InstanceMeans(cpu=system)
    )


def state(usage):
    return {
        name: {column: getattr(usage, column)[..., row].tolist() for column in COLUMNS}
        for name, row in sorted(usage.row.items())
    }


def applied(*reports, **more):
    """The figures after these reports, each applied by itself."""
    usage = InstanceUsage(**more)
    for one in reports:
        usage.apply([one], DAYS)
    return usage


def figure(usage, name, machine, instance_id):
    """One figure of one pair; of CPU where it has resources."""
    values = getattr(usage, name)[..., usage.row[pair_name(machine, instance_id)]]
    return float(values[0]) if values.ndim else float(values)


def test_no_pair_takes_more_than_64_bytes():
    usage = applied(("m", report(0, a=1.0)))
    per_pair = sum(getattr(usage, name)[..., 0].nbytes for name in COLUMNS)
    assert per_pair - 8 * (len(RESOURCES) - 4) <= 64


def oracle(values):
    """The formulas of `schemas.tables.instance_table`, one report after another, of (time, cores)."""
    recent = daily = variance = peak = math.nan
    before = None
    for count, (at, cores) in enumerate(values):
        weights = [max(1 / (count + 1), 1 - math.exp(-(at - (before or at)) / tau)) for tau in (RECENT_S, DAILY_S)]
        if before is None or (START + before - 1e-9) // 86_400 != (START + at - 1e-9) // 86_400:
            peak = math.nan
        before = at
        if cores is None:
            continue
        distance = 0.0 if math.isnan(daily) else cores - daily
        variance = (1 - weights[1]) * ((0 if math.isnan(variance) else variance) + weights[1] * distance**2)
        recent = cores if math.isnan(recent) else recent + weights[0] * (cores - recent)
        daily = cores if math.isnan(daily) else daily + weights[1] * distance
        peak = cores if math.isnan(peak) else max(peak, cores)
    return recent, daily, variance, peak


STEPS = st.lists(st.tuples(st.floats(10, 40_000), st.floats(0, 64, width=32) | st.none()), min_size=1, max_size=30)


@given(STEPS)
def test_the_figures_are_those_of_the_formulas(steps):
    """Whatever the pace, with gaps of hours and reports that do not know a resource."""
    times = np.cumsum([step for step, _ in steps]).tolist()
    values = [(at, cores) for at, (_, cores) in zip(times, steps, strict=True)]
    usage = applied(*(("m", report(at, a=cores)) for at, cores in values))
    got = [figure(usage, name, "m", "a") for name in ("recent", "daily", "variance", "day_peak")]
    np.testing.assert_allclose(got, oracle(values), rtol=1e-4, atol=1e-4)
    assert figure(usage, "count", "m", "a") == len(values)
    assert figure(usage, "at", "m", "a") == START + times[-1]


LOG = st.lists(
    st.tuples(st.sampled_from("mn"), st.integers(0, 40), st.dictionaries(st.sampled_from("abc"), st.floats(0, 8))),
    max_size=40,
)


@given(LOG, st.data())
@settings(deadline=None)
def test_batches_and_repeats_change_nothing(log, data):
    """However the log is cut, and with any part of it read again, the figures are those of one by one, once."""
    reports = [(machine, report(60.0 * at, **cpu)) for (machine, at), cpu in {one[:2]: one[2] for one in log}.items()]
    once = applied(*reports)
    usage = InstanceUsage()
    place = 0
    while place < len(reports):
        size = data.draw(st.integers(1, 10))
        usage.apply(reports[place : place + size], DAYS)
        place += size
    assert repr(state(usage)) == repr(state(once))
    again = reports[data.draw(st.integers(0, len(reports))) :]
    result = usage.apply(again, DAYS)
    assert (result.applied, result.evicted) == (0, 0)
    assert result.late >= sum(len(one.entries) for _, one in again)
    assert repr(state(usage)) == repr(state(once))


def test_a_late_report_makes_no_instance():
    """What ended before the machine's last report is not brought back by an older one."""
    usage = applied(("m", report(120, a=1.0)))
    result = usage.apply([("m", report(60, a=2.0, gone=1.0))], DAYS)
    assert (result.applied, result.late) == (0, 2)
    assert list(usage.row) == [pair_name("m", ""), pair_name("m", "a")]


def test_parts_of_a_report_count_each():
    parts = [report(60, system=0.5, a=1.0), report(60, b=2.0)]
    usage = applied(("m", parts[0]), ("m", parts[1]))
    assert [figure(usage, "recent", "m", name) for name in ("", "a", "b")] == [0.5, 1.0, 2.0]
    assert usage.instances == 2


def test_what_was_there_before_the_first_report_is_partial():
    """An instance of a machine's first report may be older; one that comes later has all its past here."""
    usage = applied(("m", report(0, a=1.0)), ("m", report(60, a=1.0, b=1.0)), ("n", report(60, c=1.0)))
    assert {name.replace("\t", "/"): int(usage.partial[row]) for name, row in usage.row.items()} == {
        "m/": 1, "m/a": 1, "m/b": 0, "n/": 1, "n/c": 1,
    }  # fmt: skip
    assert figure(usage, "since", "m", "b") == START + 60


def test_the_peak_is_of_the_local_day():
    """Days are cut where the setting says; a report that ends at midnight is of the day before."""
    midnight = 1_790_035_200.0 - START  # in UTC
    usage = applied(*(("m", report(midnight + after, a=cores)) for after, cores in ((-60, 5.0), (0, 7.0), (60, 1.0))))
    assert figure(usage, "day_peak", "m", "a") == 1.0
    india = InstanceUsage()
    for after, cores in ((-60, 5.0), (60, 1.0)):
        india.apply([("m", report(midnight + after, a=cores))], Zone("Asia/Kolkata").day_numbers)
    assert figure(india, "day_peak", "m", "a") == 5.0


def test_beyond_the_bound_the_longest_silent_go():
    """A tenth at once, counted; who reported lately stays."""
    usage = InstanceUsage(pairs_max=20)
    for number in range(18):
        usage.apply([(f"m{number}", report(60.0 * number, a=1.0))], DAYS)
    assert len(usage) <= 20
    assert pair_name("m17", "a") in usage.row
    assert pair_name("m0", "a") not in usage.row
    result = usage.apply([("x", report(9_000, **{f"i{n}": 1.0 for n in range(5)}))], DAYS)
    assert result.evicted > 0
    assert {pair_name("x", f"i{n}") for n in range(5)} <= usage.row.keys()


def test_a_machine_that_makes_up_ids_drives_out_its_own(monkeypatch):
    """Others keep theirs, although they are silent for longer."""
    monkeypatch.setattr(instance_usage, "MACHINE_PAIRS_MAX", 10)
    usage = applied(("honest", report(0, a=1.0)))
    for minute in range(1, 20):
        usage.apply([("rogue", report(60.0 * minute, **{f"i{minute}-{n}": 1.0 for n in range(4)}))], DAYS)
    assert pair_name("honest", "a") in usage.row
    assert pair_name("rogue", "i19-3") in usage.row
    assert len(usage) <= 2 + 10


def test_the_silent_and_the_forgotten_are_dropped():
    """By the time of their last report; figures of the others stay as they are."""
    usage = applied(("m", report(0, a=1.0)), ("n", report(60, b=2.0)), ("m", report(120, c=3.0)))
    before = state(usage)
    assert usage.drop_silent(START + 50) == 1
    assert usage.forget({"n": START + 59, "unknown": START + 999}) == 0
    assert usage.forget({"n": START + 60}) == 2
    usage.changed = False
    assert usage.forget({"n": START + 60}) == 0
    assert not usage.changed
    left = [pair_name("m", ""), pair_name("m", "c")]
    assert repr(state(usage)) == repr({name: before[name] for name in left})
    usage.apply([("m", report(180, c=3.0))], DAYS)
    assert figure(usage, "count", "m", "c") == 2


pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=60)


@given(pairs, st.integers(1, 40), st.integers(1, 20))
def test_the_bounds_hold_and_the_newest_stay(rows, most, of_machine):
    """No machine has more than it may, nor all together; what goes is not newer than what stays of its machine."""
    machines = np.array([machine for machine, _ in rows], np.intp)
    at = np.array([float(moment) for _, moment in rows])
    kept = within_bounds(machines, at, most, of_machine)
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert len(kept) <= most
    assert np.bincount(machines[kept], minlength=1).max() <= of_machine
    gone = np.setdiff1d(np.arange(len(rows)), kept)
    for machine in np.unique(machines[gone]):
        here, left = at[kept[machines[kept] == machine]], at[gone[machines[gone] == machine]]
        assert not here.size or here.min() >= left.max()
    if len(rows) <= most and np.bincount(machines, minlength=1).max() <= of_machine:
        assert len(kept) == len(rows)


def test_more_than_the_machine_has_is_not_measured():
    """A counter that leapt costs its own number: not the memory beside it, no other, nor what was known before."""
    usage, most = InstanceUsage(), np.full((1, len(RESOURCES)), np.nan)
    most[0, 0] = 4.0 * 1.01
    for number, cpu in enumerate((1.0, 4e9, 1.0)):
        result = usage.apply([("m", report(60.0 * number, 0.5, leaps=cpu, other=3.9))], DAYS, most)
        assert (result.applied, result.excess) == (3, int(cpu > 4))
    leaps, other = (usage.row[pair_name("m", name)] for name in ("leaps", "other"))
    assert usage.recent[0, [leaps, other]].tolist() == pytest.approx([1.0, 3.9])
    assert usage.recent[1, leaps] > 1e9, "its memory of the second report counts"
    assert usage.day_peak[0, leaps] == 1.0
