"""Ticks, intervals and phases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.agent.sampling.schedule import Schedule, phase_s

MACHINES = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-", min_size=1, max_size=40)
SCHEDULES = st.builds(
    lambda reading_s, readings, machine: Schedule(
        reading_s * readings, reading_s, phase_s(machine, reading_s * readings)
    ),
    st.sampled_from([0.5, 1.0, 2.0, 5.0]),
    st.sampled_from([10, 12, 30, 60]),
    MACHINES,
)
TIMES = st.floats(1.6e9, 2.0e9)


@given(MACHINES, st.sampled_from([10.0, 15.0, 60.0, 3600.0]))
def test_phase_lies_inside_the_interval(machine: str, interval_s: float):
    """Never on an end, where rounding could move a sample to the next slot."""
    assert 0.0004 * interval_s < phase_s(machine, interval_s) < 0.9996 * interval_s


def test_phases_spread_a_fleet():
    """A thousand machines do not fire together: no tenth of the interval has more than twice its share."""
    tenths = [int(phase_s(f"db-{number:04d}.example", 10)) for number in range(1000)]
    assert max(tenths.count(tenth) for tenth in range(10)) < 200


@given(SCHEDULES, TIMES)
def test_the_next_tick_is_at_least_half_a_reading_away(schedule: Schedule, epoch_s: float):
    """A wake-up a little early never makes a second reading of the same tick."""
    wait_s = schedule.until_next_tick_s(epoch_s)
    assert schedule.reading_s * 0.499 < wait_s <= schedule.reading_s * 1.501
    assert schedule.tick(epoch_s + wait_s) == schedule.tick(epoch_s) + 1


@given(SCHEDULES, TIMES)
def test_an_interval_holds_its_ticks_up_to_its_end(schedule: Schedule, epoch_s: float):
    """Of any stretch of ticks as long as an interval one ends it, at its nominal end; the next opens the following."""
    first = schedule.tick(epoch_s)
    last = [tick for tick in range(first, first + schedule.readings) if schedule.ends(tick)]
    assert len(last) == 1
    interval = schedule.interval(last[0])
    assert schedule.end_of(interval) == pytest.approx(schedule.tick_at(last[0]), abs=1e-5)
    assert schedule.interval(last[0] + 1) == interval + 1
    assert schedule.interval(last[0] - schedule.readings + 1) == interval


def test_a_reading_that_does_not_divide_the_interval_is_refused():
    """Seven seconds do not fill ten."""
    with pytest.raises(ValueError, match="reading_s"):
        Schedule(10, 7, 0.5)
