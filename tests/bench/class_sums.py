"""The laws of sums by class over a ledger's history: whenever an instance comes or grows, its class is within its sum.

For fleets whose machines use nothing and whose instances nobody measures. Then prod and mid count as they ask, and

    prod    <= allocatable
    mid     <= what prod asks for, and capacity
    batch   <= share * capacity - what prod and mid ask for; with free, where an instance of free comes

Higher classes may come back after batch: what is then too much is advised for eviction, it is no fault.
"""

from __future__ import annotations

from collections import Counter

from schemas.resources import RESOURCES
from scorer.ledger.instance import Instance, machines_of
from scorer.ledger.units import in_units

SHARE = {"cpu": 0.6, "memory": 0.65}
PROFILE = """
[[filters]]
use = "fits"
classes = {}
[[filters]]
use = "ports"
[[scores]]
use = "least_allocated"
"""
"""Sums by class alone: no load decides."""


class ClassSums:
    """What every class holds on every machine at one moment of the history."""

    def __init__(self, capacity: tuple[float, ...]) -> None:
        self._capacity = {name: in_units(name, most) for name, most in zip(RESOURCES, capacity, strict=False)}
        self._sums: Counter[tuple[str, str, str]] = Counter()
        self.fullest: Counter[str] = Counter()
        """By class the largest share of its sum that was ever taken."""
        self.faults: list[str] = []

    def change(self, before: Instance | None, after: Instance | None) -> None:
        """Take one record's place; note what its class may not hold."""
        for record, sign in ((before, -1), (after, 1)):
            for machine in machines_of(record) if record is not None else ():
                for name, amount in zip(RESOURCES, record.amounts, strict=True) if record is not None else ():
                    if name in SHARE:
                        self._sums[machine, record.priority_class, name] += sign * in_units(name, amount)
        for machine in machines_of(after) if after is not None else ():
            for name, amount in zip(RESOURCES, after.amounts, strict=True) if after is not None else ():
                there = before is not None and machine in machines_of(before)
                old = before.amounts[RESOURCES.index(name)] if before is not None and there else None
                if name in SHARE and in_units(name, amount) > in_units(name, old):
                    self._check(after, machine, name)

    def _check(self, record: Instance, machine: str, name: str) -> None:
        of = {one: self._sums[machine, one, name] for one in ("prod", "mid", "batch", "free")}
        capacity, share = self._capacity[name], int(self._capacity[name] * SHARE[name])
        most = {"prod": capacity, "mid": min(of["prod"], capacity)}.get(
            record.priority_class, max(share - of["prod"] - of["mid"], 0)
        )
        held = of[record.priority_class] + (of["batch"] if record.priority_class == "free" else 0)
        if held > most + in_units(name, 1.0) / 1000:  # what is sold is cut to millicores
            self.faults.append(
                f"change {record.version}: {record.priority_class} of {machine} has {held} of {most} {name}"
            )
        key = record.priority_class
        self.fullest[key] = max(self.fullest[key], round(100 * held / most) if most else 0)
