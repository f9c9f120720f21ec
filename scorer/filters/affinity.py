"""Affinity and anti-affinity: near, or far from, instances with certain labels, by machine or by a topology label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from schemas.request import Affinity as Term
from schemas.request import Request
from scorer.ledger_view import Facet
from scorer.machines import Machines
from scorer.snapshot import Bools


def facets(term: Term) -> frozenset[Facet]:
    """Return what the instances of a term have in common; ``cluster``, ``role`` and ``kind`` are those fields."""
    return frozenset(
        (key, value) if key in ("cluster", "role", "kind") else ("label", key, value)
        for key, value in term.instances.items()
    )


def instances_near(term: Term, machines: Machines) -> NDArray[np.integer[Any]]:
    """Return [n]: matching instances on the machines that share its topology value; 0 without the label."""
    if term.topology == "machine":
        return machines.tally(facets(term))
    fleet_tally = machines.fleet.ledger.tally(facets(term))
    column = machines.fleet.snapshot.rules.label(term.topology)
    present = column.codes >= 0
    total = np.bincount(column.codes[present], fleet_tally[present], minlength=len(column.values))
    here = machines.label(term.topology).codes
    near: NDArray[np.integer[Any]] = np.where(here >= 0, np.append(total, 0.0)[here], 0.0).astype(np.int64)
    return near


@dataclass(frozen=True)
class Affinity:
    """Refuse machines that are not near an instance of every term of ``affinity``.

    While no such instance is anywhere and the newcomer itself matches the term, any machine with the topology label
    will do: the first of a group must be able to start.
    """

    name: ClassVar[str] = "affinity"
    reason: ClassVar[str] = "not near the instances asked for"
    whole_fleet: ClassVar[bool] = True

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request without such terms."""
        return bool(request.affinity)

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        allowed = np.ones(len(machines), np.bool_)
        for term in request.affinity:
            wanted = facets(term)
            if wanted <= machines.facets and not machines.fleet.ledger.matching(wanted) and machines.copies is None:
                allowed &= machines.label(term.topology).codes >= 0
            else:
                allowed &= instances_near(term, machines) > 0
        return allowed

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show how many matching instances are near."""
        return {_shown(term): int(instances_near(term, machines)[position]) for term in request.affinity}


@dataclass(frozen=True)
class AntiAffinity:
    """Refuse machines that are near an instance of any term of ``anti_affinity``; without the label none is."""

    name: ClassVar[str] = "anti_affinity"
    reason: ClassVar[str] = "near instances to be avoided"
    whole_fleet: ClassVar[bool] = True

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request without such terms."""
        return bool(request.anti_affinity)

    def __call__(self, request: Request, machines: Machines) -> Bools:
        """Return [n]."""
        allowed = np.ones(len(machines), np.bool_)
        for term in request.anti_affinity:
            allowed &= instances_near(term, machines) == 0
        return allowed

    def detail(self, request: Request, machines: Machines, position: int) -> Mapping[str, Any]:
        """Show how many matching instances are near."""
        return {_shown(term): int(instances_near(term, machines)[position]) for term in request.anti_affinity}


def _shown(term: Term) -> str:
    return ",".join(f"{key}={value}" for key, value in term.instances.items()) + f" by {term.topology}"
