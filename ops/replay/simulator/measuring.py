"""From a simulated fleet's readings to a snapshot, by the code that the stream app and the scorer run.

Each machine sends one sample a minute, with one reading. A batch of them goes through `streams.fold.fold.fold` into a
ring; `streams.fold.table.Table` makes the windows; the table is encoded, decoded and built into a snapshot.
"""

import numpy as np

from ops.replay.simulator.reports import Reports
from ops.replay.simulator.true_fleet import Fleet
from ops.replay.workload import LEAD_MINUTES, MINUTE_S
from schemas.messages.sample import VERSION, MachineFacts
from schemas.names import WINDOWS_S
from schemas.resources import RESOURCES
from schemas.tables.learned import Learned
from schemas.tables.window_table import decode_table
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from streams.fold.batch import Batch
from streams.fold.fold import fold
from streams.fold.peaks import Zone
from streams.fold.ring import Ring, slot_of
from streams.fold.table import Table

FOLDED_MINUTES_MAX = 30
"""Minutes folded in one batch."""


class Measuring:
    """The measured side of a fleet: samples in, snapshots out."""

    def __init__(self, fleet: Fleet, reports: Reports | None = None) -> None:
        """``reports``: the snapshots have the usage of each instance, too."""
        self._fleet, self._reports = fleet, reports
        workload = fleet.workload
        self._machines = list(workload.machines)
        self._origin_s = workload.origin_s
        self._ring, self._zone = Ring(), Zone("UTC")
        self._table = Table(WINDOWS_S, self._zone)
        labels = workload.machine_labels or [{}] * len(self._machines)
        self._facts = {
            name: MachineFacts(
                v=VERSION, machine=name, boot=0, at=float(self._origin_s), labels=dict(labels[row]),
                capacity={RESOURCES[r]: float(workload.capacity[r, row]) for r in fleet.measured},
            )
            for row, name in enumerate(self._machines)
        }  # fmt: skip
        self._until = -LEAD_MINUTES
        self._snapshot: Snapshot | None = None
        self.learned: Learned | None = None
        """The learned factors of the next snapshot."""
        self.predicted: bytes | None = None
        """The predicted peaks of the next snapshot."""

    def snapshot(self, minute: int) -> Snapshot:
        """Return the snapshot at the beginning of a minute, from the readings of all minutes before it."""
        if self._snapshot is not None and minute <= self._until:
            return self._snapshot
        while self._until < minute:
            until = min(minute, self._until + FOLDED_MINUTES_MAX)
            self._fold(self._until, until)
            self._until = until
        table = decode_table(self._table.encode(self._ring, {"written_at": self.now_s(minute)}))
        usages = self._reports.usages(minute) if self._reports is not None else None
        snapshot = build_snapshot([table], self._facts, {}, previous=self._snapshot)
        self._snapshot = snapshot.with_use(self.learned, usages, self.predicted)
        return self._snapshot

    def empty_snapshot(self) -> Snapshot:
        return build_snapshot([], self._facts, {})

    def now_s(self, minute: int) -> float:
        """Return the epoch time at which a minute begins."""
        return float(self._origin_s + MINUTE_S * minute)

    def _fold(self, first: int, last: int) -> None:
        minutes = np.arange(first, last)
        machines, resources = len(self._machines), len(RESOURCES)
        readings = np.zeros((resources, len(minutes), machines))
        held = max(first, 0)
        if last > held:  # before the origin the fleet is empty
            readings[self._fleet.measured, held - first :] = np.moveaxis(self._fleet.readings(held, last), 1, 2)
        mean = np.ascontiguousarray(readings.reshape(resources, -1).T)
        known = np.zeros(resources)
        known[self._fleet.measured] = 1
        count = len(mean)
        at = np.repeat(self._origin_s + MINUTE_S * (minutes + 1.0), machines)
        capacity = np.where(known[:, None] > 0, self._fleet.workload.capacity, np.nan)
        batch = Batch(
            machines=self._machines * len(minutes),
            at=at,
            slot=slot_of(at),
            boot=np.ones(count),
            seq=np.repeat(minutes + LEAD_MINUTES + 1.0, machines),
            interval_s=np.full(count, float(MINUTE_S)),
            recorded_at=at,
            host=np.zeros(count, np.uint64),
            n=np.broadcast_to(known, mean.shape),
            mean=mean,
            m2=np.zeros_like(mean),
            max=mean,
            capacity=np.tile(capacity.T, (len(minutes), 1)),
            classes=[],
        )
        done = fold(self._ring, batch, self._zone.shift_minutes(float(at[-1])))
        self._table.update(self._ring, done.rows, last + LEAD_MINUTES)
