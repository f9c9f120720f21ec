"""When a machine is over, and when it is under: thresholds in per cent of capacity, fixed or around the mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scorer.planning.thresholds.pool import Pool
from scorer.snapshot.arrays import Bools, Floats

Percents = Mapping[str, float]

ALWAYS = "memory"
"""A resource that is always compared, whether a threshold names it or not."""


@dataclass(frozen=True)
class Settings:
    """Thresholds by resource, in per cent. ``deviation``: distances from the mean of the pool, below and above."""

    low: Percents
    high: Percents
    prod_low: Percents | None = None
    prod_high: Percents | None = None
    deviation: bool = False

    def resources(self) -> list[str]:
        """Return the compared resources: each that some threshold names, and memory."""
        maps = (self.low, self.high, self.prod_low or {}, self.prod_high or {})
        return list(dict.fromkeys([name for each in maps for name in each] + [ALWAYS]))

    def completed(self) -> tuple[Percents, Percents, Percents, Percents]:
        """Return low, high, and those of production, for every compared resource.

        One that ``low`` leaves out has no threshold, even where ``high`` names it. Both are 100 then, which no machine
        exceeds. With ``deviation`` both are 0, which says that it is ignored.
        """
        none = 0.0 if self.deviation else 100.0
        found: list[Percents] = []
        for low, high in ((self.low, self.high), (self.prod_low or {}, self.prod_high or {})):
            found.append({name: low.get(name, none) for name in self.resources()})
            found.append({name: high.get(name, 0.0) if name in low else none for name in self.resources()})
        return found[0], found[1], found[2], found[3]


@dataclass(frozen=True)
class Limits:
    """[K, M] each, in the units of the pool."""

    low: Floats
    high: Floats


def limits(pool: Pool, used: Floats, low: Percents, high: Percents, deviation: bool) -> Limits:
    """Return the thresholds of each machine: ``int(percent * 0.01 * capacity)``.

    ``deviation``: the per cents are distances from the plain mean over the machines of used / capacity, cut to 0..100;
    a resource with a low one of 0 is ignored: its limits are the whole capacity. A machine without a resource counts 0
    in its mean.
    """
    lows = np.array([low[name] for name in pool.resources])[:, None]
    highs = np.array([high[name] for name in pool.resources])[:, None]
    if not deviation:
        return Limits(_share(lows, pool.capacity), _share(highs, pool.capacity))
    shares = np.divide(used, pool.capacity, out=np.zeros_like(used), where=pool.capacity > 0) * 100.0
    mean = shares.mean(axis=1, keepdims=True)
    ignored = lows == 0
    return Limits(
        np.where(ignored, pool.capacity, _share(np.clip(mean - lows, 0, 100), pool.capacity)),
        np.where(ignored, pool.capacity, _share(np.clip(mean + highs, 0, 100), pool.capacity)),
    )


def _share(percent: Floats, capacity: Floats) -> Floats:
    found: Floats = np.trunc(percent * 0.01 * capacity)
    return found


def over(used: Floats, high: Floats) -> Bools:
    """Return [M]: whether any resource is above its threshold."""
    return np.asarray((used > high).any(axis=0))


def under(used: Floats, low: Floats) -> Bools:
    """Return [M]: whether no resource is above its threshold."""
    return np.asarray((used <= low).all(axis=0))
