"""The schedule of a fleet: its machines publish interval by interval, in the order of their phases.

The past and the present are one loop. An interval whose end has passed is published at once. So a fleet that starts an
hour back publishes without pauses until it has reached the present, as does one that was delayed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streams.agent.sampling.schedule import phase_s
from streams.load_generator.source.source import Columns, Float, Source, reduce_readings

BLOCK_MACHINES = 500
"""Machines computed at a time: enough for numpy, few enough that the first of a block is not late."""


@dataclass(frozen=True)
class Block:
    """Machines with consecutive phases, in that order."""

    rows: NDArray[np.int64]
    phases_s: Float


class Replay:
    """A source cut into intervals."""

    def __init__(self, source: Source, interval_s: float, reading_s: float) -> None:
        self._source = source
        self.machines = source.machines
        self._interval_s = interval_s
        self._readings = round(interval_s / reading_s)
        self._reading_s = reading_s
        phases_s = np.array([phase_s(name, interval_s) for name in source.machines.names])
        order = np.argsort(phases_s, kind="stable")
        self.blocks = [
            Block(order[start : start + BLOCK_MACHINES], phases_s[order[start : start + BLOCK_MACHINES]])
            for start in range(0, len(order), BLOCK_MACHINES)
        ]

    def last_full(self, epoch_s: float) -> int:
        """Return the number of the last interval that has ended for every machine."""
        return int(epoch_s // self._interval_s) - 1

    def intervals(self, seconds: float) -> int:
        """Return how many intervals cover so many seconds."""
        return int(np.ceil(seconds / self._interval_s))

    def ends_s(self, number: int, block: Block) -> Float:
        """Return each machine's end of an interval: its samples' ``at``."""
        return np.round(number * self._interval_s + block.phases_s, 6)

    def columns(self, number: int, block: Block) -> Columns:
        """Return the moments of an interval; a reading stands for the time around it, so none falls on the end."""
        before_end_s = (np.arange(self._readings - 1, -1, -1) + 0.5) * self._reading_s
        times_s = self.ends_s(number, block) - before_end_s[:, None]
        return reduce_readings(self._source.usage(block.rows, times_s))
