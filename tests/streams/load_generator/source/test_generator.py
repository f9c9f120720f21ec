"""The simulated fleet looks like one; its noise, its instances, its progress on a terminal."""

import numpy as np
import pytest

from schemas.messages.sample import InstanceReport
from schemas.resources import CPU, MEMORY, NIC, RESOURCES
from streams.load_generator.source.generator import DAY_S, Generator
from streams.load_generator.source.instances import PART_LEAST, PART_MOST, SWING, Instances, Reports, Running
from streams.load_generator.source.source import Columns, Machines, reduce_readings

MIDNIGHT_S = 1_790_035_200.0
ROWS = np.arange(200)


@pytest.fixture(scope="module")
def fleet():
    return Generator(200, seed=1)


@pytest.fixture(scope="module")
def day(fleet):
    """A day of interval means in utilization, every five minutes: [R, 288, M]."""
    means = []
    for at_s in MIDNIGHT_S + np.arange(0, DAY_S, 300):
        times_s = at_s - np.arange(10.0)[::-1, None] + np.zeros(200)
        means.append(reduce_readings(fleet.usage(ROWS, times_s)).mean / fleet.machines.capacity)
    return np.stack(means, axis=1)


def test_the_same_seed_is_the_same_fleet(fleet):
    """Names, sizes and every value; another seed is another fleet."""
    times_s = MIDNIGHT_S + np.arange(10.0)[:, None] + np.zeros(200)
    again, other = Generator(200, seed=1), Generator(200, seed=2)
    assert again.machines.names == fleet.machines.names
    assert (again.usage(ROWS, times_s) == fleet.usage(ROWS, times_s)).all()
    assert (other.usage(ROWS, times_s) != fleet.usage(ROWS, times_s)).mean() > 0.9


def test_machines_that_are_added_change_nothing_for_the_others(fleet):
    times_s = MIDNIGHT_S + np.arange(10.0)[:, None] + np.zeros(200)
    larger = Generator(300, seed=1)
    assert larger.machines.names[:200] == fleet.machines.names
    assert (larger.usage(ROWS, times_s) == fleet.usage(ROWS, times_s)).all()


def test_machines_differ_in_size(fleet):
    """Several sizes of each resource but of time, all known and positive; labels say where they stand."""
    assert all(len(np.unique(capacity)) >= 3 for capacity in fleet.machines.capacity[[CPU, MEMORY, NIC]])
    assert (fleet.machines.capacity > 0).all()
    assert {label["zone"] for label in fleet.machines.labels} == {"zone-1", "zone-2", "zone-3"}


def test_utilization_stays_within_the_machine(day):
    """Between nothing and all of it, some machines idle and some close to starved."""
    assert day.min() > 0
    assert day.max() <= 1
    mean = day[CPU].mean(axis=0)
    assert (mean < 0.12).mean() > 0.1
    assert (mean > 0.55).mean() > 0.04
    assert 0.15 < mean.mean() < 0.45


def test_load_follows_the_day(day):
    """The fleet's CPU in the afternoon is well above that before dawn."""
    fleet_mean = day[CPU].mean(axis=1)
    hours = np.arange(288) / 12
    afternoon = fleet_mean[(hours > 12) & (hours < 16)].mean()
    night = fleet_mean[(hours > 1) & (hours < 5)].mean()
    assert afternoon > 1.3 * night


def test_memory_and_nic_follow_the_cpu(day):
    """Over the day most machines' memory and NIC rise and fall with their CPU."""
    memory = [np.corrcoef(day[CPU, :, m], day[MEMORY, :, m])[0, 1] for m in range(200)]
    nic = [np.corrcoef(day[CPU, :, m], day[NIC, :, m])[0, 1] for m in range(200)]
    assert np.median(memory) > 0.5
    assert np.median(nic) > 0.5


def test_bursts_are_hidden_by_means_and_shown_by_maxima(fleet):
    """In an hour some interval of some machine has a maximum far above its mean."""
    excess = []
    for at_s in MIDNIGHT_S + np.arange(0, 3600, 10):
        times_s = at_s - np.arange(10.0)[::-1, None] + np.zeros(200)
        columns = reduce_readings(fleet.usage(ROWS, times_s))
        excess.append((columns.max - columns.mean)[CPU] / fleet.machines.capacity[CPU])
    assert np.max(excess) > 0.3
    assert np.median(excess) < 0.05


NAMES = ["m1", "m2", "m3"]
CAPACITY = np.full((len(RESOURCES), 3), 10.0)
MACHINES = Machines(names=NAMES, labels=[{}] * 3, capacity=CAPACITY)
FLEET_ROWS = np.array([2, 0])
"""The places of the block: m3, then m1."""
AT = np.array([1000.0, 1003.0])


def running(name, machine="m1", cpu=4.0, started_at=0.0):
    return Running(name, machine, started_at, {"cpu": cpu})


def added(reports, number, *found, mean=1.0):
    """What comes out of an interval in which each machine used ``mean`` of everything, and 2 at most."""
    shape = (len(RESOURCES), 2)
    plain = Columns(np.full(shape, 10), np.full(shape, mean), np.full(shape, 0.5), np.full(shape, max(mean, 2.0)))
    return reports.added(Instances(MACHINES, found), CAPACITY, number, FLEET_ROWS, AT, plain)


def test_an_instance_uses_a_part_of_what_it_asked_where_it_is():
    """Added to the mean and the maximum of its machine alone; the report has it and, as the system, the rest."""
    columns, reports = added(Reports(6, 10.0), 12, running("a"), running("elsewhere", "m9"))
    used = columns.mean[CPU] - 1.0
    assert used[0] == 0.0
    assert 4 * PART_LEAST * (1 - SWING) <= used[1] <= 4 * PART_MOST * (1 + SWING)
    assert columns.max[CPU].tolist() == [2.0, pytest.approx(2.0 + used[1])]
    assert (columns.mean[1:] == 1.0).all()
    assert columns.m2.tolist() == np.full(columns.m2.shape, 0.5).tolist()
    assert list(reports) == [1]
    report = reports[1]
    assert (report.at, report.interval_s, list(report.entries)) == (1003.0, 60.0, ["a"])
    assert report.entries["a"].cpu == pytest.approx(used[1])
    assert report.system.cpu == 1.0


def test_a_machine_uses_no_more_than_it_has():
    """Each of its instances gets less, and what is reported adds up to the machine's load."""
    columns, reports = added(Reports(1, 10.0), 1, *(running(name, cpu=9.0) for name in "abcd"), mean=3.0)
    assert columns.mean[CPU].tolist() == [3.0, pytest.approx(10.0)]
    assert columns.max[CPU, 1] == pytest.approx(10.0)
    assert sum(one.cpu for one in reports[1].entries.values()) == pytest.approx(7.0)


def test_it_runs_from_its_start_and_is_reported_at_the_pace_of_reports():
    assert (added(Reports(6, 10.0), 12, running("later", started_at=1003.5))[0].mean == 1.0).all()
    paced = Reports(6, 10.0)
    assert [bool(added(paced, number, running("a"))[1]) for number in range(6, 13)] == [True] + [False] * 5 + [True]
    assert not added(Reports(6, 10.0), 6)[1]


def test_many_instances_are_reported_in_parts():
    """One part a sample; together they have each instance once."""
    found = [running(f"instance-{number}", cpu=0.01) for number in range(400)]
    paced, parts = Reports(6, 10.0), list[InstanceReport]()
    for number in range(6, 12):
        parts += added(paced, number, *found)[1].values()
    assert len(parts) > 1
    assert [one.part for one in parts] == list(range(1, len(parts) + 1))
    assert {one.parts for one in parts} == {len(parts)}
    names = [name for one in parts for name in one.entries]
    assert sorted(names) == sorted(one.id for one in found)
