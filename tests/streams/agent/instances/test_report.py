"""When a report goes, in which samples, in how many parts."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.sample import ENTRIES_MAX, MESSAGE_BYTES_MAX, InstanceMeans, Moments, Sample, decode, encode
from streams.agent.instances.counters import NO_PROCESS, Counters
from streams.agent.instances.meter import Measured, Moment
from streams.agent.instances.report import Reporter, parts
from streams.agent.sampling.counts import Counts

AT = 1_790_000_000.0
CPU = Moments(10, 1.0, 0.5, 2.0, 8.0)


def sample(at):
    return Sample(v=1, machine="m" * 253, boot=1, seq=1, at=at, interval_s=10.0, cpu=CPU, memory=CPU, nic=CPU, disk=CPU)


@dataclass
class Meter:
    ids: list[str] = field(default_factory=lambda: ["a"])
    reads: int = 0

    def read(self, elapsed_s):
        self.reads += 1
        return Moment({name: Counters({NO_PROCESS: 1.0}) for name in self.ids})

    def between(self, before, now, elapsed_s):
        return Measured({name: InstanceMeans(cpu=1.0) for name in now.instances}, InstanceMeans(cpu=0.5))


def reports(meter, samples, interval_s=60.0):
    """Number of the sample, part, parts and interval of each report that goes."""
    counts = Counts()
    reporter = Reporter(meter, interval_s, counts)
    reporter.start(0.0)
    found = []
    for number in range(1, samples + 1):
        report = reporter.attach(sample(AT + 10 * number), 10.0 * number).instance_report
        if report is not None:
            found.append((number, report.part, report.parts, report.interval_s))
    return found, counts


def test_the_first_sample_has_a_report_and_then_one_a_minute():
    """The interval is what passed, by the clock that only goes forward."""
    found, counts = reports(Meter(), 13)
    assert found == [(1, 1, 1, 10.0), (7, 1, 1, 60.0), (13, 1, 1, 60.0)]
    assert (counts.instances, counts.instance_reports) == (1, 3)


def test_a_machine_without_instances_says_nothing():
    found, counts = reports(Meter(ids=[]), 13)
    assert (found, counts) == ([], Counts())


def test_parts_go_one_a_sample_and_no_report_overtakes_another():
    """A report of more parts than samples in its interval makes the next one late."""
    meter = Meter(ids=[f"{'x' * 200}-{n}" for n in range(400)])
    found, _ = reports(meter, 20, interval_s=30.0)
    count = found[0][2]
    assert count > 3
    assert [(number, part) for number, part, _, _ in found[:count]] == [(n, n) for n in range(1, count + 1)]
    assert found[count] == (count + 1, 1, count, 10.0 * count)


def test_a_long_gap_begins_anew():
    counts = Counts()
    reporter = Reporter(Meter(), 60.0, counts)
    reporter.start(0.0)
    assert reporter.attach(sample(AT), 8000.0).instance_report is None
    assert reporter.attach(sample(AT + 60), 8060.0).instance_report is not None


MEANS = st.builds(InstanceMeans, cpu=st.floats(0, 1e16) | st.none(), memory=st.floats(0, 1e16) | st.none())
IDS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=253)


@given(st.dictionaries(IDS, MEANS, min_size=1, max_size=300))
def test_every_part_fits_into_a_sample_and_none_is_lost(entries):
    """All parts together are the report; each is a message that the stream app takes."""
    made = parts(Measured(entries, InstanceMeans(cpu=1.0)), AT, 60.0)
    joined = Counter()
    for part in made:
        raw = encode(msgspec.structs.replace(sample(AT), instance_report=part))
        assert len(raw) <= MESSAGE_BYTES_MAX
        assert decode(raw).instance_report == part
        joined.update(part.entries.keys())
    assert joined == Counter(dict.fromkeys(entries, 1))
    assert [part.system is not None for part in made] == [True] + [False] * (len(made) - 1)


def test_ids_that_cost_the_most_fit():
    entries = {'"\\' * 120 + str(n): InstanceMeans(cpu=1 / 3, memory=1 / 3, nic=1 / 3, disk=1 / 3) for n in range(100)}
    for part in parts(Measured(entries, InstanceMeans()), AT, 60.0):
        assert len(encode(msgspec.structs.replace(sample(AT), instance_report=part))) <= MESSAGE_BYTES_MAX
        assert len(part.entries) <= ENTRIES_MAX
