"""The pool: the machines that are balanced among each other and the instances on them, as columns."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scorer.ranking.profiles.rebalance_section import INSTANCES
from scorer.snapshot.arrays import Bools, Floats, Integers


@dataclass(frozen=True)
class Pool:
    """K resources, M machines, N instances. Amounts are whole units, cpu in thousandths of a core.

    For `INSTANCES` each instance counts 1 on its machine, and 0 on a target that is tried.
    """

    resources: tuple[str, ...]
    machines: tuple[str, ...]
    capacity: Floats
    """[K, M] 0 where a machine has none of a resource."""
    schedulable: Bools
    """[M]"""
    system: Floats
    """[K, M] Usage that is of no instance."""
    instances: tuple[str, ...]
    machine: Integers
    """[N] Place of each instance's machine."""
    usage: Floats
    """[K, N]"""
    prod: Bools
    """[N] Whether it counts for the thresholds of production."""
    movable: Bools
    """[N]"""
    class_rank: Integers
    """[N] By `scorer.planning.thresholds.eviction_order.CLASS_RANK`."""
    since: Floats
    """[N] When each instance came."""
    known: Bools | None = None
    """[M] Whether there is a fresh figure of the machine; None: of all."""

    def fresh(self) -> "Pool":
        """Return the pool without machines that have no fresh data."""
        if self.known is None or self.known.all():
            return self
        kept = np.flatnonzero(self.known)
        place = np.full(len(self.machines), -1, np.int64)
        place[kept] = np.arange(len(kept))
        chosen = np.flatnonzero(place[self.machine] >= 0)
        of_machines = ("machines", "capacity", "schedulable", "system")
        of_instances = ("instances", "usage", "prod", "movable", "class_rank", "since")
        picked = {name: _picked(getattr(self, name), kept) for name in of_machines}
        picked |= {name: _picked(getattr(self, name), chosen) for name in of_instances}
        return replace(self, **picked, machine=place[self.machine[chosen]], known=None)

    def used(self, members: Bools | None = None) -> Floats:
        """Return [K, M]: the usage of system and instances; with ``members`` that of these instances alone.

        For `INSTANCES` it is their number.
        """
        chosen = np.arange(len(self.instances)) if members is None else np.flatnonzero(members)
        total = np.zeros_like(self.system) if members is not None else self.system.copy()
        for k, resource in enumerate(self.resources):
            amounts = np.ones(len(chosen)) if resource == INSTANCES else self.usage[k, chosen]
            counted = np.bincount(self.machine[chosen], amounts, len(self.machines))
            total[k] = counted if resource == INSTANCES else total[k] + counted
        return total


def _picked(values: Any, places: Integers) -> Any:
    """Return the columns at these positions of the last axis."""
    return tuple(values[n] for n in places) if isinstance(values, tuple) else values[..., places]
