"""Facets: what instances can be counted by."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance

Facet = tuple[str, ...] | tuple[str, int]
"""Something instances have in common: ``("label", key, value)``, ``("cluster", name)``, ``("role", name)``,
``("port", number)``, ``("kind", name)``."""


def facets_of(instance: Instance | Request) -> frozenset[Facet]:
    """Return what an instance, or the instance that a request asks for, can be counted by."""
    facets: set[Facet] = {("label", key, value) for key, value in instance.labels.items()}
    facets.update(("port", port) for port in instance.ports)
    if instance.cluster:
        facets.add(("cluster", instance.cluster))
    if instance.role:
        facets.add(("role", instance.role))
    if instance.kind:
        facets.add(("kind", instance.kind))
    return frozenset(facets)


def counted_alike(one: Instance, other: Instance) -> bool:
    """Return whether two instances are known to be counted by the same, without a look at each label."""
    return (
        one.labels is other.labels
        and one.ports is other.ports
        and one.cluster == other.cluster
        and one.role == other.role
        and one.kind == other.kind
    )


def alike(instances: Sequence[Instance]) -> tuple[list[Instance], list[int]]:
    """Return one instance of each group that is counted by the same, and the number of the group of each instance."""
    firsts: list[Instance] = []
    numbers: dict[object, int] = {}
    groups: list[int] = []
    last: Instance | None = None
    group = 0
    for one in instances:
        if last is None or not counted_alike(last, one):
            key = (*one.labels.items(), one.ports, one.cluster, one.role, one.kind)
            group = numbers.setdefault(key, len(firsts))
            if group == len(firsts):
                firsts.append(one)
            last = one
        groups.append(group)
    return firsts, groups
