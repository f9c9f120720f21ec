"""Batch beside prod: a world gets a stream of instances of class batch, of the same trace.

Each is a copy of one of the world's own instances, drawn at random: its size, life and source of usage, beginning with
another day of that source if it has one. So a core that batch asks for is used as much as one of prod. They come in
bursts of the same kind, from the first minute on. If all were placed at once, those live at a time would ask for a
given share of the fleet; an instance that does not fit waits.

The instances of prod, their times and their usage are those of the world without batch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ops.replay.workload import DAY_MINUTES, Usage, Workload
from ops.replay.worlds.worlds import BURST_MINUTES, in_bursts
from schemas.resources import CPU


def with_batch(world: Workload, share: float) -> Workload:
    """Return the world with batch instances that would ask for this share of the fleet's cores."""
    generator = np.random.default_rng([world.seed, 1948])
    work = (world.asked[CPU] * world.life).mean()
    mean = share * np.nansum(world.capacity[CPU]) / work * BURST_MINUTES
    start = in_bursts(np.arange(0, world.minutes, BURST_MINUTES), mean, generator)
    drawn = generator.integers(len(world.instances), size=len(start))
    order = np.argsort(np.concatenate([world.start, start]), kind="stable")
    of = np.concatenate([np.arange(len(world.instances)), drawn])[order]
    new = order >= len(world.instances)
    usage, length = world.usage, world.usage.length[of]
    another = generator.integers(1 << 30, size=len(of)) % np.maximum(length // DAY_MINUTES, 1) * DAY_MINUTES
    names = [*world.instances, *(f"batch-{number:06d}" for number in range(len(start)))]
    return replace(
        world,
        instances=[names[at] for at in order],
        asked=world.asked[:, of],
        start=np.concatenate([world.start, start])[order],
        life=world.life[of],
        usage=Usage(
            values=usage.values,
            base=usage.base[of],
            length=length,
            shift=np.where(new, usage.shift[of] + another, usage.shift[of]) % length,
            scale=usage.scale[:, of],
            most=usage.most[:, of],
        ),
        kinds=[world.kinds[at] for at in of] if world.kinds else (),
        classes=np.where(new, "batch", "prod").tolist(),
    )
