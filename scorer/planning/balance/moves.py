"""The data of a plan: instances and machines as columns, steps."""

from dataclasses import dataclass, field

from scorer.snapshot.arrays import Bools, Floats, Integers


@dataclass(frozen=True)
class Movable:
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
    """M machines as columns: the number of moves that each may have in a plan."""

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


@dataclass(frozen=True)
class Step:
    """One move: the positions of the instance and its machines, and the overload of both before and after."""

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
