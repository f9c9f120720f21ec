"""The simulated fleet looks like one: sizes, rhythm, bursts, memory that follows the CPU."""

import numpy as np
import pytest

from schemas.resources import CPU, MEMORY, NIC
from streams.load_generator.source.generator import DAY_S, Generator
from streams.load_generator.source.source import Float, reduce_readings

MIDNIGHT_S = 1_790_035_200.0
ROWS = np.arange(200)


@pytest.fixture(scope="module")
def fleet() -> Generator:
    """200 machines."""
    return Generator(200, seed=1)


@pytest.fixture(scope="module")
def day(fleet: Generator) -> Float:
    """A day of interval means in utilization, every five minutes: [R, 288, M]."""
    means = []
    for at_s in MIDNIGHT_S + np.arange(0, DAY_S, 300):
        times_s = at_s - np.arange(10.0)[::-1, None] + np.zeros(200)
        means.append(reduce_readings(fleet.usage(ROWS, times_s)).mean / fleet.machines.capacity)
    return np.stack(means, axis=1)


def test_the_same_seed_is_the_same_fleet(fleet: Generator):
    """Names, sizes and every value; another seed is another fleet."""
    times_s = MIDNIGHT_S + np.arange(10.0)[:, None] + np.zeros(200)
    again, other = Generator(200, seed=1), Generator(200, seed=2)
    assert again.machines.names == fleet.machines.names
    assert (again.usage(ROWS, times_s) == fleet.usage(ROWS, times_s)).all()
    assert (other.usage(ROWS, times_s) != fleet.usage(ROWS, times_s)).mean() > 0.9


def test_machines_that_are_added_change_nothing_for_the_others(fleet: Generator):
    """The first 200 of 300 are those of 200."""
    times_s = MIDNIGHT_S + np.arange(10.0)[:, None] + np.zeros(200)
    larger = Generator(300, seed=1)
    assert larger.machines.names[:200] == fleet.machines.names
    assert (larger.usage(ROWS, times_s) == fleet.usage(ROWS, times_s)).all()


def test_machines_differ_in_size(fleet: Generator):
    """Several sizes of each resource but of time, all known and positive; labels say where they stand."""
    assert all(len(np.unique(capacity)) >= 3 for capacity in fleet.machines.capacity[[CPU, MEMORY, NIC]])
    assert (fleet.machines.capacity > 0).all()
    assert {label["zone"] for label in fleet.machines.labels} == {"zone-1", "zone-2", "zone-3"}


def test_utilization_stays_within_the_machine(day: Float):
    """Between nothing and all of it, some machines idle and some close to starved."""
    assert day.min() > 0
    assert day.max() <= 1
    mean = day[CPU].mean(axis=0)
    assert (mean < 0.12).mean() > 0.1
    assert (mean > 0.55).mean() > 0.04
    assert 0.15 < mean.mean() < 0.45


def test_load_follows_the_day(day: Float):
    """The fleet's CPU in the afternoon is well above that before dawn."""
    fleet_mean = day[CPU].mean(axis=1)
    hours = np.arange(288) / 12
    afternoon = fleet_mean[(hours > 12) & (hours < 16)].mean()
    night = fleet_mean[(hours > 1) & (hours < 5)].mean()
    assert afternoon > 1.3 * night


def test_memory_and_nic_follow_the_cpu(day: Float):
    """Over the day most machines' memory and NIC rise and fall with their CPU."""
    memory = [np.corrcoef(day[CPU, :, m], day[MEMORY, :, m])[0, 1] for m in range(200)]
    nic = [np.corrcoef(day[CPU, :, m], day[NIC, :, m])[0, 1] for m in range(200)]
    assert np.median(memory) > 0.5
    assert np.median(nic) > 0.5


def test_bursts_are_hidden_by_means_and_shown_by_maxima(fleet: Generator):
    """In an hour some interval of some machine has a maximum far above its mean."""
    excess = []
    for at_s in MIDNIGHT_S + np.arange(0, 3600, 10):
        times_s = at_s - np.arange(10.0)[::-1, None] + np.zeros(200)
        columns = reduce_readings(fleet.usage(ROWS, times_s))
        excess.append((columns.max - columns.mean)[CPU] / fleet.machines.capacity[CPU])
    assert np.max(excess) > 0.3
    assert np.median(excess) < 0.05
