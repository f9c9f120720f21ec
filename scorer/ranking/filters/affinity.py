"""Affinity and anti-affinity: near, or far from, instances with certain labels, by machine or by a topology label."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.rpc.request import Affinity as Term
from scorer.ledger.record.facets import Avoids, facets, rule_of
from scorer.ranking.formulas.topology import avoiding, excess, instances_near
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request


@dataclass(frozen=True)
class Affinity(Plugin):
    """Refuse machines that are not near an instance of every term of ``affinity``.

    While no machine with the topology label has such an instance and the instance itself matches the term, any of them
    passes. The first of a group must be able to start.
    """

    name = "affinity"
    reason = "not near the instances asked for"
    looks_at = ("affinity",)

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(request.affinity)

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        unmatched = np.zeros(len(machines))
        for term in request.affinity:
            wanted = facets(term)
            if wanted <= machines.facets and not instances_near(wanted, term.topology, machines.whole).any():
                unmatched += machines.label(term.topology).codes < 0
            else:
                unmatched += instances_near(facets(term), term.topology, machines) == 0
        return (unmatched,)

    def far(self, request: Request, machines: Machines) -> bool:
        """Return whether instances like the requested one match a term."""
        return any(facets(term) <= machines.facets for term in request.affinity)

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        return {
            _shown(term): int(instances_near(facets(term), term.topology, machines)[position])
            for term in request.affinity
        }


@dataclass(frozen=True)
class AntiAffinity(Plugin):
    """Refuse machines near more instances than a term of ``anti_affinity`` allows.

    Without a term's label no machine is refused, unless its limit is a ``skew`` (`scorer.ranking.formulas.topology`).
    The rules of placed instances bind, too: an instance that avoids the requested one keeps it away, once it has as
    many ``others`` near as it allows; a ``share`` or a ``skew`` keeps it away from any machine that would exceed it.
    """

    name = "anti_affinity"
    reason = "near instances to be avoided"
    reasons = (reason, "near instances that avoid it", "without the label of a skew")
    looks_at = ("anti_affinity",)

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool(request.anti_affinity or avoiding(machines))

    def columns(self, request: Request, machines: Machines) -> Sequence[Floats]:
        """Count the instances that are too many for a term, those that avoid the requested one, and missing labels."""
        near, avoid, missing = np.zeros((3, len(machines)))
        for term in request.anti_affinity:
            near += excess(rule_of(term), machines)
            missing += machines.label(term.topology).codes < 0 if term.skew else 0.0
        for rule in avoiding(machines):
            avoid += _full(rule, machines)
        return near, avoid, missing

    def own(self, request: Request, machines: Machines) -> Sequence[float]:
        return (float(sum(facets(term) <= machines.facets for term in request.anti_affinity)), 0.0, 0.0)

    def far(self, request: Request, machines: Machines) -> bool:
        """Return whether another instance like the requested one changes other machines, or a count below its limit."""
        own = [rule for rule in map(rule_of, request.anti_affinity) if rule.facets <= machines.facets]
        return any(rule.far or rule.counts for rule in own) or any(rule.counts for rule in avoiding(machines))

    def detail(self, said: Floats, request: Request, machines: Machines, position: int) -> Detail:
        near = {_shown(term): instances_near(facets(term), term.topology, machines) for term in request.anti_affinity}
        for rule in avoiding(machines):
            whom = ",".join(sorted("=".join(facet[-2:]) for facet in rule.facets)) or "all"
            near[f"avoiding {whom} by {rule.topology}"] = instances_near(frozenset([rule]), rule.topology, machines)
        return {shown: int(each[position]) for shown, each in near.items()}


def _full(rule: Avoids, machines: Machines) -> Floats:
    """Return [n]: the instances near a machine that have this rule and allow no further one, or those in excess.

    An instance that matches its own rule does not count for itself.
    """
    if rule.share or rule.skew:
        return excess(rule, machines)
    having = instances_near(frozenset([rule]), rule.topology, machines)
    if not rule.others:
        return having
    among = instances_near(frozenset([rule, *rule.facets]), rule.topology, machines)
    others = instances_near(rule.facets, rule.topology, machines) - (having == among)
    return np.where(others + 1 > rule.others, having, 0.0)


def _shown(term: Term) -> str:
    return ",".join(f"{key}={value}" for key, value in term.instances.items()) + f" by {term.topology}"
