"""How many matching instances are near a machine: on it, or on machines with the same value of a topology label."""

from __future__ import annotations

import numpy as np

from scorer.ledger.record.facets import Avoids, Facet
from scorer.ranking.machines.machines import Machines
from scorer.snapshot.arrays import Floats


def instances_near(facets: frozenset[Facet], topology: str, machines: Machines) -> Floats:
    """Return [n]: instances with these facets on the machines that share its topology value; 0 without the label."""
    if topology == "machine":
        return machines.tally(facets)
    column = machines.whole.label(topology)
    present = column.codes >= 0
    total = np.bincount(column.codes[present], machines.whole.tally(facets)[present], len(column.values))
    here = machines.label(topology).codes
    near: Floats = np.where(here >= 0, np.append(total, 0.0)[here], 0.0)
    return near


def avoiding(machines: Machines) -> list[Avoids]:
    """Return the rules of placed instances that keep the requested one away."""
    overlay = machines.what_if.overlay
    ledger = machines.table.residents.ledger if overlay is None else overlay
    return [rule for several in ledger.avoiders if several for rule in several.of(machines.facets)]
