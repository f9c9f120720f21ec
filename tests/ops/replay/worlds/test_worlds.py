"""Worlds from traces: load, requests, batch beside them, minutes from longer cells; traces that make no world."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ops.replay.traces.formats import without_file
from ops.replay.workload import DAY_MINUTES, WorkloadError
from ops.replay.worlds.minutes import minute_readings
from ops.replay.worlds.worlds import (
    BUSINESS_SOURCES,
    BUSINESSES,
    FIRST_CROWD_MINUTES,
    UNLIKE_CORES,
    Shape,
    build_world,
    with_batch,
)
from schemas.resources import CPU
from tests.effort import examples
from tests.ops.replay.small_worlds import small_world, waves


@pytest.mark.parametrize(("load", "requests"), [(0.3, 0.8), (0.5, 0.4)])
def test_load_and_requests_are_those_asked_for(load, requests):
    """As if all were placed when they first ask, after the first hour: the mean demand, and the sum of the requests."""
    world = small_world(machines=20, load=load, requests=requests)
    demand, asked = np.zeros((2, world.minutes))
    for instance, (start, life) in enumerate(zip(world.start.tolist(), world.life.tolist(), strict=True)):
        last = min(start + life, world.minutes)
        demand[start:last] += world.usage.of(instance, CPU, start, last)
        asked[start:last] += world.asked[CPU, instance]
    cores = world.capacity[CPU].sum()
    assert demand[FIRST_CROWD_MINUTES:].mean() / cores == pytest.approx(load, rel=0.01)
    assert asked[FIRST_CROWD_MINUTES:].mean() / cores == pytest.approx(requests, rel=0.01)
    assert world.asked[CPU].max() <= world.capacity[CPU].min() / 2


def test_a_trace_without_load_is_refused():
    idle = replace(waves(), cpu=np.zeros_like(waves().cpu))
    with pytest.raises(WorkloadError, match=r"^waves: no instance uses any cpu$"):
        build_world(idle, without_file(), Shape(machines=2, days=1), 1)


def test_informed_requests_say_best_what_is_used():
    """The correlation of what is asked with the 95th percentile of the own usage, on a logarithmic scale."""

    def tells(asks):
        world = small_world(machines=20, asks=asks)
        used = np.array([np.percentile(world.usage.of(at, CPU, 0, DAY_MINUTES), 95) for at in range(len(world.start))])
        return float(np.corrcoef(np.log(world.asked[CPU]), np.log(used))[0, 1])

    assert tells("informed") > 0.9
    assert tells("sizes") < 0.85
    assert tells("misled") < 0.6


def test_misled_requests_turn_in_the_middle():
    """A source that asks three times its need asks for half of it later: six times less, at least three where cut."""
    world = small_world(machines=20, days=2, asks="misled")
    informed = small_world(machines=20, days=2, asks="informed")
    ratio = np.log(world.asked[CPU] / informed.asked[CPU])
    late = world.start >= DAY_MINUTES
    for base in np.unique(world.usage.base).tolist():
        mine = world.usage.base == base
        first, second = np.median(ratio[mine & ~late]), np.median(ratio[mine & late])
        assert first * second < 0
        assert abs(first - second) > np.log(3)


def test_businesses_peak_together_and_come_in_waves():
    """Instances of one source are at the same place of it; a burst after the first crowd has few sources."""
    world, usual = small_world(machines=20, peaks=True), small_world(machines=20)
    for base in np.unique(world.usage.base).tolist():
        assert len(np.unique(world.usage.shift[world.usage.base == base])) <= BUSINESSES
    for minute in np.unique(world.start[world.start >= FIRST_CROWD_MINUTES]).tolist():
        assert len(np.unique(world.usage.base[world.start == minute])) <= BUSINESS_SOURCES
    assert (world.start == usual.start).all()


def test_unlike_machines_have_eight_to_128_cores():
    world = small_world(machines=18, unlike=True)
    assert sorted(world.capacity[CPU]) == sorted(2 * list(UNLIKE_CORES))


PROD = small_world(seed=3)
BOTH = with_batch(PROD, 0.5)


def test_prod_is_what_it_was():
    """Its instances, times, amounts and usage are those of the world without batch."""
    prod = np.flatnonzero(~BOTH.lower)
    assert [BOTH.instances[at] for at in prod] == list(PROD.instances)
    for name in ("start", "life"):
        assert (getattr(BOTH, name)[prod] == getattr(PROD, name)).all()
    assert (BOTH.asked[:, prod] == PROD.asked).all()
    for mine, there in enumerate(prod[:40].tolist()):
        assert (BOTH.usage.of(there, CPU, 0, 99) == PROD.usage.of(mine, CPU, 0, 99)).all()


def test_batch_asks_for_its_share():
    """Live at a time, were all placed at once: half of the cores, in the long run."""
    batch = BOTH.lower
    live = (BOTH.asked[CPU] * BOTH.life)[batch].sum() / BOTH.minutes / PROD.capacity[CPU].sum()
    assert live == pytest.approx(0.5, rel=0.2)
    assert {BOTH.request(int(at)).priority_class for at in np.flatnonzero(batch)} == {"batch"}
    assert (np.diff(BOTH.start) >= 0).all()


def test_batch_of_each_hour():
    """It comes at the full hour, is done before the next one, and asks for its share."""
    hourly = with_batch(PROD, 0.5, 60)
    batch = hourly.lower
    assert {*hourly.start[batch] % 60} == {0}
    assert hourly.life[batch].max() <= 60 < hourly.life[~batch].max()
    live = (hourly.asked[CPU] * hourly.life)[batch].sum() / hourly.minutes / PROD.capacity[CPU].sum()
    assert live == pytest.approx(0.5, rel=0.2)


def test_the_same_seed_is_the_same_stream():
    again, other = with_batch(PROD, 0.5), with_batch(small_world(seed=4), 0.5)
    assert again.start.tolist() == BOTH.start.tolist()
    assert other.start.tolist() != BOTH.start.tolist()


CELLS = arrays(np.float32, (2, 24), elements=st.floats(0, 1, width=32))


@settings(max_examples=examples(50, 50), deadline=None)
@given(CELLS, st.integers(0, 1000))
def test_the_mean_of_every_cell_stays(cells, seed):
    """Minutes are drawn around the cell's mean, and none is below 0 or above the most."""
    minutes = minute_readings(cells, 300.0, np.random.default_rng(seed), most=1.0)
    assert minutes.shape == (2, 120)
    assert np.allclose(minutes.reshape(2, 24, 5).mean(axis=2), cells, atol=1e-5)
    assert minutes.min() >= -1e-6
    assert minutes.max() <= 1 + 1e-5


def test_the_spread_inside_a_cell_is_that_of_the_steps_between_cells():
    """On a long random series the variance inside is half the mean squared step, to a tenth."""
    generator = np.random.default_rng(1)
    cells = (0.5 + 0.05 * generator.standard_normal((4, 2_000))).astype(np.float32)
    minutes = minute_readings(cells, 300.0, generator).reshape(4, 2_000, 5)
    inside = minutes.var(axis=2).mean()
    assert inside == pytest.approx((np.diff(cells, axis=1) ** 2).mean() / 2, rel=0.1)


@pytest.mark.parametrize(
    ("name", "cell_s", "cells", "expected"),
    [
        ("minutes stay", 60.0, [1, 2], [1, 2]),
        ("shorter ones are averaged", 20.0, [1, 2, 3, 4, 5, 6], [2, 5]),
        ("three quarters", 45.0, [1, 3, 5, 7, 9], [2, 5, 7]),
        ("two thirds", 40.0, [1, 3, 5, 7], [2, 5]),
        ("no whole minutes: the value in force", 90.0, [1, 4], [1, 1, 4]),
        ("steady", 300.0, [0.5] * 12, [0.5] * 60),
    ],
)
def test_other_cells(name, cell_s, cells, expected):
    """Nothing is drawn where the cells say it, or where a minute has no cells of its own."""
    found = minute_readings(np.array([cells], np.float32), cell_s, np.random.default_rng(1))
    assert found.tolist() == [expected], name
