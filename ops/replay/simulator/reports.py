"""Agents' reports of instances, in simulated time, by the code of the stream app.

Every machine reports once a minute what each of its instances used. The reports go through
`streams.fold.instance_usage.InstanceUsage`; its figures are encoded as the value in Redis and decoded as a scorer reads
it. The measured usage is the demand that was served: on an overloaded machine each instance gets the same part of its
demand. A machine's other usage is its system's: the copying of instances that move.
"""

import numpy as np

from ops.replay.simulator.true_fleet import Fleet
from ops.replay.workload import MINUTE_S
from schemas.messages.sample import InstanceMeans, InstanceReport
from schemas.names import SILENT_S
from schemas.resources import RESOURCES
from schemas.tables.window_table import decode_table
from scorer.snapshot.arrays import Floats
from scorer.snapshot.usages import Usages, UsageTable
from streams.fold.instance_usage import InstanceUsage
from streams.state.checkpoint import encode_usage

DROP_EVERY_MINUTES = 15
"""So often figures of instances are dropped whose last report is older than `SILENT_S`, as by a stream worker."""
_TINY = 1e-12


class Reports:
    """The usage by instance of a simulated fleet."""

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
                self._usage.drop_silent(self._now_s(minute) - SILENT_S)
                self._dropped_at = minute
            table = decode_table(encode_usage(self._usage, {"written_at": self._now_s(minute)}))
            before = self._usages.tables[0] if self._usages is not None else None
            self._usages = Usages([UsageTable(table, before)], self._usages)
        return self._usages

    def _now_s(self, minute: int) -> float:
        return float(self._fleet.workload.origin_s + MINUTE_S * minute)

    def _report(self, minute: int) -> None:
        fleet, workload = self._fleet, self._fleet.workload
        running = fleet.running(minute)
        rows = fleet.machine_of[running]
        demand = fleet.usage.at(running, fleet.measured, minute)
        given = demand * self._given(minute)[:, rows]
        system = (fleet.overhead[:, :, minute] * self._given(minute)).T.tolist()
        at, names = self._now_s(minute + 1), self._names
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
