"""Worlds from traces: their load, their requests, batch beside them, and a trace of which no world can be made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ops.replay.traces.openb import without_file
from ops.replay.workload import WorkloadError
from ops.replay.worlds.worlds import FIRST_CROWD_MINUTES, Shape, build_world, with_batch
from schemas.resources import CPU
from tests.ops.replay.small_worlds import small_world, waves


@pytest.mark.parametrize(("load", "requests"), [(0.3, 0.8), (0.5, 0.4)])
def test_load_and_requests_are_those_asked_for(load: float, requests: float) -> None:
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


def test_a_trace_without_load_is_refused() -> None:
    """It cannot be scaled to any."""
    idle = replace(waves(), cpu=np.zeros_like(waves().cpu))
    with pytest.raises(WorkloadError, match=r"^waves: no instance uses any cpu$"):
        build_world(idle, without_file(), Shape(machines=2, days=1), 1)


PROD = small_world(seed=3)
BOTH = with_batch(PROD, 0.5)


def test_prod_is_what_it_was() -> None:
    """Its instances, times, amounts and usage are those of the world without batch."""
    prod = np.flatnonzero(~BOTH.lower)
    assert [BOTH.instances[at] for at in prod] == list(PROD.instances)
    for name in ("start", "life"):
        assert (getattr(BOTH, name)[prod] == getattr(PROD, name)).all()
    assert (BOTH.asked[:, prod] == PROD.asked).all()
    for mine, there in enumerate(prod[:40].tolist()):
        assert (BOTH.usage.of(there, CPU, 0, 99) == PROD.usage.of(mine, CPU, 0, 99)).all()


def test_batch_asks_for_its_share() -> None:
    """Live at a time, were all placed at once: half of the cores, in the long run."""
    batch = BOTH.lower
    live = (BOTH.asked[CPU] * BOTH.life)[batch].sum() / BOTH.minutes / PROD.capacity[CPU].sum()
    assert live == pytest.approx(0.5, rel=0.2)
    assert {BOTH.request(int(at)).priority_class for at in np.flatnonzero(batch)} == {"batch"}
    assert (np.diff(BOTH.start) >= 0).all()


def test_the_same_seed_is_the_same_stream() -> None:
    """And another seed another."""
    again, other = with_batch(PROD, 0.5), with_batch(small_world(seed=4), 0.5)
    assert again.start.tolist() == BOTH.start.tolist()
    assert other.start.tolist() != BOTH.start.tolist()
