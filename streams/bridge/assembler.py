"""From points to samples: values of one moment are put together, counters become rates, intervals become samples. Pure.

A moment of a machine is over when a later one begins, or ``SETTLE_S`` after its first point came. Each moment gives at
most one reading of a resource:

    cpu     cores · Σ Δbusy / Σ Δtotal over the cores, or the share that the agent says
    memory  used
    nic     max(Σ Δreceived, Σ Δsent) / Δt over the interfaces
    disk    the largest Δbusy / Δt of a disk, at most 1

A counter that is lower than before, or says that it began again, was reset: it has counted from 0 since, so its value
is what was added, which is less than the truth by what came between the last reading and the reset.

A sample says how much it knows: its interval is the time since the last one (at least ``interval_s``, longer where the
agent measures less often), and ``n`` is how many readings were made in it. An agent that measures every 10 s gives
``n`` = 1 and a maximum that is the mean, where Windward's own gives ten.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.names import SLOT_S
from schemas.sample import MachineFacts, Message, Rejected, Sample, check_machine_id
from streams.agent.readings import Readings
from streams.bridge.points import COUNTERS, Point, Quantity

SETTLE_S = 2.0
SAME_MOMENT_S = 1.0
"""Points of one collection may be stamped as far apart as this."""

INTERVAL_S_MAX = 3600.0
MACHINES_MAX = 100_000
AMOUNT_MAX = 1e16
EPOCH_MAX_S = 1e11
"""The largest that a sample may hold: `schemas.sample`."""

VERSION = 1

NOT_PHYSICAL = (
    r"lo|all|(veth|docker|br-|virbr|cali|cni|flannel|tun|tap|dummy|ifb|wg|vnet|loop|ram|zram|dm-|md|sr|fd).*|.*\.\d+"
)
"""Interfaces and disks whose traffic passes another one as well, or none."""

Key = tuple[Quantity, str]


@dataclass
class _Moment:
    at: float
    arrived_s: float
    values: dict[Key, Point] = field(default_factory=dict)


@dataclass
class _Machine:
    moment: _Moment | None = None
    before: dict[Key, Point] = field(default_factory=dict)
    """The last point of each counter."""
    known: dict[Key, float] = field(default_factory=dict)
    """The last of each value that seldom changes: cores, totals, speeds."""
    readings: dict[str, Readings] = field(default_factory=dict)
    capacity: dict[str, float] = field(default_factory=dict)
    since: float | None = None
    """When the interval in hand began: the end of the last sample."""
    seq: int = 0
    facts_at: float = float("-inf")


class Assembler:
    """The machines of one bridge. ``nic_speed`` (bytes/s) and ``cores`` stand in where the agent does not say."""

    def __init__(
        self,
        boot: int,
        interval_s: float = float(SLOT_S),
        *,
        facts_interval_s: float = 300.0,
        nic_speed: float | None = None,
        cores: float | None = None,
        excluded: str = NOT_PHYSICAL,
        labels: Mapping[str, str] | None = None,
        agent_version: str = "",
    ) -> None:
        self.counts: Counter[str] = Counter()
        """Points by what became of them: used, excluded, late, refused."""
        self._boot = boot
        self._interval_s = interval_s
        self._facts_interval_s = facts_interval_s
        self._nic_speed = nic_speed
        self._cores = cores
        self._excluded = re.compile(excluded)
        self._labels = dict(labels or {})
        self._agent_version = agent_version
        self._machines: dict[str, _Machine] = {}

    def take(self, points: Iterable[Point], arrived_s: float, latest: float = EPOCH_MAX_S) -> list[Message]:
        """Take points that came at ``arrived_s`` (any clock that only rises); return the messages they complete.

        A point later than ``latest``, epoch s, is refused: it would make all that its machine sends until then late.
        """
        done: list[Message] = []
        for point in points:
            machine = self._machine(point.machine)
            if machine is None or not 0 <= point.at <= latest:
                self.counts["refused"] += 1
            elif point.part and point.quantity not in ("cpu_busy_s", "cpu_total_s", "cores") and self._is_out(point):
                self.counts["excluded"] += 1
            else:
                done += self._put(point, machine, arrived_s)
        return done

    def flush(self, arrived_s: float, settle_s: float = SETTLE_S) -> list[Message]:
        """Return the messages of moments for which nothing has come for a while."""
        done: list[Message] = []
        for name, machine in self._machines.items():
            if machine.moment is not None and machine.moment.arrived_s <= arrived_s - settle_s:
                done += self._close(name, machine)
        return done

    def _machine(self, name: str) -> _Machine | None:
        found = self._machines.get(name)
        if found is None and len(self._machines) < MACHINES_MAX:
            try:
                check_machine_id(name)
            except Rejected:
                return None
            found = self._machines[name] = _Machine()
        return found

    def _is_out(self, point: Point) -> bool:
        return self._excluded.fullmatch(point.part) is not None

    def _put(self, point: Point, machine: _Machine, arrived_s: float) -> list[Message]:
        done: list[Message] = []
        if machine.moment is not None and point.at > machine.moment.at + SAME_MOMENT_S:
            done = self._close(point.machine, machine)
        if machine.moment is None:
            if machine.since is not None and point.at <= machine.since + SAME_MOMENT_S and self._seen(point, machine):
                self.counts["late"] += 1
                return done
            machine.moment = _Moment(point.at, arrived_s)
        elif point.at < machine.moment.at - SAME_MOMENT_S:
            self.counts["late"] += 1
            return done
        machine.moment.values[point.quantity, point.part] = point
        self.counts["used"] += 1
        return done

    @staticmethod
    def _seen(point: Point, machine: _Machine) -> bool:
        """Whether a point is no newer than what was used already."""
        before = machine.before.get((point.quantity, point.part))
        return before is None or point.at <= before.at

    def _close(self, name: str, machine: _Machine) -> list[Message]:
        """Make the readings of the moment in hand; return the messages that are due."""
        moment, machine.moment = machine.moment, None
        assert moment is not None
        at = max(point.at for point in moment.values.values())
        rises = {key: self._rise(machine, key, point) for key, point in moment.values.items() if key[0] in COUNTERS}
        machine.known |= {key: point.value for key, point in moment.values.items() if key[0] not in COUNTERS}
        first = machine.since is None
        if machine.since is None:
            machine.since = at
        for resource, usage, capacity in self._readings(machine, moment, {k: r for k, r in rises.items() if r}):
            if not (usage <= AMOUNT_MAX and 0 < capacity <= AMOUNT_MAX):
                continue
            machine.capacity[resource] = capacity
            if not first:
                machine.readings.setdefault(resource, Readings()).add(usage, capacity)
        done: list[Message] = []
        if at - machine.facts_at >= self._facts_interval_s and machine.capacity:
            machine.facts_at = at
            done.append(self._facts(name, machine, at))
        if at - machine.since >= self._interval_s - SAME_MOMENT_S and machine.readings:
            done.append(self._sample(name, machine, at))
        return done

    @staticmethod
    def _rise(machine: _Machine, key: Key, point: Point) -> tuple[float, float] | None:
        """Return what a counter rose by and in how many seconds; None when there is nothing to compare with."""
        before = machine.before.get(key)
        machine.before[key] = point
        if before is None or not 0 < point.at - before.at <= INTERVAL_S_MAX:
            return None
        reset = point.value < before.value or point.started > before.started > 0
        return (point.value if reset else point.value - before.value), point.at - before.at

    def _readings(
        self, machine: _Machine, moment: _Moment, rises: Mapping[Key, tuple[float, float]]
    ) -> Iterable[tuple[str, float, float]]:
        """Yield resource, usage and capacity of what this moment tells of."""
        cores = self._core_count(machine)
        busy = sum(rise for (quantity, _), (rise, _) in rises.items() if quantity == "cpu_busy_s")
        total = sum(rise for (quantity, _), (rise, _) in rises.items() if quantity == "cpu_total_s")
        share = moment.values.get(("cpu_busy_share", ""))
        if cores and total > 0:
            yield "cpu", cores * min(busy / total, 1.0), cores
        elif cores and share is not None:
            yield "cpu", cores * min(share.value, 1.0), cores
        used, memory = moment.values.get(("memory_used", "")), machine.known.get(("memory_total", ""), 0.0)
        if used is not None and memory > 0:
            yield "memory", used.value, memory
        ways = [
            [rise / elapsed for (quantity, _), (rise, elapsed) in rises.items() if quantity == way]
            for way in ("received", "sent")
        ]
        speed = self._speed(machine, {part for quantity, part in rises if quantity == "received"})
        if all(ways) and speed:
            yield "nic", max(map(sum, ways)), speed
        disks = [rise / elapsed for (quantity, _), (rise, elapsed) in rises.items() if quantity == "disk_busy_s"]
        if disks:
            yield "disk", min(max(disks), 1.0), 1.0

    def _core_count(self, machine: _Machine) -> float:
        said = machine.known.get(("cores", ""))
        return (
            self._cores or said or sum(value for (quantity, _), value in machine.known.items() if quantity == "cores")
        )

    def _speed(self, machine: _Machine, interfaces: set[str]) -> float:
        """Return what the interfaces carry, bytes/s; 0 where it is unknown."""
        if self._nic_speed:
            return self._nic_speed
        speeds = [machine.known.get(("nic_speed", interface), 0.0) for interface in interfaces]
        return sum(speeds) if all(speed > 0 for speed in speeds) else 0.0

    def _sample(self, name: str, machine: _Machine, at: float) -> Sample:
        assert machine.since is not None
        moments: dict[str, Any] = {resource: found.moments() for resource, found in machine.readings.items()}
        length_s = min(max(at - machine.since, self._interval_s), INTERVAL_S_MAX)
        machine.readings, machine.since = {}, at
        machine.seq += 1
        return Sample(
            v=VERSION, machine=name, boot=self._boot, seq=machine.seq - 1, at=at, interval_s=length_s, **moments
        )

    def _facts(self, name: str, machine: _Machine, at: float) -> MachineFacts:
        return MachineFacts(
            v=VERSION,
            machine=name,
            boot=self._boot,
            at=at,
            capacity=dict(machine.capacity),
            labels=self._labels,
            agent_version=self._agent_version,
        )
