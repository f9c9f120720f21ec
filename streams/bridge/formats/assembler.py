"""From points to samples: joins the values of one moment, turns counters into rates and intervals into samples. Pure.

A moment of a machine is over when a later one begins, or ``SETTLE_S`` after its first point came. Each moment gives at
most one reading of a resource (`streams.bridge.formats.rates`).

The interval of a sample is the time since the last one (at least ``interval_s``, longer if the agent measures less
often). ``n`` is the number of readings in it. An agent that measures every 10 s gives ``n`` = 1 and a maximum equal to
the mean, where Windward's own agent gives ten readings.

Two sources may give one machine's name: a cloned host, or a host under two addresses. The first keeps the name while it
is heard; points of another one are counted and left out, since two series of counters give no rate. A source that takes
the place of a silent one begins with counters of its own.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from schemas.messages.sample import (
    VERSION,
    WHY_MAX,
    MachineFacts,
    Message,
    Rejected,
    Sample,
    check_machine_id,
    interfaces_said,
)
from schemas.names import SLOT_S
from streams.agent.rises import ImpossibleRiseError, allowed_s
from streams.agent.sampling.readings import Readings
from streams.bridge.formats.interfaces import NOT_PHYSICAL
from streams.bridge.formats.points import COUNTERS, Point
from streams.bridge.formats.rates import (
    INTERVAL_S_MAX,
    LACKS,
    RESOURCE_OF,
    TIME_FELL,
    WRAPS_AT,
    Key,
    Machine,
    Moment,
)

SETTLE_S = 2.0
SAME_MOMENT_S = 1.0
"""Points of one collection may be stamped as far apart as this."""

MACHINES_MAX = 100_000
PARTS_MAX = 10_000
"""The most values of one machine that are kept: cores, interfaces and disks, times the quantities of each. More in one
moment are ignored; new names replace the values that were not seen for longest. Both are counted."""
SHARE_MAX = 1.01
"""The largest share of cores or memory that an agent may send: its two readings are not quite of one moment."""
AMOUNT_MAX = 1e16
EPOCH_MAX_S = 1e11
"""The largest values in a sample: `schemas.messages.sample`."""

OF_CORES = ("cpu_busy_s", "cpu_total_s", "cpu_idle_s", "cores")


@dataclass(eq=False)
class Assembler:
    """The machines of one bridge. ``nic_speed`` (bytes/s) and ``cores`` are used when the agent does not send them."""

    boot: int
    interval_s: float = float(SLOT_S)
    _: KW_ONLY
    facts_interval_s: float = 300.0
    nic_speed: float | None = None
    cores: float | None = None
    excluded: str = NOT_PHYSICAL
    labels: Mapping[str, str] = field(default_factory=dict)
    agent_version: str = ""
    hand_over_s: float = 60.0
    """How long a source is silent before another may have its machine's name."""
    counts: Counter[str] = field(default_factory=Counter)
    """Points by result: used, excluded, late, refused, name-taken, too-many, no-value, impossible; and forgotten:
    values that were replaced."""
    lacking: list[tuple[str, str, str]] = field(default_factory=list)
    """Machine, resource and reason of omissions that were not reported before."""
    taken: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By machine: the source that owns the name, and one that was rejected."""

    def __post_init__(self) -> None:
        self._excluded = re.compile(self.excluded)
        self._machines: dict[str, Machine] = {}

    def take(self, points: Iterable[Point], arrived_s: float, latest: float = EPOCH_MAX_S) -> list[Message]:
        """Take points that arrived at ``arrived_s`` (any monotonic clock); return the messages that they complete.

        A point later than ``latest``, epoch s, is refused: all further points of its machine would be late until then.
        """
        done: list[Message] = []
        for point in points:
            machine = self._machine(point.machine)
            if machine is None or not 0 <= point.at <= latest:
                self.counts["refused"] += 1
            elif point.source and not self._is_of(machine, point, arrived_s):
                self.counts["name-taken"] += 1
            elif point.part and point.quantity not in OF_CORES and self._excluded.fullmatch(point.part):
                self.counts["excluded"] += 1
            else:
                done += self._put(point, machine, arrived_s)
        return done

    def flush(self, arrived_s: float, settle_s: float = SETTLE_S) -> list[Message]:
        """Return the messages of moments for which no point has arrived for a while."""
        done: list[Message] = []
        for name, machine in self._machines.items():
            if machine.moment is not None and machine.moment.arrived_s <= arrived_s - settle_s:
                done += self._close(name, machine)
        return done

    def _machine(self, name: str) -> Machine | None:
        found = self._machines.get(name)
        if found is None and len(self._machines) < MACHINES_MAX:
            try:
                check_machine_id(name)
            except Rejected:
                return None
            found = self._machines[name] = Machine(self.nic_speed, self.cores)
        return found

    def _is_of(self, machine: Machine, point: Point, arrived_s: float) -> bool:
        """Return whether a point is from the source that holds the machine's name; a silent source loses it."""
        if machine.source != point.source:
            if arrived_s - machine.heard_s < self.hand_over_s:
                self.taken[point.machine] = (machine.source, point.source)
                return False
            machine.source = point.source
            machine.before.clear()
            machine.known.clear()
            machine.moment = None
        machine.heard_s = arrived_s
        return True

    def _put(self, point: Point, machine: Machine, arrived_s: float) -> list[Message]:
        done, key = list[Message](), (point.quantity, point.part)
        if machine.moment is not None and point.at > machine.moment.at + SAME_MOMENT_S:
            done = self._close(point.machine, machine)
        if machine.moment is None:
            used = machine.since is not None and point.at <= machine.since + SAME_MOMENT_S
            late = used and (key not in machine.before or point.at <= machine.before[key].at)
        else:
            late = point.at < machine.moment.at - SAME_MOMENT_S
        if late:
            self.counts["late"] += 1
            return done
        machine.moment = machine.moment or Moment(point.at, arrived_s)
        values = machine.moment.values
        if not math.isfinite(point.value):
            self.counts["no-value"] += 1
        elif point.value < 0 or (point.quantity == "cpu_busy_share" and point.value > SHARE_MAX):
            resource = RESOURCE_OF[point.quantity]
            self._impossible(machine, resource, f"impossible: {point.quantity} is {point.value:.6g}")
        elif len(values) >= PARTS_MAX and key not in values:
            self.counts["too-many"] += 1
        else:
            values[key] = point
            self.counts["used"] += 1
        return done

    def _close(self, name: str, machine: Machine) -> list[Message]:
        """Compute the readings of the current moment; return the messages that are due."""
        moment, machine.moment = machine.moment, None
        assert moment is not None
        at = max((point.at for point in moment.values.values()), default=moment.at)
        for key, point in moment.values.items():
            if key[0] not in COUNTERS:
                machine.known.pop(key, None)  # so that the newest value is last
                machine.known[key] = point.value
        machine.counted = self._counted(machine, moment) or machine.counted
        rises, wrong = self._rises(machine, moment)
        self._forget(machine)
        first = machine.since is None
        if machine.since is None:
            machine.since = at
        for resource, usage, capacity in machine.use(moment, rises):
            if resource in wrong or not (usage <= AMOUNT_MAX and 0 < capacity <= AMOUNT_MAX):
                continue
            if usage > capacity * (allowed_s(1.0) if resource == "nic" else SHARE_MAX):
                self._impossible(machine, resource, f"impossible: {usage:.6g} used of {capacity:.6g}")
                continue
            machine.capacity[resource] = capacity
            if not first:
                machine.readings.setdefault(resource, Readings()).add(usage, capacity)
        if at - machine.since >= self.interval_s - SAME_MOMENT_S:
            self._look_at_lacks(name, machine)
        done: list[Message] = []
        if at - machine.facts_at >= self.facts_interval_s and machine.capacity:
            machine.facts_at = at
            done.append(self._facts(name, machine, at))
        if at - machine.since >= self.interval_s - SAME_MOMENT_S and machine.readings:
            done.append(self._sample(name, machine, at))
        return done

    def _counted(self, machine: Machine, moment: Moment) -> dict[str, str]:
        """Return by interface the rule that selected it: its page, a rule of the operator, or the rule of names."""
        by_name = "names" if self.excluded == NOT_PHYSICAL else "settings"
        return {
            part: "page" if machine.known.get(("nic_told", part)) else by_name
            for quantity, part in moment.values
            if quantity == "received" and machine.speed(part)
        }

    def _rises(self, machine: Machine, moment: Moment) -> tuple[dict[Key, tuple[float, float]], set[str]]:
        """Return the rises of counters, and the resources with an impossible one."""
        rises: dict[Key, tuple[float, float]] = {}
        wrong: set[str] = set()
        counters = {key: point for key, point in moment.values.items() if key[0] in COUNTERS}
        restarted = any(
            point.value < before.value / 2
            for key, point in counters.items()
            if key[0] in OF_CORES and not point.delta and (before := machine.before.get(key))
        )
        for key, point in counters.items():
            wraps_at = 0.0 if restarted else WRAPS_AT.get(key[0], 0.0)
            try:
                if risen := machine.rise(key, point, machine.most(moment, key), wraps_at):
                    rises[key] = risen
            except ImpossibleRiseError as error:
                wrong.add(RESOURCE_OF[key[0]])
                self._impossible(machine, RESOURCE_OF[key[0]], str(error))
        for (quantity, part), (total, _) in rises.items():
            if quantity == "cpu_total_s" and rises.get(("cpu_busy_s", part), (0.0, 0.0))[0] > total * TIME_FELL:
                wrong.add("cpu")
                self._impossible(machine, "cpu", f"impossible: cpu {part} was busy for longer than it counted")
        return rises, wrong

    def _impossible(self, machine: Machine, resource: str, why: str) -> None:
        self.counts["impossible"] += 1
        machine.why[resource] = why

    def _look_at_lacks(self, name: str, machine: Machine) -> None:
        """Record which resources had no reading, or one too few, in the interval that ends; report each once."""
        lacks = {resource: why for resource, why in LACKS.items() if resource not in machine.readings} | machine.why
        for resource, why in lacks.items():
            kind = (resource, resource in machine.why)
            if kind not in machine.told:
                machine.told.add(kind)
                self.lacking.append((name, resource, why))
        machine.lacks = {resource: why[:WHY_MAX] for resource, why in lacks.items()}
        machine.why = {}

    def _forget(self, machine: Machine) -> None:
        """Keep both tables within `PARTS_MAX`; the first entries of a table are the longest unseen ones."""
        tables: tuple[dict[Key, Any], ...] = (machine.before, machine.known)
        for table in tables:
            for key in list(table)[: max(len(table) - PARTS_MAX, 0)]:
                del table[key]
                self.counts["forgotten"] += 1

    def _sample(self, name: str, machine: Machine, at: float) -> Sample:
        assert machine.since is not None
        moments: dict[str, Any] = {resource: found.moments() for resource, found in machine.readings.items()}
        length_s = min(max(at - machine.since, self.interval_s), INTERVAL_S_MAX)
        machine.readings, machine.since = {}, at
        machine.seq += 1
        return Sample(
            v=VERSION, machine=name, boot=self.boot, seq=machine.seq - 1, at=at, interval_s=length_s, **moments
        )

    def _facts(self, name: str, machine: Machine, at: float) -> MachineFacts:
        return MachineFacts(
            v=VERSION,
            machine=name,
            boot=self.boot,
            at=at,
            capacity=dict(machine.capacity),
            labels=dict(self.labels),
            agent_version=self.agent_version,
            lacks=dict(machine.lacks),
            interfaces=interfaces_said(machine.counted),
        )
