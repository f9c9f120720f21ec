"""How many matching instances are near a machine: on it, or on machines with the same value of a topology label."""

from __future__ import annotations

import numpy as np

from schemas.rpc.request import Affinity as Term
from scorer.ledger.record.facets import Facet
from scorer.ranking.machines.machines import Machines
from scorer.snapshot.arrays import Floats


def facets(term: Term) -> frozenset[Facet]:
    """Return the facets that the instances of a term must have; ``cluster``, ``role`` and ``kind`` are those fields."""
    return frozenset(
        (key, value) if key in ("cluster", "role", "kind") else ("label", key, value)
        for key, value in term.instances.items()
    )


def instances_near(term: Term, machines: Machines) -> Floats:
    """Return [n]: matching instances on the machines that share its topology value; 0 without the label."""
    if term.topology == "machine":
        return machines.tally(facets(term))
    column = machines.whole.label(term.topology)
    present = column.codes >= 0
    total = np.bincount(column.codes[present], machines.whole.tally(facets(term))[present], len(column.values))
    here = machines.label(term.topology).codes
    near: Floats = np.where(here >= 0, np.append(total, 0.0)[here], 0.0)
    return near
