"""The instances on simulated machines: the usage of each, in addition to its machine's own, and its report.

An instance uses a share of its request: 0.4 to 1.1, by its id. It rises and falls by a tenth within ten minutes. A
machine's usage never exceeds its capacity: each of its instances then gets less. Pure.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from schemas.messages.sample import InstanceMeans, InstanceReport
from schemas.resources import RESOURCES
from streams.agent.instances.meter import Measured
from streams.agent.instances.report import parts
from streams.load_generator.source.source import Columns, Float, Machines

PART_LEAST, PART_MOST = 0.4, 1.1
SWING = 0.1
SWING_S = 600.0


@dataclass(frozen=True)
class Running:
    id: str
    machine: str
    started_at: float
    amounts: Mapping[str, float]
    """Its request, by resource."""


class Instances:
    """The usage of some instances, without those on machines outside the fleet."""

    def __init__(self, machines: Machines, running: Iterable[Running] = ()) -> None:
        row_of = {name: row for row, name in enumerate(machines.names)}
        here = [one for one in running if one.machine in row_of]
        self.ids = [one.id for one in here]
        self._capacity = machines.capacity
        self._started_at = np.array([one.started_at for one in here], np.float64)
        self._amounts = np.array([[one.amounts.get(name) or 0.0 for one in here] for name in RESOURCES], np.float64)
        share = np.array([crc32(one.id.encode()) / 2**32 for one in here], np.float64)
        self._part = PART_LEAST + (PART_MOST - PART_LEAST) * share
        self._phase = 2 * np.pi * share * 7
        self._on: dict[int, list[int]] = {}
        for number, one in enumerate(here):
            self._on.setdefault(row_of[one.machine], []).append(number)

    def on(self, row: int, at_s: float) -> tuple[list[str], Float]:
        """Return the instances that run on a machine at a time, and the usage of each, [R, K]."""
        numbers = [number for number in self._on.get(row, ()) if self._started_at[number] <= at_s]
        swing = 1 + SWING * np.sin(2 * np.pi * at_s / SWING_S + self._phase[numbers])
        return [self.ids[number] for number in numbers], self._amounts[:, numbers] * self._part[numbers] * swing

    def __contains__(self, row: object) -> bool:
        return row in self._on


class Reports:
    """Adds the usage of instances to columns, and reports each machine with instances every ``every`` intervals."""

    def __init__(self, every: int, interval_s: float) -> None:
        self._every = every
        self._interval_s = interval_s
        self._waiting: dict[int, deque[InstanceReport]] = {}
        """Parts of reports that wait for the next samples."""

    def added(
        self, instances: Instances, capacity: Float, number: int, rows: NDArray[np.int64], at_s: Float, columns: Columns
    ) -> tuple[Columns, dict[int, InstanceReport]]:
        """Return the columns of interval ``number`` with the instances' usage added, and the reports by position."""
        mean, highest, found = columns.mean.copy(), columns.max.copy(), dict[int, InstanceReport]()
        for place, (row, at) in enumerate(zip(rows.tolist(), at_s.tolist(), strict=True)):
            if row in instances:
                ids, usage = instances.on(row, at)
                base, most = columns.mean[:, place], np.nan_to_num(capacity[:, row])
                total = usage.sum(axis=1)
                room = np.maximum(most - base, 0.0)
                usage *= np.divide(room, total, out=np.ones_like(total), where=total > room)[:, None]
                mean[:, place] = np.minimum(base + usage.sum(axis=1), np.maximum(most, base))
                highest[:, place] = np.maximum(
                    np.minimum(columns.max[:, place] + usage.sum(axis=1), np.maximum(most, base)), mean[:, place]
                )
                if number % self._every == 0 and ids and row not in self._waiting:
                    entries = dict(zip(ids, (InstanceMeans(*one) for one in usage.T.tolist()), strict=True))
                    system = InstanceMeans(*base.tolist())
                    self._waiting[row] = deque(parts(Measured(entries, system), at, self._every * self._interval_s))
            if waiting := self._waiting.get(row):
                found[place] = waiting.popleft()
                if not waiting:
                    del self._waiting[row]
        return replace(columns, mean=mean, max=highest), found
