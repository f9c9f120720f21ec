"""How many matching instances are near a machine: on it, or on machines with the same value of a topology label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.rpc.request import Affinity as Term
from scorer.ledger.record.facets import Facet
from scorer.ranking.machines.machines import Machines


def facets(term: Term) -> frozenset[Facet]:
    """Return the facets that the instances of a term must have; ``cluster``, ``role`` and ``kind`` are those fields."""
    return frozenset(
        (key, value) if key in ("cluster", "role", "kind") else ("label", key, value)
        for key, value in term.instances.items()
    )


def instances_near(term: Term, machines: Machines) -> NDArray[np.integer[Any]]:
    """Return [n]: matching instances on the machines that share its topology value; 0 without the label."""
    if term.topology == "machine":
        return machines.tally(facets(term))
    fleet_tally = machines.whole.tally(facets(term))
    column = machines.whole.label(term.topology)
    present = column.codes >= 0
    total = np.bincount(column.codes[present], fleet_tally[present], minlength=len(column.values))
    here = machines.label(term.topology).codes
    near: NDArray[np.integer[Any]] = np.where(here >= 0, np.append(total, 0.0)[here], 0.0).astype(np.int64)
    return near
