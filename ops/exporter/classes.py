"""The families by priority class, if the profile counts by class: limit, allocated and usage of each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ops.exporter.exposition import Columns, Family
from ops.exporter.state import State
from schemas.resources import PRIORITY_CLASSES, RESOURCES

RECLAIMED = ("mid", "batch")
"""Classes with a sum below prod; free has batch's."""


def of_fleet(state: State) -> Iterator[Family]:
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


def of_machines(state: State, shown: Columns) -> Iterator[Family]:
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
