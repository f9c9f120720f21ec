"""Intervals of a fleet: their times, their moments, their order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from schemas.messages.sample import decode
from schemas.resources import RESOURCES
from streams.agent.sampling.schedule import Schedule, phase_s
from streams.load_generator.source.generator import Generator
from streams.load_generator.source.messages import Messages
from streams.load_generator.source.source import BLOCK_MACHINES, Columns, Replay, reduce_readings

NOW_S = 1_790_000_000.0
NAN = float("nan")


@given(
    hnp.arrays(np.float64, st.tuples(st.just(3), st.integers(1, 12), st.integers(1, 5)), elements=st.floats(0, 1e3)),
    st.sampled_from([0.0, 1e9]),
    st.data(),
)
def test_moments_are_numpys_over_what_was_read(usage, offset, data):
    """n, mean, m2 and max of the readings that are there; none of a machine that has none."""
    missing = data.draw(hnp.arrays(bool, usage.shape))
    usage = np.where(missing, np.nan, usage + offset)
    columns = reduce_readings(usage)
    for r in range(3):
        for m in range(usage.shape[2]):
            read = usage[r, ~missing[r, :, m], m]
            assert columns.n[r, m] == len(read)
            if len(read):
                assert columns.mean[r, m] == pytest.approx(read.mean(), rel=1e-12, abs=1e-9)
                exact = ((read - offset - (read - offset).mean()) ** 2).sum()
                assert columns.m2[r, m] == pytest.approx(exact, rel=1e-6, abs=1e-3)
                assert columns.max[r, m] == read.max()
                assert columns.max[r, m] >= columns.mean[r, m]


def test_a_machine_of_the_fleet_publishes_when_an_agent_of_its_name_would():
    """The same phase and the same nominal ends, in the order of the phases, in blocks."""
    fleet = Generator(BLOCK_MACHINES + 20, seed=1)
    replay = Replay(fleet, 10, 1)
    last = replay.last_full(NOW_S)
    ends_s = np.concatenate([replay.ends_s(last, block) for block in replay.blocks])
    rows = np.concatenate([block.rows for block in replay.blocks])
    assert (np.diff(ends_s) >= 0).all()
    assert sorted(rows.tolist()) == list(range(BLOCK_MACHINES + 20))
    assert ends_s.max() <= NOW_S < ends_s.max() + 20
    for row, end_s in zip(rows.tolist(), ends_s.tolist(), strict=True):
        schedule = Schedule(10, 1, phase_s(fleet.machines.names[row], 10))
        assert end_s == schedule.end_of(schedule.interval(schedule.tick(end_s)))


def test_the_readings_of_an_interval_lie_within_it():
    """Ten of them, one a second, none on an end: an interval meets no value of the next."""
    seen = {}

    class Watching(Generator):
        def usage(self, rows, times_s):
            seen["times_s"] = times_s
            return super().usage(rows, times_s)

    replay = Replay(Watching(3, seed=1), 10, 1)
    (block,) = replay.blocks
    assert (replay.columns(179_000_000, block).n == 10).all()
    before_end_s = replay.ends_s(179_000_000, block) - seen["times_s"]
    assert before_end_s == pytest.approx(np.arange(9.5, 0, -1)[:, None] + np.zeros(3), abs=1e-6)


@pytest.mark.parametrize(("seconds", "intervals"), [(0, 0), (3600, 360), (3601, 361), (5, 1)])
def test_the_past_covers_what_was_asked_for(seconds, intervals):
    assert Replay(Generator(1, seed=1), 10, 1).intervals(seconds) == intervals


def columns_of(n):
    """Return the columns of one machine with so many readings of the first three resources, and none of the others."""
    ones = np.ones((len(RESOURCES), 1))
    return Columns(np.array([*n, *[0] * (len(RESOURCES) - 3)])[:, None], ones * 2, ones * 3, ones * 4)


@pytest.mark.parametrize(
    ("n", "capacity", "present"),
    [
        pytest.param([10, 10, 10], [1, 1, 1], ["cpu", "memory", "nic"], id="all"),
        pytest.param([10, 0, 10], [1, 1, 1], ["cpu", "nic"], id="one not read"),
        pytest.param([10, 10, 10], [1, 1, NAN], ["cpu", "memory"], id="one of unknown capacity"),
        pytest.param([0, 0, 10], [1, 1, NAN], None, id="nothing left"),
    ],
)
def test_what_is_unknown_is_left_out(n, capacity, present):
    """A resource not read or of unknown capacity is absent; a machine with nothing sends nothing."""
    machines = Generator(1, seed=1).machines
    machines.capacity[:3, 0] = capacity
    messages = Messages(machines, 5, 10.0, extra_labels={})
    (record,) = messages.samples(np.array([0]), np.array([NOW_S]), columns_of(n), seq=7)
    if present is None:
        assert record is None
        return
    sample = decode(record.value)
    assert (record.key, sample.machine, sample.seq, sample.at, sample.boot) == (b"sim-00001", "sim-00001", 7, NOW_S, 5)
    assert [name for name in RESOURCES if getattr(sample, name)] == present


def test_facts_tell_capacity_and_labels():
    """What the machine has and where it stands, with the labels given to all."""
    fleet = Generator(2, seed=1)
    fleet.machines.capacity[2:, 1] = NAN
    messages = Messages(fleet.machines, 5, 10.0, extra_labels={"kind": "test"})
    (record,) = messages.facts([1], NOW_S)
    facts = decode(record.value)
    assert sorted(facts.capacity) == ["cpu", "memory"]
    assert facts.labels == {"zone": "zone-2", "rack": "rack-001", "kind": "test"}
