"""Usage by class: the measured usage of the instances, summed by the class that each has in the ledger. Pure.

An instance without a current report of its machine's agent is unmeasured, and its request counts. Reported usage of an
id that the ledger does not have on that machine is in neither sum.
"""

from dataclasses import dataclass

import numpy as np

from schemas.resources import PRIORITY_CLASSES
from scorer.classes.uses import MEASURED, UNMEASURED, sums_by_class
from scorer.ledger.view.residents import Residents
from scorer.ledger.view.slots import PlacedInstances
from scorer.ledger.view.view import LedgerView
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.snapshot import Snapshot


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
