"""Affinity and anti-affinity: near, or far from, instances with certain labels, by machine or by a topology label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.rpc.request import Affinity as Term
from scorer.ranking.formulas.topology import facets, instances_near
from scorer.ranking.plugin import Bools, Detail, Machines, Plugin, Request, Scope


@dataclass(frozen=True)
class Affinity(Plugin):
    """Refuse machines that are not near an instance of every term of ``affinity``.

    While no such instance is anywhere and the instance itself matches the term, any machine with the topology label
    passes. The first of a group must be able to start.
    """

    name = "affinity"
    reason = "not near the instances asked for"
    scope = "fleet"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request without such terms."""
        return bool(request.affinity)

    def __call__(self, request: Request, machines: Machines) -> Bools:
        allowed = np.ones(len(machines), np.bool_)
        for term in request.affinity:
            wanted = facets(term)
            if wanted <= machines.requested_instance.facets and not machines.exists(wanted):
                allowed &= machines.label(term.topology).codes >= 0
            else:
                allowed &= instances_near(term, machines) > 0
        return allowed

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show how many matching instances are near."""
        return {_shown(term): int(instances_near(term, machines)[position]) for term in request.affinity}


@dataclass(frozen=True)
class AntiAffinity(Plugin):
    """Refuse machines that are near an instance of any term of ``anti_affinity``; without the label none is."""

    name = "anti_affinity"
    reason = "near instances to be avoided"
    scope = "fleet"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request without such terms."""
        return bool(request.anti_affinity)

    def scope_for(self, request: Request, machines: Machines) -> Scope:
        """Return ``instances`` unless instances like the requested instance avoid each other beyond the one machine."""
        far = (
            facets(term) <= machines.requested_instance.facets
            for term in request.anti_affinity
            if term.topology != "machine"
        )
        return "fleet" if any(far) else "instances"

    def __call__(self, request: Request, machines: Machines) -> Bools:
        allowed = np.ones(len(machines), np.bool_)
        for term in request.anti_affinity:
            allowed &= instances_near(term, machines) == 0
        return allowed

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show how many matching instances are near."""
        return {_shown(term): int(instances_near(term, machines)[position]) for term in request.anti_affinity}


def _shown(term: Term) -> str:
    return ",".join(f"{key}={value}" for key, value in term.instances.items()) + f" by {term.topology}"
