"""From the points of one moment to readings: counters become rates. Pure.

    cpu     cores · Σ Δbusy / Σ Δtotal over the cores, or cores - Δidle / Δt, or the share that the agent sends
    memory  used
    nic     max(Σ Δreceived, Σ Δsent) / Δt over the interfaces
    disk    the largest Δbusy / Δt of a disk, at most 1

A counter that is lower than before, or has a later start, was reset. Its value is then taken as the increase, which
leaves out what was counted between the last reading and the reset. Busy time above the total is no reading: one counter
went back alone. Idle time that was reset is none either: how long the machine was away is not known. An interface
of unknown speed is left out, as by Windward's agent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streams.agent.sampling.readings import Readings
from streams.bridge.formats.points import Point, Quantity

INTERVAL_S_MAX = 3600.0
"""The longest time over which a counter's rise is a rate, and the longest interval of a sample."""

ROUNDING = 1e-6
"""By how much the rise of the busy time may seem above that of the total: both are differences of large sums."""

Key = tuple[Quantity, str]

DIRECTIONS: tuple[Quantity, ...] = ("received", "sent")


@dataclass
class Moment:
    """The points of one moment of a machine."""

    at: float
    arrived_s: float
    values: dict[Key, Point] = field(default_factory=dict)


@dataclass
class Machine:
    """The state of one machine between two points."""

    moment: Moment | None = None
    before: dict[Key, Point] = field(default_factory=dict)
    """The last point of each counter."""
    known: dict[Key, float] = field(default_factory=dict)
    """The last of each value that rarely changes: cores, totals, speeds."""
    readings: dict[str, Readings] = field(default_factory=dict)
    capacity: dict[str, float] = field(default_factory=dict)
    since: float | None = None
    """When the current interval began: the end of the last sample."""
    seq: int = 0
    facts_at: float = float("-inf")
    source: str = ""
    """What its points come from, where that is known."""
    heard_s: float = float("-inf")
    """When the newest of them came."""


def rise(machine: Machine, key: Key, point: Point) -> tuple[float, float] | None:
    """Return the increase of a counter and its seconds; None without an earlier value."""
    before = machine.before.pop(key, None)  # so that the newest value is last
    if key[0] == "cpu_idle_s":
        for other in [one for one in machine.before if one[0] == "cpu_idle_s"]:  # of another number of cores
            del machine.before[other]
    machine.before[key] = point
    if point.delta:
        seconds = point.at - (point.started or (before.at if before else point.at))
        return (point.value, seconds) if 0 < seconds <= INTERVAL_S_MAX else None
    if before is None or not 0 < point.at - before.at <= INTERVAL_S_MAX:
        return None
    reset = point.value < before.value or point.started > before.started > 0
    if reset and key[0] == "cpu_idle_s":
        return None
    return (point.value if reset else point.value - before.value), point.at - before.at


@dataclass(frozen=True)
class Rates:
    """Computes readings; ``nic_speed`` (bytes/s) and ``cores`` are used when the agent does not send them."""

    nic_speed: float | None = None
    cores: float | None = None

    def readings(
        self, machine: Machine, moment: Moment, rises: Mapping[Key, tuple[float, float]]
    ) -> Iterable[tuple[str, float, float]]:
        """Yield resource, usage and capacity for each resource that this moment has."""
        rose, rates = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
        for (quantity, _), (amount, elapsed_s) in rises.items():
            rose[quantity].append(amount)
            rates[quantity].append(amount / elapsed_s)
        known = machine.known
        cores = self.cores or known.get(("cores", "")) or sum(known[key] for key in known if key[0] == "cores")
        busy, total = sum(rose["cpu_busy_s"]), sum(rose["cpu_total_s"])
        share = moment.values.get(("cpu_busy_share", ""))
        if cores and total > 0:
            if busy <= total * (1 + ROUNDING):
                yield "cpu", cores * min(busy / total, 1.0), cores
        elif cores and (idle := rates["cpu_idle_s"]):
            yield "cpu", min(max(cores - sum(idle), 0.0), cores), cores
        elif cores and share is not None:
            yield "cpu", cores * min(share.value, 1.0), cores
        used, memory = moment.values.get(("memory_used", "")), known.get(("memory_total", ""), 0.0)
        if used is not None and memory > 0:
            yield "memory", used.value, memory
        counted = {
            part: speed for quantity, part in rises if quantity == "received" and (speed := self._speed(machine, part))
        }
        ways = [[rises[way, part] for part in counted if (way, part) in rises] for way in DIRECTIONS]
        if all(ways):
            speed = self.nic_speed or sum(counted.values())
            yield "nic", max(sum(amount / elapsed_s for amount, elapsed_s in way) for way in ways), speed
        if disks := rates["disk_busy_s"]:
            yield "disk", min(max(disks), 1.0), 1.0

    def _speed(self, machine: Machine, interface: str) -> float:
        """Return the capacity of an interface, or of the machine where it is set, bytes/s; 0 where it is unknown."""
        return self.nic_speed or max(machine.known.get(("nic_speed", interface), 0.0), 0.0)
