"""Worlds from traces: their load, their requests, and a trace of which no world can be made."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ops.replay.traces.openb import without_file
from ops.replay.workload import WorkloadError
from ops.replay.worlds.worlds import FIRST_CROWD_MINUTES, Shape, build_world
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
