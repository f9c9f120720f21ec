"""From readings to samples, on a clock that the test turns."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from schemas.messages.sample import MachineFacts, Message, Moments, Sample, decode, encode
from streams.agent.collectors.base import Collector, Reading
from streams.agent.collectors.nic import Nic
from streams.agent.loop import run
from streams.agent.rises import ImpossibleRiseError
from streams.agent.sampling.sampler import Sampler
from streams.agent.sampling.schedule import Schedule
from tests.streams.agent.conftest import Sysfs

BOOT = 1_790_000_000
SCHEDULE = Schedule(interval_s=10, reading_s=1, phase_s=3.5)


@dataclass
class Gauge:
    """A collector that reads its script; an exception in it is raised."""

    resource: ClassVar[str] = "memory"
    script: list[Any] = field(default_factory=list)
    capacity: float | None = 100.0
    default: float = 1.0

    def read(self) -> float:
        """Return the next value, the default after the last."""
        value = self.script.pop(0) if self.script else self.default
        if isinstance(value, Exception):
            raise value
        return float(value)

    def parse(self, before: float | None, now: float, elapsed_s: float) -> Reading | None:
        """Return it as it is."""
        return Reading(now, self.capacity)


class Rate(Gauge):
    """A collector of a counter."""

    resource: ClassVar[str] = "cpu"

    def parse(self, before: float | None, now: float, elapsed_s: float) -> Reading | None:
        """Return the difference, None without a read before."""
        return None if before is None else Reading((now - before) / elapsed_s, self.capacity)


class FakeClock:
    """Time passes only by waiting; ``jump`` sets the wall clock, ``pause`` stops the process for a while."""

    def __init__(self, epoch_s: float, ticks: int) -> None:
        self._epoch_s = epoch_s
        self._monotonic_s = 50.0
        self._ticks = ticks
        self.at_tick: dict[int, tuple[float, float]] = {}
        """By tick: seconds to add to the wall clock and to both clocks, before it."""

    def epoch_s(self) -> float:
        """Return the wall clock."""
        return self._epoch_s

    def monotonic_s(self) -> float:
        """Return the monotonic clock."""
        return self._monotonic_s

    def wait(self, seconds: float) -> bool:
        """Let time pass; stop after the last tick."""
        jump_s, pause_s = self.at_tick.get(self._ticks, (0.0, 0.0))
        self._epoch_s += seconds + jump_s + pause_s
        self._monotonic_s += seconds + pause_s
        self._ticks -= 1
        return self._ticks < 0


def sampler_of(*collectors: Any, **more: Any) -> Sampler:
    """Return a sampler of these collectors."""
    kinds: tuple[Collector, ...] = collectors
    return Sampler("m1", BOOT, SCHEDULE, kinds, **more)


def published(sampler: Sampler, clock: FakeClock, facts_interval_s: float = 1e9) -> list[Message]:
    """Run the loop to its end and return what it emitted, through the wire format."""
    messages: list[Message] = []
    run(sampler, clock, lambda message: not messages.append(decode(encode(message))), facts_interval_s)
    return messages


def samples(sampler: Sampler, clock: FakeClock) -> list[Sample]:
    """Return the samples alone."""
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
    assert sample.memory is not None
    assert sample.memory.n == 4


def test_a_burst_between_two_messages_is_not_lost():
    """Mean, spread and maximum are those of the readings."""
    script = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 11]
    (sample,) = samples(sampler_of(Gauge(script)), FakeClock(BOOT + 3.5, ticks=10))
    assert sample.memory == Moments(10, 2.0, pytest.approx(90.0), 11.0, 100.0)


def test_a_rate_is_divided_by_the_time_that_passed():
    """Ten a second, whatever the wall clock says meanwhile."""
    clock = FakeClock(BOOT + 3.5, ticks=10)
    counter = Rate(script=[10 * second for second in range(40)])
    (sample,) = samples(sampler_of(counter), clock)
    assert sample.cpu == Moments(10, 10.0, 0.0, 10.0, 100.0)


def test_a_failing_collector_is_counted_and_its_neighbours_go_on():
    """Two of the CPU's reads raise: memory has all its readings, the CPU loses three (a rate needs two reads)."""
    cpu = Rate(script=[0, 1, 2, OSError("gone"), ValueError("odd"), 5, 6, 7, 8, 9, 10])
    sampler = sampler_of(cpu, Gauge())
    (sample,) = samples(sampler, FakeClock(BOOT + 3.5, ticks=10))
    assert sample.cpu is not None
    assert sample.memory is not None
    assert (sample.cpu.n, sample.memory.n) == (7, 10)
    assert sampler.counts.collector_failures == {"cpu": 2}


class Odd(Rate):
    """A counter that rises by at most 10 a second."""

    def parse(self, before: float | None, now: float, elapsed_s: float) -> Reading | None:
        """Return the difference."""
        if before is not None and not 0 <= now - before <= 10 * elapsed_s:
            raise ImpossibleRiseError(f"{before}, then {now}")
        return super().parse(before, now, elapsed_s)


def test_an_impossible_rise_costs_one_reading(caplog: pytest.LogCaptureFixture):
    """It is counted, told once, and in the facts until the next ones; the read after it is compared with it."""
    sampler = sampler_of(Odd(script=[0, 5, 10**9, 10**9 + 5, 7, 12, 17, 22, 27, 32, 37]), Gauge())
    (sample,) = samples(sampler, FakeClock(BOOT + 3.5, ticks=10))
    assert sample.cpu == Moments(8, 5.0, 0.0, 5.0, 100.0)
    assert (sampler.counts.impossible, sampler.counts.lacks) == ({"cpu": 2}, {})
    assert [one.message for one in caplog.records] == ["agent.resource.lacking"]
    assert sampler.facts(0.0).lacks == {"cpu": "1000000005.0, then 7.0"}
    assert sampler.facts(0.0).lacks == {}


def test_a_resource_without_any_reading_is_told_once(caplog: pytest.LogCaptureFixture):
    """A counter that falls at each read: no CPU, and every message of facts says why."""
    sampler = sampler_of(Odd(script=list(range(90, 0, -1))), Gauge(capacity=None))
    published(sampler, FakeClock(BOOT + 3.5, ticks=20))
    assert sampler.counts.lacks.keys() == {"cpu", "memory"}
    assert sorted(one.values["resource"] for one in caplog.records) == ["cpu", "memory"]
    assert sampler.facts(0.0).lacks["memory"] == "its capacity is not known: set capacity memory=AMOUNT"


def test_the_facts_say_which_interfaces_count(sysfs: Sysfs) -> None:
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
    """Neither the sample nor the facts mention it: absent never means idle."""
    messages = published(sampler_of(Rate(capacity=None), Gauge()), FakeClock(BOOT + 3.5, ticks=10))
    facts, sample = messages
    assert isinstance(facts, MachineFacts)
    assert isinstance(sample, Sample)
    assert sample.cpu is None
    assert facts.capacity == {"memory": 100.0}


def test_a_given_capacity_wins():
    """The setting replaces what is measured, and makes up for what is not."""
    sampler = sampler_of(Rate(capacity=None), Gauge(), capacities={"cpu": 4.0, "memory": 50.0})
    facts, sample = published(sampler, FakeClock(BOOT + 3.5, ticks=10))
    assert isinstance(facts, MachineFacts)
    assert isinstance(sample, Sample)
    assert sample.cpu is not None
    assert sample.memory is not None
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
    assert first.cpu is not None
    assert first.memory is not None
    assert (first.cpu.n, first.memory.n) == (4, 4)
    assert second.at == BOOT + 103.5
    assert second.cpu is None
    assert second.memory is not None
    assert second.memory.n == 1


@pytest.mark.parametrize("jump_s", [-3600.0, -0.4, 0.4, 3600.0])
def test_a_wall_clock_that_is_set_costs_at_most_one_reading(jump_s: float):
    """Rates stay right and every sample lies on an exact multiple plus the phase."""
    clock = FakeClock(BOOT + 3.5, ticks=40)
    clock.at_tick = {25: (jump_s, 0.0)}
    counter = Rate(script=[0.0], default=0.0)
    sampler = sampler_of(counter, Gauge())
    found = samples(sampler, clock)
    assert all((sample.at - 3.5) % 10 == 0 for sample in found)
    assert sum(sample.memory.n for sample in found if sample.memory) >= 38 - 10
    assert [sample.seq for sample in found] == list(range(len(found)))


def test_the_loop_ends_when_nobody_wants_more():
    """``emit`` returning False is the last call."""
    messages: list[Message] = []

    def emit(message: Message) -> bool:
        messages.append(message)
        return not isinstance(message, Sample)

    run(sampler_of(Gauge()), FakeClock(BOOT + 3.5, ticks=1000), emit, 1e9)
    assert [type(message) for message in messages] == [MachineFacts, Sample]
