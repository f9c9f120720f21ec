"""From a simulated fleet's readings to a snapshot, by the code that the stream app and the scorer run.

Each machine sends one sample a minute, with one reading. A batch of them goes through `streams.fold.fold.fold` into a
ring; `streams.fold.table.Table` makes the windows; the table is encoded, decoded and built into a snapshot.

A snapshot has what a scorer learns of its fleet, too: expected use (`scorer.background.learner`), from the reports of
instances, and the predicted peaks of prod and the system. A world begins without any learned figures. Stated chances of
overload are not corrected here: they change no order of machines.
"""

import numpy as np

from ops.replay.simulator.true_fleet import Fleet
from ops.replay.workload import LEAD_MINUTES, MINUTE_S
from schemas.messages.sample import VERSION, InstanceMeans, InstanceReport, MachineFacts
from schemas.names import SILENT_S, WINDOWS_S
from schemas.resources import RESOURCES
from schemas.tables.learned import Learned
from schemas.tables.window_table import decode_table
from scorer.background.learner import WRITE_S
from scorer.classes.class_usage import LastReports, class_usage, prod_and_system, reported_at
from scorer.classes.prediction import Histograms
from scorer.ledger.view.view import LedgerView
from scorer.ranking.estimates.measured_use import learn
from scorer.snapshot.arrays import Floats
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.usages import Usages, UsageTable
from streams.fold.batch import Batch
from streams.fold.fold import fold
from streams.fold.instance_usage import InstanceUsage
from streams.fold.peaks import Zone
from streams.fold.ring import Ring, slot_of
from streams.fold.table import Table
from streams.state.checkpoint import encode_usage

FOLDED_MINUTES_MAX = 30
"""Minutes folded in one batch."""
LEARN_S = 600.0
"""How often a scorer looks by default (`scorer.settings`)."""
DROP_EVERY_MINUTES = 15
"""So often figures of instances are dropped whose last report is older than `SILENT_S`, as by a stream worker."""
_TINY = 1e-12


class Reports:
    """The usage by instance of a simulated fleet, from agents' reports, by the code of the stream app.

    Every machine reports once a minute what each of its instances used. The reports go through
    `streams.fold.instance_usage.InstanceUsage`; its figures are encoded as the value in Redis and decoded as a scorer
    reads it. The measured usage is the demand that was served: on an overloaded machine each instance gets the same
    part of its demand. A machine's other usage is its system's: the copying of instances that move.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._usage = InstanceUsage()
        self._names = [RESOURCES[row] for row in fleet.measured]
        self._until = 0
        self._dropped_at = 0
        self._usages: Usages | None = None

    def usages(self, minute: int) -> Usages:
        """Return the usages at the beginning of a minute, from the reports of all minutes before it."""
        if self._usages is None or minute > self._until:
            for each in range(self._until, minute):
                self._report(each)
            self._until = max(minute, self._until)
            if minute - self._dropped_at >= DROP_EVERY_MINUTES:
                self._usage.drop_silent(self._fleet.now_s(minute) - SILENT_S)
                self._dropped_at = minute
            table = decode_table(encode_usage(self._usage, {"written_at": self._fleet.now_s(minute)}))
            before = self._usages.tables[0] if self._usages is not None else None
            self._usages = Usages([UsageTable(table, before)], self._usages)
        return self._usages

    def _report(self, minute: int) -> None:
        fleet, workload = self._fleet, self._fleet.workload
        running = fleet.running(minute)
        rows = fleet.machine_of[running]
        demand = fleet.usage.at(running, fleet.measured, minute)
        given = demand * self._given(minute)[:, rows]
        system = (fleet.overhead[:, :, minute] * self._given(minute)).T.tolist()
        at, names = fleet.now_s(minute + 1), self._names
        entries: list[dict[str, InstanceMeans]] = [{} for _ in workload.machines]
        for instance, row, used in zip(running.tolist(), rows.tolist(), given.T.tolist(), strict=True):
            entries[row][workload.instances[instance]] = InstanceMeans(**dict(zip(names, used, strict=True)))
        self._usage.apply(
            [
                (
                    machine,
                    InstanceReport(
                        at=at,
                        interval_s=MINUTE_S,
                        system=InstanceMeans(**dict(zip(names, system[row], strict=True))),
                        entries=entries[row],
                    ),
                )
                for row, machine in enumerate(workload.machines)
            ],
            lambda times: np.ceil(times / 86_400.0),
        )

    def _given(self, minute: int) -> Floats:
        """Return [r, M]: the part of its demand that each machine could serve."""
        found: Floats = np.minimum(self._fleet.capacity / np.maximum(self._fleet.load[:, :, minute], _TINY), 1.0)
        return found


class PredictedPeaks:
    """Observes the usage by class, as `scorer.background.learner` does. ``raw``: the histograms that all scorers read.

    It observes each snapshot that is made. Reports between two of them that are further apart than a minute are
    observed as their mean.
    """

    def __init__(self) -> None:
        self.raw: bytes | None = None
        self._histograms, self._reports = Histograms(), LastReports()
        self._written_at = float("-inf")

    def look(self, snapshot: Snapshot, ledger: LedgerView, now_s: float) -> None:
        """Observe the snapshot, and write the peaks if the interval has passed."""
        used = prod_and_system(class_usage(snapshot, ledger, figures=self._reports.latest(snapshot.usages.columns)))
        self._histograms.look(snapshot.names, used, snapshot.capacity, now_s, reported_at(snapshot))
        if now_s - self._written_at >= WRITE_S:
            self._written_at = now_s
            self.raw = self._histograms.peaks()


class Measuring:
    """The measured side of a fleet: samples in, snapshots out."""

    def __init__(self, fleet: Fleet, *, learns: bool, by_class: bool, reports: bool) -> None:
        """``learns``: expected use; ``by_class``: the peaks; each of both, and ``reports``, has usage by instance."""
        self._fleet = fleet
        self._reports = Reports(fleet) if learns or by_class or reports else None
        self._peaks = PredictedPeaks() if by_class else None
        self._learned: Learned | None = None
        self._learn_at = float("-inf" if learns else "inf")
        """When expected use is learned next."""
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

    def snapshot(self, minute: int) -> Snapshot:
        """Return the snapshot at the beginning of a minute, from the readings of all minutes before it."""
        if self._snapshot is not None and minute <= self._until:
            return self._snapshot
        while self._until < minute:
            until = min(minute, self._until + FOLDED_MINUTES_MAX)
            self._fold(self._until, until)
            self._until = until
        table = decode_table(self._table.encode(self._ring, {"written_at": self._fleet.now_s(minute)}))
        usages = self._reports.usages(minute) if self._reports is not None else None
        snapshot = build_snapshot([table], self._facts, {}, previous=self._snapshot)
        peaks = self._peaks.raw if self._peaks is not None else None
        self._snapshot = snapshot.with_use(self._learned, usages, peaks)
        return self._snapshot

    def learn(self, minute: int, ledger: LedgerView) -> None:
        """Learn from measured instances if the interval has passed; decisions use it from the next snapshot on."""
        now_s = self._fleet.now_s(minute)
        if now_s >= self._learn_at and self.snapshot(minute).usages:
            self._learn_at = now_s + LEARN_S
            self._learned = learn(self._learned or Learned(), self.snapshot(minute), ledger, now_s) or self._learned
        if self._peaks is not None:
            self._peaks.look(self.snapshot(minute), ledger, now_s)

    def empty_snapshot(self) -> Snapshot:
        return build_snapshot([], self._facts, {})

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
