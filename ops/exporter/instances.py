"""The families of usage by instance: sums by machine and class, age of the reports, the largest instances by name.

Only instances that the ledger has on a machine count. Sums are of the mean of about half an hour.
"""

from collections.abc import Iterator

import numpy as np

from ops.exporter.exposition import SECONDS, Columns, Family, single
from ops.exporter.state import State
from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.classes.class_usage import measured_usage
from scorer.ledger.view.residents import Residents
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.usages import pair_digest

SILENT_S = 300.0
"""A report is missing when it is so much older than its machine's newest sample: five of an agent's intervals."""
DIGITS = 4
"""Decimals of a single instance's usage."""


def of_fleet(state: State) -> Iterator[Family]:
    """Return how many instances are measured, and on how many machines reports stopped while samples arrive."""
    found = state.class_usage
    about = "Instances of the ledger whose usage a current report has."
    yield single("windward_instances_measured", about, 0 if found is None else found.measured)
    about = "Fresh machines with instances whose last report of them is five minutes older than the newest sample."
    stopped = state.snapshot.column("at") - reported_at(state) > SILENT_S
    silent = int((stopped & state.fresh & (state.seen.count > 0)).sum())
    yield single("windward_fleet_machines_without_reports", about, silent)


def of_machines(state: State, shown: Columns, fresh: Columns) -> Iterator[Family]:
    """Return the sums of each machine's instances, its system's usage, and the time of its last report."""
    found = state.class_usage
    if found is None:
        return
    together, whole = found.used.sum(axis=0), state.snapshot.inverse_allocatable
    about = "Measured usage of its instances, of allocatable."
    yield fresh.each("windward_machine_instances_usage_ratio", about, together * whole)
    about = "Measured usage beside its instances, of allocatable."
    yield fresh.each("windward_machine_system_usage_ratio", about, found.system * whole)
    name, about = "windward_machine_last_instance_report_timestamp_seconds", "End of the newest report of instances."
    yield shown.one(name, about, reported_at(state), SECONDS)


def largest(state: State, most: int, fresh: Bools) -> Iterator[Family]:
    """Return the usage of the ``most`` instances that use the largest part of their machine, in any resource."""
    if most <= 0 or state.class_usage is None:
        return
    snapshot, placed = state.snapshot, Residents(state.ledger, state.snapshot.roster).placed()
    share = measured_usage(snapshot, placed) * snapshot.inverse_allocatable[:, placed.rows]
    part = np.where(fresh[placed.rows], np.fmax.reduce(share, axis=0, initial=-np.inf), -np.inf)
    chosen = np.argsort(-part, kind="stable")[:most]
    chosen = chosen[np.isfinite(part[chosen])]
    hosts = {snapshot.names[row] for row in placed.rows[chosen].tolist()}
    ids = {pair_digest(host, one.id): one.id for host in hosts for one in state.ledger.held_on(host)}
    family = Family(
        "windward_instance_usage_ratio",
        "Measured usage of an instance, of its machine's allocatable; the largest ones.",
    )
    for at in chosen.tolist():
        labels = {"machine": snapshot.names[int(placed.rows[at])], "id": ids[int(placed.pairs[at])]}
        for position, resource in enumerate(RESOURCES):
            family.add(round(float(share[position, at]), DIGITS), **labels, resource=resource)
    yield family


def reported_at(state: State) -> Floats:
    """Return [M]: the end of each machine's newest report, current or not; NaN where none is known."""
    columns = state.snapshot.usages.columns
    return columns.take(columns.at, columns.index.rows(state.snapshot.roster.systems))


RECLAIMED = ("mid", "batch")
"""Classes with a sum below prod; free has batch's."""


def classes_of_fleet(state: State) -> Iterator[Family]:
    """Return the sums over all machines, as shares of allocatable; none when all classes are one sum."""
    if (sums := state.class_sums) is None:
        return
    room = Family("windward_fleet_class_room_ratio", "What a class may be promised, of what all machines have.")
    promised = Family("windward_fleet_class_promised_ratio", "What instances of a class ask for, of the same.")
    used = Family("windward_fleet_class_used_ratio", "What they are measured to use, of the same.")
    for position in sums.sold:
        total = float(np.nansum(state.seen.allocatable[position]))
        for code, name in enumerate(PRIORITY_CLASSES) if total > 0 else ():
            labels = {"class": name, "resource": RESOURCES[position]}
            for family, values in ((room, sums.most), (promised, sums.promised), (used, sums.used)):
                family.add(float(np.nansum(values[code, position])) / total, **labels)
    yield from (room, promised, used)


def classes_of_machines(state: State, shown: Columns) -> Iterator[Family]:
    """Return the most that may be allocated to mid and batch on each machine, as a share of its allocatable."""
    if (sums := state.class_sums) is None:
        return
    family = Family("windward_machine_reclaimable_ratio", "What mid or batch may be promised, of allocatable.")
    for name in RECLAIMED:
        values = sums.most[PRIORITY_CLASSES.index(name)] * state.snapshot.inverse_allocatable
        for position in sums.sold:
            labels = {"class": name, "resource": RESOURCES[position]}
            family.add_column(shown.names, values[position], shown.rows, labels=labels)
    yield family
