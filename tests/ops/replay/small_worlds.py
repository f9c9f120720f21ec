"""Worlds small enough to check by hand."""

import numpy as np

from ops.replay.simulator.policies import ProfilePolicy
from ops.replay.traces.formats import Lives
from ops.replay.traces.trace import of_days
from ops.replay.workload import Usage, Workload
from ops.replay.worlds.worlds import Shape, build_world
from schemas.resources import CPU, RESOURCES

MINUTES = 240


class Observed(ProfilePolicy):
    """A profile's policy that keeps each moment in which it chooses; ``look`` gets it before any is placed."""

    def __init__(self, profile, look=lambda moment: None):
        super().__init__(profile)
        self.moments = []
        self._look = look

    def choose(self, instances, requests, moment):
        if not self.moments or self.moments[-1].minute < moment.minute:
            self._look(moment)
            self.moments.append(moment)
        return super().choose(instances, requests, moment)


def world(cores, instances, minutes=MINUTES, **more):
    """A fleet of these cores, and instances of (cores asked, cores used, first minute, minutes of life)."""
    asked, used, start, life = (np.array(column) for column in zip(*instances, strict=True))
    count = len(instances)
    capacity = np.full((len(RESOURCES), len(cores)), np.nan)
    capacity[CPU] = cores
    amounts = np.zeros((len(RESOURCES), count))
    amounts[CPU] = asked
    values = np.full((len(RESOURCES), count * minutes), np.nan, np.float32)
    values[CPU] = np.repeat(used, minutes)
    usage = Usage(
        values=values,
        base=np.arange(count) * minutes,
        length=np.full(count, minutes),
        shift=np.zeros(count, np.int64),
        scale=np.ones((len(RESOURCES), count)),
        most=np.full((len(RESOURCES), count), np.inf),
    )
    return Workload(
        name="small",
        machines=[f"m{row}" for row in range(len(cores))],
        capacity=capacity,
        instances=[f"i{number}" for number in range(count)],
        asked=amounts,
        start=start.astype(np.int64),
        life=life.astype(np.int64),
        usage=usage,
        minutes=minutes,
        **more,
    )


def waves(sources=24, seed=5):
    """A trace of one day: daily waves of different heights and phases with noise, 300 s a cell."""
    generator = np.random.default_rng(seed)
    at = np.arange(288) / 288 * 2 * np.pi
    height, phase = generator.random((2, sources, 1)) * np.array([[[0.4]], [[6.0]]])
    load = 0.1 + height * (1 + np.sin(at + phase)) / 2 + 0.05 * generator.random((sources, 288))
    return of_days("waves", 300.0, [f"w{number}" for number in range(sources)], load.astype(np.float32), None)


def small_world(seed=1, machines=8, days=1, **more):
    lives = Lives(np.array([600.0, 1_200.0, 3_600.0]), np.array([1.0, 2.0, 4.0]), np.full(3, 2.0**32))
    return build_world(waves(), lives, Shape(machines=machines, days=days, per_machine=8, **more), seed)
