"""From the points of one moment to readings: counters become rates. Pure.

    cpu     cores · Σ Δbusy / Σ Δtotal over the cores, or cores - Δidle / Δt, or the share that the agent sends
    memory  used
    nic     max(Σ Δreceived, Σ Δsent) / Δt over the interfaces
    disk    the largest Δbusy / Δt of a disk, at most 1

A rise that the elapsed time does not allow is no reading of its resource (`streams.agent.rises`). The increase of a
reset counter is its value, without the part counted between the last reading and the reset. Busy time above the total
is no reading: one counter went back alone. Idle time that was reset is none either: how long the machine was away is
not known. An interface of unknown speed is left out, as by Windward's agent. A core whose counters stand still is off,
and no capacity.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import sub

from streams.agent.rises import BITS_32, ImpossibleRiseError, allowed_s, rise_of
from streams.agent.sampling.readings import Readings
from streams.bridge.formats.points import ALL_CORES, Point, Quantity

INTERVAL_S_MAX = 3600.0
"""The longest time over which a counter's rise is a rate, and the longest interval of a sample."""

TIME_FELL = 1.01
"""The most by which busy time may exceed the time counted, since kernels put idle and busy time right by some ticks."""

Key = tuple[Quantity, str]

DIRECTIONS: tuple[Quantity, ...] = ("received", "sent")
WRAPS_AT: Mapping[str, float] = {"received": BITS_32, "sent": BITS_32, "disk_busy_s": BITS_32 / 1000}
"""The range of counters that some kernels keep in 32 bits."""
RESOURCE_OF: Mapping[str, str] = {
    **dict.fromkeys(("cpu_busy_s", "cpu_total_s", "cpu_idle_s", "cpu_busy_share", "cores"), "cpu"),
    **dict.fromkeys(("memory_used", "memory_total"), "memory"),
    **dict.fromkeys(("received", "sent", "nic_speed", "nic_told"), "nic"),
    "disk_busy_s": "disk",
}
LACKS: Mapping[str, str] = {
    "cpu": "no CPU time or share that can be used, or no number of cores (give --cores)",
    "memory": "no total, or no used or available memory",
    "nic": "no traffic of an interface that counts and has a known speed (give --nic-speed)",
    "disk": "no busy time of a disk that counts",
}
"""By resource, the reason why a machine lacks it when no other is known."""


@dataclass
class Moment:
    """The points of one moment of a machine."""

    at: float
    arrived_s: float
    values: dict[Key, Point] = field(default_factory=dict)


@dataclass
class Machine:
    """The state of one machine between two points."""

    nic_speed: float | None = None
    """Bytes/s, used in place of the speeds that the agent sends; so are ``cores``."""
    cores: float | None = None
    moment: Moment | None = None
    before: dict[Key, Point] = field(default_factory=dict)
    """The last point of each counter."""
    known: dict[Key, float] = field(default_factory=dict)
    """The last of each value that rarely changes: cores, totals, speeds."""
    readings: dict[str, Readings] = field(default_factory=dict)
    capacity: dict[str, float] = field(default_factory=dict)
    since: float | None = None
    """The start of the current interval: the end of the last sample."""
    seq: int = 0
    facts_at: float = float("-inf")
    source: str = ""
    """The source of its points, if known."""
    doubted: set[Key] = field(default_factory=set)
    """Counters whose last rise was impossible."""
    why: dict[str, str] = field(default_factory=dict)
    """By resource, why readings of the current interval are left out."""
    lacks: dict[str, str] = field(default_factory=dict)
    """The reasons of the last interval, including resources without any reading."""
    counted: dict[str, str] = field(default_factory=dict)
    """By interface that counts: the rule that decided."""
    told: set[tuple[str, bool]] = field(default_factory=set)
    """The reasons that were reported: the resource, and whether it has its own reason."""
    heard_s: float = float("-inf")
    """The arrival of the newest point."""

    def rise(self, key: Key, point: Point, most: float, wraps_at: float = 0.0) -> tuple[float, float] | None:
        """Return the increase of a counter and its seconds; None without an earlier value.

        ``most``: the most that it can rise by in a second. Raises ImpossibleRiseError.
        """
        last = self.before.pop(key, None)  # so that the newest value is last
        if key[0] == "cpu_idle_s":
            for other in [one for one in self.before if one[0] == "cpu_idle_s"]:  # of another number of cores
                del self.before[other]
        self.before[key] = point
        since = point.started if point.delta and point.started else last.at if last else point.at
        seconds = point.at - since
        if not 0 < seconds <= INTERVAL_S_MAX:
            return None
        doubted = key in self.doubted
        self.doubted.discard(key)
        restarted = last is not None and point.started > last.started > 0 and not point.delta
        if restarted and key[0] in ("cpu_busy_s", "cpu_total_s"):
            return point.value, seconds  # a share of the time counted, however long that was
        before = last
        if before is None or restarted or point.delta:
            before = point._replace(value=0.0, parts=(0.0,) * len(point.parts))
        fall = before.value - point.value
        if key[0] == "cpu_idle_s" and before is last and fall >= point.value:
            return None
        if key[0] in ("cpu_busy_s", "cpu_idle_s") and 0 < fall <= seconds * (TIME_FELL - 1):
            return 0.0, seconds
        risen = rise_of(before.value, point.value, most * allowed_s(seconds), wraps_at=wraps_at, resets=not doubted)
        fell = min(map(sub, point.parts, before.parts), default=0.0) < seconds * (1 - TIME_FELL)
        if risen is None or (fell and fall <= 0):
            if fall < 0:
                self.doubted.add(key)  # what falls next may be this value, put right: that is no reset
            where = f"{key[0]} {key[1]}".strip()
            raise ImpossibleRiseError(
                f"impossible: {where} was {before.value:.9g}, then {point.value:.9g} in {seconds:.3g} s"
            )
        return risen, seconds

    def use(self, moment: Moment, rises: Mapping[Key, tuple[float, float]]) -> Iterable[tuple[str, float, float]]:
        """Yield resource, usage and capacity for each resource that this moment has."""
        rose, rates = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
        for (quantity, _), (amount, elapsed_s) in rises.items():
            rose[quantity].append(amount)
            rates[quantity].append(amount / elapsed_s)
        cores = self._cores(moment)
        if not self.cores and sum(rose["cpu_total_s"]) > 0:
            cores -= rose["cpu_total_s"].count(0.0)
        busy = {core: amount for (quantity, core), (amount, _) in rises.items() if quantity == "cpu_busy_s"}
        shares = [
            min(busy[core] / total, 1.0)
            for (quantity, core), (total, _) in rises.items()
            if quantity == "cpu_total_s" and core in busy and total > 0
        ]
        share = moment.values.get(("cpu_busy_share", ""))
        if cores and shares:
            yield "cpu", cores * sum(shares) / len(shares), cores
        elif cores and (idle := rates["cpu_idle_s"]):
            yield "cpu", min(max(cores - sum(idle), 0.0), cores), cores
        elif cores and share is not None:
            yield "cpu", cores * min(share.value, 1.0), cores
        used, memory = moment.values.get(("memory_used", "")), self.known.get(("memory_total", ""), 0.0)
        if used is not None and memory > 0:
            yield "memory", used.value, memory
        counted = {part: speed for quantity, part in rises if quantity == "received" and (speed := self.speed(part))}
        ways = [[rises[way, part] for part in counted if (way, part) in rises] for way in DIRECTIONS]
        if all(ways):
            speed = self.nic_speed or sum(counted.values())
            yield "nic", max(sum(amount / elapsed_s for amount, elapsed_s in way) for way in ways), speed
        if disks := rates["disk_busy_s"]:
            yield "disk", min(max(disks), 1.0), 1.0

    def _cores(self, moment: Moment) -> float:
        """Return the number of cores: as set, as sent by the agent, or the number of cores with figures."""
        if cores := self.cores or self.known.get(("cores", "")):
            return cores
        own = sum(point.value for (quantity, _), point in moment.values.items() if quantity == "cores")
        return own or sum(value for (quantity, _), value in self.known.items() if quantity == "cores")

    def most(self, moment: Moment, key: Key) -> float:
        """Return the largest possible rise of a counter in a second; infinity without a limit."""
        quantity, part = key
        if quantity in DIRECTIONS:
            return self.speed(part) or math.inf
        whole = part in ("", ALL_CORES) or quantity == "cpu_idle_s"
        return (self._cores(moment) or math.inf) if whole else 1.0

    def speed(self, interface: str) -> float:
        """Return the capacity of an interface, or the machine's if that is set, bytes/s; 0 where it is unknown."""
        return self.nic_speed or max(self.known.get(("nic_speed", interface), 0.0), 0.0)
