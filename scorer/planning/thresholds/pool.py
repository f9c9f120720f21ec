"""The pool: the machines that are balanced among each other and the instances on them, as columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from scorer.ranking.profiles.rebalance_section import INSTANCES
from scorer.snapshot.arrays import Bools, Floats, Integers


@dataclass(frozen=True)
class Pool:
    """K resources, M machines, N instances. Amounts are whole units, cpu in thousandths of a core.

    Of `INSTANCES` each instance is 1 on its machine, and 0 on a target that is tried.
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

    def fresh(self) -> Pool:
        """Return the pool without the machines that have no fresh figure."""
        if self.known is None or self.known.all():
            return self
        kept = np.flatnonzero(self.known)
        place = np.full(len(self.machines), -1, np.int64)
        place[kept] = np.arange(len(kept))
        chosen = np.flatnonzero(place[self.machine] >= 0)
        return replace(
            self,
            machines=tuple(self.machines[m] for m in kept),
            capacity=self.capacity[:, kept],
            schedulable=self.schedulable[kept],
            system=self.system[:, kept],
            instances=tuple(self.instances[n] for n in chosen),
            machine=place[self.machine[chosen]],
            usage=self.usage[:, chosen],
            prod=self.prod[chosen],
            movable=self.movable[chosen],
            class_rank=self.class_rank[chosen],
            since=self.since[chosen],
            known=None,
        )

    def used(self, members: Bools | None = None) -> Floats:
        """Return [K, M]: the usage of system and instances; with ``members``, theirs only, without the system's.

        Of `INSTANCES` it is how many there are.
        """
        chosen = np.arange(len(self.instances)) if members is None else np.flatnonzero(members)
        total = np.zeros_like(self.system) if members is not None else self.system.copy()
        for k, resource in enumerate(self.resources):
            amounts = np.ones(len(chosen)) if resource == INSTANCES else self.usage[k, chosen]
            counted = np.bincount(self.machine[chosen], amounts, len(self.machines))
            total[k] = counted if resource == INSTANCES else total[k] + counted
        return total
