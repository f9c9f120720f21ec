"""Facets: the index keys by which instances are counted."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from schemas.rpc.request import Affinity, Request
from scorer.ledger.record.instance import Instance

FIELDS = ("cluster", "role", "kind")
"""The fields of an instance that rules and selectors name like labels."""
Named = tuple[str, ...]


class Avoids(NamedTuple):
    """A rule of anti-affinity, as a facet of the instances that have it.

    At most ``others`` instances with all these ``facets`` may share the machine with one that has the rule, or the
    value of the machines' label ``topology``. Or none may join them on a machine or value beyond a ``share`` of them
    all, or beyond the value with the fewest and ``skew``.
    """

    topology: str
    facets: frozenset[Named]
    others: int = 0
    share: float = 0.0
    skew: int = 0

    @property
    def counts(self) -> bool:
        """Whether it allows some others, but not more than so many."""
        return bool(self.others or self.share or self.skew)

    @property
    def far(self) -> bool:
        """Whether instances on other machines matter to it."""
        return bool(self.topology != "machine" or self.share or self.skew)


Facet = Named | tuple[str, int] | Avoids
"""Something instances have in common: ``("label", key, value)``, ``("cluster", name)``, ``("role", name)``,
``("port", number)``, ``("kind", name)``; or a rule."""


def facets(term: Affinity) -> frozenset[Named]:
    """Return the facets that instances must have to match a term; ``cluster``, ``role``, ``kind`` name these fields."""
    return frozenset((key, value) if key in FIELDS else ("label", key, value) for key, value in term.instances.items())


def named(one: Any) -> dict[str, str]:
    """Return what a selector of instances reads of one: its labels, and those of `FIELDS` that it has."""
    return {name: value for name in FIELDS if (value := getattr(one, name))} | dict(one.labels)


def avoids(instance: Instance | Request) -> frozenset[Avoids]:
    """Return the rules of anti-affinity of an instance: the facets of the instances that it keeps away."""
    of = instance if isinstance(instance, Request) else instance.rules
    return frozenset(map(rule_of, of.anti_affinity)) if of else frozenset()


def rule_of(term: Affinity) -> Avoids:
    return Avoids(term.topology, facets(term), term.others, term.share, term.skew)


def facets_of(instance: Instance | Request) -> frozenset[Facet]:
    """Return the facets of an instance, or of the instance that a request describes."""
    facets: set[Facet] = {("label", key, value) for key, value in instance.labels.items()}
    facets.update(("port", port) for port in instance.ports)
    if instance.cluster:
        facets.add(("cluster", instance.cluster))
    if instance.role:
        facets.add(("role", instance.role))
    if instance.kind:
        facets.add(("kind", instance.kind))
    return frozenset(facets) | avoids(instance)


def counted_alike(one: Instance, other: Instance) -> bool:
    """Return whether two instances certainly have equal facets; a quick test, without comparing each label."""
    return (
        one.labels is other.labels
        and one.ports is other.ports
        and one.cluster == other.cluster
        and one.role == other.role
        and one.kind == other.kind
        and one.rules is other.rules
    )


def alike(instances: Sequence[Instance]) -> tuple[list[Instance], list[int]]:
    """Return one instance of each group with equal facets, and for each instance the number of its group."""
    firsts: list[Instance] = []
    numbers: dict[object, int] = {}
    groups: list[int] = []
    last: Instance | None = None
    group = 0
    for one in instances:
        if last is None or not counted_alike(last, one):
            key = (*one.labels.items(), one.ports, one.cluster, one.role, one.kind, avoids(one))
            group = numbers.setdefault(key, len(firsts))
            if group == len(firsts):
                firsts.append(one)
            last = one
        groups.append(group)
    return firsts, groups


class Avoiders:
    """Anti-affinity rules of instances, indexed by one facet of the instances that they avoid."""

    def __init__(self) -> None:
        self._found: dict[Facet, set[Avoids]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(self, facets: Iterable[Facet]) -> None:
        """Add the rules among these facets."""
        for one in facets:
            if isinstance(one, Avoids):
                self._found.setdefault(_key(one), set()).add(one)

    def drop(self, facet: Facet) -> None:
        """Remove a facet that no instance has any more."""
        if isinstance(facet, Avoids):
            several = self._found[_key(facet)]
            several.remove(facet)
            if not several:
                del self._found[_key(facet)]

    def all(self) -> list[Avoids]:
        """Return the rules, each once."""
        return [rule for several in self._found.values() for rule in several]

    def of(self, facets: frozenset[Facet]) -> list[Avoids]:
        """Return the rules that keep an instance with these facets away."""
        return [one for facet in (*facets, ()) for one in self._found.get(facet, ()) if one.facets <= facets]


def _key(facet: Avoids) -> Named:
    return min(facet.facets, default=())
