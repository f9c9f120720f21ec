"""Usage by class: the measured usage of the instances, summed by the class that each has in the ledger. Pure.

An instance without a current report of its machine's agent is unmeasured, and its request counts. Reported usage of an
id that the ledger does not have on that machine is in neither sum.
"""

from dataclasses import dataclass

import numpy as np

from schemas.resources import PRIORITY_CLASSES
from schemas.tables.instance_table import RECENT_S
from scorer.classes.strategy import MEASURED, UNMEASURED, sums_by_class
from scorer.ledger.view.residents import Residents
from scorer.ledger.view.slots import PlacedInstances
from scorer.ledger.view.view import LedgerView
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.usages import UsageColumns


@dataclass(frozen=True)
class ClassUsage:
    """C classes in the order of `schemas.resources.PRIORITY_CLASSES`, R resources, M machines."""

    used: Floats
    """[C, R, M] Mean of about the last half hour, or other figures; NaN where no report of the machine is current."""
    unmeasured: Floats
    """[C, R, M] Sum of the requests of instances whose usage of the resource is not measured."""
    system: Floats
    """[R, M] The machine's usage beyond its instances; NaN where unknown."""
    measured: int
    """Number of instances of which any resource is measured."""


def class_usage(snapshot: Snapshot, ledger: LedgerView, figures: Floats | None = None) -> ClassUsage:
    """Return the usage by class of all machines.

    ``figures``: a column over all pairs of ``snapshot.usages.columns``; without one the mean of about half an hour.
    """
    placed = Residents(ledger, snapshot.roster).placed()
    figures = snapshot.usages.columns.recent if figures is None else figures
    measured = measured_usage(snapshot, placed, figures)
    sums = sums_by_class(placed.rows, len(snapshot), placed.classes, placed.amounts, measured)
    return ClassUsage(
        used=np.where(reported(snapshot), sums[MEASURED], np.nan),
        unmeasured=sums[UNMEASURED],
        system=system_usage(snapshot, figures),
        measured=int(np.isfinite(measured).any(axis=0).sum()),
    )


def prod_and_system(usage: ClassUsage) -> Floats:
    """Return [I, R, M]: the present usage of what is predicted (`scorer.classes.prediction.PREDICTED`).

    The request of an unmeasured instance of prod counts as its usage. NaN where nothing of the machine is measured.
    """
    prod = PRIORITY_CLASSES.index("prod")
    return np.array([usage.used[prod] + usage.unmeasured[prod], usage.system])


def measured_usage(snapshot: Snapshot, placed: PlacedInstances, figures: Floats | None = None) -> Floats:
    """Return [R, K]: the usage of each instance; NaN where no current report has it.

    ``figures``: a column over all pairs of ``snapshot.usages.columns``; without one the mean of about half an hour.
    """
    columns = snapshot.usages.columns
    return columns.take(columns.recent if figures is None else figures, current_rows(snapshot, placed))


def current_rows(snapshot: Snapshot, placed: PlacedInstances) -> Integers:
    """Return [K]: the row of each instance in ``snapshot.usages.columns``; -1 without a current report.

    A report is current until its machine has a sample that is over ten minutes newer.
    """
    return snapshot.usages.columns.rows(placed.pairs, snapshot.column("at")[placed.rows])


def system_usage(snapshot: Snapshot, figures: Floats) -> Floats:
    """Return [R, M]: the usage of each machine's system, from a column of all pairs; NaN without a current report."""
    columns = snapshot.usages.columns
    return columns.take(figures, _systems(snapshot))


def reported_usage(snapshot: Snapshot) -> Floats:
    """Return [R, M]: the total of each machine's last report, system included; NaN where its system is unknown."""
    columns = snapshot.usages.columns
    return system_usage(snapshot, columns.recent + columns.recent_of_system)


def reported_at(snapshot: Snapshot) -> Floats:
    """Return [M]: the end of each machine's last report of instances; NaN where there is no current one."""
    found: Floats = system_usage(snapshot, snapshot.usages.columns.at[None])[0]
    return found


def reported(snapshot: Snapshot) -> Bools:
    """Return [M]: whether the report on the usage of a machine's instances is current."""
    return _systems(snapshot) >= 0


def _systems(snapshot: Snapshot) -> Integers:
    """Return [M]: the row of each machine's system in ``snapshot.usages.columns``; -1 without a current report."""
    return snapshot.usages.columns.rows(snapshot.roster.systems, snapshot.column("at"))


WEIGHT_MIN = 5e-4
"""The weight of a report of about one second: less cannot be distinguished from rounding."""


class LastReports:
    """The usage in the last report of each instance, computed from two of its running means.

    The tables have a mean of about half an hour, and no single minutes (`schemas.tables.instance_table`). A report
    changes it with a known weight, so the report follows from the means before and after it:

        mean = kept * mean before + (1 - kept) * report
        kept = min(n before / n, exp(-dt / 30 min)), n being the reports, dt the time since the one before

    For several reports since then it is their mean. Floats of 32 bits leave it exact to some millionths of the mean.

    Chosen: to look every minute. Rejected: a column of last reports, 8 bytes for each instance in every table and its
    checkpoint, for one reader; 71 bytes would be more than the 64 that an instance may take.
    """

    def __init__(self) -> None:
        self._before: UsageColumns | None = None
        self._latest: Floats = np.zeros((0, 0))

    def latest(self, columns: UsageColumns) -> Floats:
        """Return [R, K]: the usage in the last report of each pair; for a new pair its mean."""
        before = self._before
        if before is columns:
            return self._latest
        found = columns.recent.copy()
        if before is not None and before.at.size:
            self._fill(found, columns, before)
        self._before, self._latest = columns, found
        return found

    def _fill(self, found: Floats, columns: UsageColumns, before: UsageColumns) -> None:
        """Compute the reports of the pairs that were in the previous table."""
        if columns.index is before.index:
            here = there = np.arange(columns.at.size)
        else:
            rows = before.index.rows(columns.index.of_rows)
            here = np.flatnonzero((rows >= 0) & (columns.index.of_rows != 0))
            there = rows[here]
        known = columns.since[here] == before.since[there]
        here, there = here[known], there[known]
        elapsed_s = columns.at[here] - before.at[there]
        same = elapsed_s == 0
        found[:, here[same]] = self._latest[:, there[same]]
        newer = elapsed_s > 0
        here, there, elapsed_s = here[newer], there[newer], elapsed_s[newer]
        kept = np.minimum(before.count[there] / np.maximum(columns.count[here], 1.0), np.exp(-elapsed_s / RECENT_S))
        mean_before, mean = before.recent[:, there], columns.recent[:, here]
        with np.errstate(invalid="ignore", over="ignore"):  # of figures that no machine has
            report = np.maximum(mean + kept / np.maximum(1.0 - kept, WEIGHT_MIN) * (mean - mean_before), 0.0)
        found[:, here] = np.where(np.isfinite(report), report, mean)
