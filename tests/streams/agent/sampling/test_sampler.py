"""From readings to samples, on a clock that the test turns; moments, ticks and phases; the backlog."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.sample import MachineFacts, Moments, Sample, decode, encode
from streams.agent.__main__ import run
from streams.agent.collectors.base import Reading
from streams.agent.collectors.nic import Nic
from streams.agent.rises import ImpossibleRiseError
from streams.agent.sampling.backlog import Backlog, Record
from streams.agent.sampling.readings import Readings
from streams.agent.sampling.sampler import Sampler
from streams.agent.sampling.schedule import Schedule, phase_s

BOOT = 1_790_000_000
SCHEDULE = Schedule(interval_s=10, reading_s=1, phase_s=3.5)


@dataclass
class Gauge:
    """A collector that reads its script; an exception in it is raised."""

    resource: ClassVar[str] = "memory"
    script: list[Any] = field(default_factory=list)
    capacity: float | None = 100.0
    default: float = 1.0

    def read(self):
        """Return the next value, the default after the last."""
        value = self.script.pop(0) if self.script else self.default
        if isinstance(value, Exception):
            raise value
        return float(value)

    def parse(self, before, now, elapsed_s):
        return Reading(now, self.capacity)


class Rate(Gauge):
    resource: ClassVar[str] = "cpu"

    def parse(self, before, now, elapsed_s):
        """Return the difference, None without a read before."""
        return None if before is None else Reading((now - before) / elapsed_s, self.capacity)


class FakeClock:
    """Time passes only by waiting; ``jump`` sets the wall clock, ``pause`` stops the process for a while."""

    def __init__(self, epoch_s, ticks):
        self._epoch_s = epoch_s
        self._monotonic_s = 50.0
        self._ticks = ticks
        self.at_tick = {}
        """By tick: seconds to add to the wall clock and to both clocks, before it."""

    def epoch_s(self):
        return self._epoch_s

    def monotonic_s(self):
        return self._monotonic_s

    def wait(self, seconds):
        """Let time pass; stop after the last tick."""
        jump_s, pause_s = self.at_tick.get(self._ticks, (0.0, 0.0))
        self._epoch_s += seconds + jump_s + pause_s
        self._monotonic_s += seconds + pause_s
        self._ticks -= 1
        return self._ticks < 0


def sampler_of(*collectors, **more):
    return Sampler("m1", BOOT, SCHEDULE, collectors, **more)


def published(sampler, clock, facts_interval_s=1e9):
    """Run the loop to its end and return what it emitted, through the wire format."""
    messages = []
    run(sampler, clock, lambda message: not messages.append(decode(encode(message))), facts_interval_s)
    return messages


def samples(sampler, clock):
    return [message for message in published(sampler, clock) if isinstance(message, Sample)]


def test_a_full_interval_is_published_at_its_nominal_end():
    """Started on an end: ten readings, ``at`` on the phase, numbered from 0."""
    first, second = samples(sampler_of(Gauge()), FakeClock(BOOT + 3.5, ticks=20))
    assert first == Sample(
        v=1, machine="m1", boot=BOOT, seq=0, at=BOOT + 13.5, interval_s=10, memory=Moments(10, 1.0, 0.0, 1.0, 100.0)
    )
    assert (second.seq, second.at) == (1, BOOT + 23.5)


def test_a_first_interval_holds_what_was_left_of_it():
    """Started four seconds before the end: four readings, the nominal end all the same."""
    (sample,) = samples(sampler_of(Gauge()), FakeClock(BOOT + 9.4, ticks=4))
    assert sample.at == BOOT + 13.5
    assert sample.memory.n == 4


def test_a_failing_collector_is_counted_and_its_neighbours_go_on():
    """Two of the CPU's reads raise: memory has all its readings, the CPU loses three (a rate needs two reads)."""
    cpu = Rate(script=[0, 1, 2, OSError("gone"), ValueError("odd"), 5, 6, 7, 8, 9, 10])
    sampler = sampler_of(cpu, Gauge())
    (sample,) = samples(sampler, FakeClock(BOOT + 3.5, ticks=10))
    assert (sample.cpu.n, sample.memory.n) == (7, 10)
    assert sampler.counts.collector_failures == {"cpu": 2}


class Odd(Rate):
    """A counter that rises by at most 10 a second."""

    def parse(self, before, now, elapsed_s):
        if before is not None and not 0 <= now - before <= 10 * elapsed_s:
            raise ImpossibleRiseError(f"{before}, then {now}")
        return super().parse(before, now, elapsed_s)


def test_an_impossible_rise_costs_one_reading(caplog):
    """It is counted, told once, and in the facts until the next ones; the read after it is compared with it."""
    sampler = sampler_of(Odd(script=[0, 5, 10**9, 10**9 + 5, 7, 12, 17, 22, 27, 32, 37]), Gauge())
    (sample,) = samples(sampler, FakeClock(BOOT + 3.5, ticks=10))
    assert sample.cpu == Moments(8, 5.0, 0.0, 5.0, 100.0)
    assert (sampler.counts.impossible, sampler.counts.lacks) == ({"cpu": 2}, {})
    assert [one.message for one in caplog.records] == ["agent.resource.lacking"]
    assert sampler.facts(0.0).lacks == {"cpu": "1000000005.0, then 7.0"}
    assert sampler.facts(0.0).lacks == {}


def test_a_resource_without_any_reading_is_told_once(caplog):
    """A counter that falls at each read: no CPU, and every message of facts says why."""
    sampler = sampler_of(Odd(script=list(range(90, 0, -1))), Gauge(capacity=None))
    published(sampler, FakeClock(BOOT + 3.5, ticks=20))
    assert sampler.counts.lacks.keys() == {"cpu", "memory"}
    assert sorted(one.values["resource"] for one in caplog.records) == ["cpu", "memory"]
    assert sampler.facts(0.0).lacks["memory"] == "its capacity is not known: set capacity memory=AMOUNT"


def test_the_facts_say_which_interfaces_count(sysfs):
    """Those of known speed, as the kernel has them; without a collector of the network nothing."""
    sysfs.add("lo", physical=False).add("eno1").add("eno2", speed="-1").add("br0", physical=False)
    nic = Nic(sysfs=sysfs.folder)
    nic.read()
    assert sampler_of(Gauge(), nic).facts(0.0).interfaces == {"kernel": "eno1"}
    assert sampler_of(Gauge()).facts(0.0).interfaces == {}


def test_usage_is_at_most_a_capacity_that_is_set():
    """A machine of 100, of which it is said that 50 are there."""
    (sample,) = samples(sampler_of(Gauge(default=80.0), capacities={"memory": 50.0}), FakeClock(BOOT + 3.5, ticks=10))
    assert sample.memory == Moments(10, 50.0, 0.0, 50.0, 50.0)


def test_a_resource_of_unknown_capacity_is_left_out():
    messages = published(sampler_of(Rate(capacity=None), Gauge()), FakeClock(BOOT + 3.5, ticks=10))
    facts, sample = messages
    assert sample.cpu is None
    assert facts.capacity == {"memory": 100.0}


def test_a_given_capacity_wins():
    """The setting replaces what is measured, and makes up for what is not."""
    sampler = sampler_of(Rate(capacity=None), Gauge(), capacities={"cpu": 4.0, "memory": 50.0})
    facts, sample = published(sampler, FakeClock(BOOT + 3.5, ticks=10))
    assert (sample.cpu.capacity, sample.memory.capacity) == (4.0, 50.0)
    assert facts.capacity == {"cpu": 4.0, "memory": 50.0}


def test_nothing_is_published_without_a_reading():
    """An interval in which everything failed has no sample."""
    assert not samples(sampler_of(Gauge([OSError()] * 11)), FakeClock(BOOT + 3.5, ticks=10))


def test_facts_follow_the_first_reading_and_then_their_interval():
    """At the start, knowing the capacity, and every 20 s: with labels and version."""
    sampler = sampler_of(Gauge(), labels={"zone": "a"}, agent_version="1.2")
    facts = [m for m in published(sampler, FakeClock(BOOT + 3.5, ticks=50), 20) if isinstance(m, MachineFacts)]
    assert [message.at for message in facts] == [BOOT + 4.5, BOOT + 24.5, BOOT + 44.5]
    assert facts[0] == MachineFacts(
        v=1,
        machine="m1",
        boot=BOOT,
        at=BOOT + 4.5,
        capacity={"memory": 100.0},
        labels={"zone": "a"},
        agent_version="1.2",
    )


def test_a_suspended_machine_publishes_what_it_had_and_rates_nothing_over_the_gap():
    """Asleep for 95 s: the interval in hand goes out with its four readings, a rate across the gap is no reading."""
    clock = FakeClock(BOOT + 3.5, ticks=20)
    clock.at_tick = {16: (0.0, 95.0)}
    counter = Rate(script=[10 * second for second in range(40)])
    first, second, *_ = samples(sampler_of(counter, Gauge()), clock)
    assert first.at == BOOT + 13.5
    assert (first.cpu.n, first.memory.n) == (4, 4)
    assert second.at == BOOT + 103.5
    assert second.cpu is None
    assert second.memory.n == 1


@pytest.mark.parametrize("jump_s", [-3600.0, -0.4, 0.4, 3600.0])
def test_a_wall_clock_that_is_set_costs_at_most_one_reading(jump_s):
    """Rates stay right and every sample lies on an exact multiple plus the phase."""
    clock = FakeClock(BOOT + 3.5, ticks=40)
    clock.at_tick = {25: (jump_s, 0.0)}
    sampler = sampler_of(Rate(script=[0.0], default=0.0), Gauge())
    found = samples(sampler, clock)
    assert all((sample.at - 3.5) % 10 == 0 for sample in found)
    assert sum(sample.memory.n for sample in found if sample.memory) >= 38 - 10
    assert [sample.seq for sample in found] == list(range(len(found)))


def test_the_loop_ends_when_nobody_wants_more():
    messages = []

    def emit(message):
        messages.append(message)
        return not isinstance(message, Sample)

    run(sampler_of(Gauge()), FakeClock(BOOT + 3.5, ticks=1000), emit, 1e9)
    assert [type(message) for message in messages] == [MachineFacts, Sample]


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=60), st.sampled_from([0.0, 1.0, 1e6, 1e9]))
def test_moments_are_numpys(values, offset):
    """n, mean, m2 and max equal numpy's on the same values, also far from zero."""
    readings = Readings()
    shifted = np.array(values) + offset
    for value in shifted.tolist():
        readings.add(value, capacity=5e9)
    moments = readings.moments()
    assert (moments.n, moments.max, moments.capacity) == (len(values), shifted.max(), 5e9)
    assert moments.mean == pytest.approx(shifted.mean(), rel=1e-12, abs=1e-9)
    exact = float(((shifted - offset - (shifted - offset).mean()) ** 2).sum())
    assert moments.m2 == pytest.approx(exact, rel=1e-6, abs=1e-4)
    assert moments.m2 >= 0


def test_readings_of_a_larger_machine_are_dropped():
    """Four busy cores, of which two are switched off: no mean above what there is."""
    readings = Readings()
    readings.add(4.0, capacity=4.0)
    readings.add(1.5, capacity=2.0)
    assert readings.moments() == Moments(n=1, mean=1.5, m2=0.0, max=1.5, capacity=2.0)


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
def test_phase_lies_inside_the_interval(machine, interval_s):
    assert 0.0004 * interval_s < phase_s(machine, interval_s) < 0.9996 * interval_s


def test_phases_spread_a_fleet():
    """A thousand machines do not fire together: no tenth of the interval has more than twice its share."""
    tenths = [int(phase_s(f"db-{number:04d}.example", 10)) for number in range(1000)]
    assert max(tenths.count(tenth) for tenth in range(10)) < 200


@given(SCHEDULES, TIMES)
def test_the_next_tick_is_at_least_half_a_reading_away(schedule, epoch_s):
    """A wake-up a little early never makes a second reading of the same tick."""
    wait_s = schedule.until_next_tick_s(epoch_s)
    assert schedule.reading_s * 0.499 < wait_s <= schedule.reading_s * 1.501
    assert schedule.tick(epoch_s + wait_s) == schedule.tick(epoch_s) + 1


@given(SCHEDULES, TIMES)
def test_an_interval_holds_its_ticks_up_to_its_end(schedule, epoch_s):
    """Of any stretch of ticks as long as an interval one ends it, at its nominal end; the next opens the following."""
    first = schedule.tick(epoch_s)
    last = [tick for tick in range(first, first + schedule.readings) if schedule.ends(tick)]
    assert len(last) == 1
    interval = schedule.interval(last[0])
    assert schedule.end_of(interval) == pytest.approx(last[0] * schedule.reading_s + schedule.phase_s, abs=1e-5)
    assert schedule.interval(last[0] + 1) == interval + 1
    assert schedule.interval(last[0] - schedule.readings + 1) == interval


def records(*numbers):
    return [Record(b"m", str(number).encode()) for number in numbers]


@given(st.integers(1, 8), st.lists(st.one_of(st.integers(0, 5), st.just("back"), st.just("lost")), max_size=40))
def test_whatever_happens_the_newest_are_kept_in_order(limit, steps):
    """Pushing, taking and putting back never reorders, never exceeds the limit, and loses none uncounted."""
    backlog, number, dropped, gone = Backlog(limit), 0, 0, 0
    for step in steps:
        if isinstance(step, int):
            lost = backlog.push(records(*range(number, number + step)))
            number += step
        else:
            taken = backlog.take(2)
            lost = backlog.put_back(taken) if step == "back" else 0
            gone += len(taken) * (step == "lost")
        dropped += lost
        assert len(backlog) == limit or not lost
        assert len(backlog) <= limit
        assert len(backlog) + dropped + gone == number
        held = backlog.take(limit)
        assert held == records(*range(number - len(held), number))
        assert backlog.put_back(held) == 0
