"""The data of a plan: bounds, instances and machines as columns, steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scorer.planning.balance.cost import UNKNOWN_NIC
from scorer.snapshot.arrays import Bools, Floats, Integers


@dataclass(frozen=True)
class Bounds:
    """The bounds of a plan."""

    moves_max: int = 50
    from_machine_max: int = 5
    to_machine_max: int = 5
    cluster_max: int = 1
    gain_min: float = 0.002
    """Least gain of a move less its cost; by overload in machines of the fleet's mean size, weighted by resource."""
    objective: str = "overload"
    """A key of `scorer.planning.balance.objective.OBJECTIVES`."""
    hour_max: int | None = None
    """The most moves of the last hour and the plan together; None: no limit by the hour."""
    nic_share: float = 0.5
    """Part of a NIC that a copy may take."""
    nic_unknown: float = UNKNOWN_NIC
    """Bytes/s of a NIC whose speed is not known."""

    def __post_init__(self) -> None:
        for name in ("moves_max", "from_machine_max", "to_machine_max", "cluster_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected 1 or more, got {getattr(self, name)}")
        if not 0 <= self.gain_min < float("inf"):
            raise ValueError(f"gain_min: expected zero or more, got {self.gain_min}")


@dataclass(frozen=True)
class Movable:
    """N instances as columns."""

    machine: Integers
    """[N] Place of the machine that each is on."""
    usage: Floats
    """[K, N] Expected mean usage."""
    variance: Floats
    """[K, N] Of the usage."""
    free: Bools
    """[N] Whether it may be moved."""
    cluster: Integers
    """[N] A number for each cluster; -1: of none."""
    memory: Floats
    """[N] Bytes that a move copies."""


@dataclass(frozen=True)
class Hosts:
    """M machines as columns: the moves that each may have in a plan."""

    gives: Bools
    """[M] Whether it may give instances away."""
    takes: Bools
    """[M] Whether it may take them."""
    ceiling: Floats
    """[K] The share that a target stays at or below; infinite: none."""
    copy_rate: Floats
    """[M] Bytes/s that a copy may take of its NIC."""
    given: Integers
    """[M] Instances that it gave away in the last hour."""
    taken: Integers
    """[M] Instances that it took in the last hour."""
    copy_cores: Floats
    """[K] The load of a copy on each resource besides the NIC, on either machine."""
    copied: Floats
    """[K] The load of a copy for each byte/s of its rate: 1 of the NIC, 0 of the others."""

    @classmethod
    def plain(cls, machines: int, resources: int) -> Hosts:
        """Return machines without a rule of their own, with NICs of 1 Gbit/s; copies take nothing else."""
        every, none = np.ones(machines, np.bool_), np.zeros(machines, np.int64)
        nothing = np.zeros(resources)
        rates = np.full(machines, UNKNOWN_NIC)
        return cls(every, every, np.full(resources, np.inf), rates, none, none, nothing, nothing)


@dataclass(frozen=True)
class Step:
    """One move: places of the instance and of its machines, and the overload of both before and after."""

    instance: int
    source: int
    target: int
    gain: float
    source_before: float
    source_after: float
    target_before: float
    target_after: float
    utilization: Floats
    """[2, 2, K] Mean load of source and target (first axis), before and after (second)."""
    cost: float = 0.0
    """The cost of the copying, in the unit of the gain (`scorer.planning.balance.cost`)."""
    copy_bytes: float = 0.0
    copy_s: float = 0.0
    """How long the copy of its memory takes, s."""
    reason: str = field(default="", compare=False)
    """The reason that the rule gives, if any."""
