"""From readings to samples: reads every collector at each tick and closes the interval that ends with it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.messages.sample import VERSION, WHY_MAX, MachineFacts, Sample
from streams.agent.collectors.base import Collector, Reading
from streams.agent.collectors.nic import Nic
from streams.agent.rises import ImpossibleRiseError, NoReadingError
from streams.agent.sampling.counts import Counts
from streams.agent.sampling.readings import Readings
from streams.agent.sampling.schedule import Schedule

log = logging.getLogger("windward.agent")


@dataclass(eq=False)
class Sampler:
    """One machine's samples. Reads no clock: the time of every call is an argument.

    A sample may hold fewer readings than the interval has ticks: the first after a start, or one during which the
    machine was suspended. Its ``n`` says so, and ``at`` is the interval's end all the same.
    """

    machine: str
    boot: int
    schedule: Schedule
    collectors: Sequence[Collector]
    capacities: Mapping[str, float] = field(default_factory=dict)
    """Amounts by resource that replace measured ones."""
    labels: Mapping[str, str] = field(default_factory=dict)
    agent_version: str = ""
    host_id: str = ""
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._before: dict[str, Any] = {}
        self._failing: set[str] = set()
        self._told: set[tuple[str, type[Exception]]] = set()
        self._since_facts: dict[str, str] = {}
        self._known_capacities: dict[str, float] = dict(self.capacities)
        self._readings: dict[str, Readings] = {}
        self._interval: int | None = None
        self._seq = 0
        self._read_s: float | None = None

    def read(self, epoch_s: float, monotonic_s: float) -> list[Sample]:
        """Take one reading of every resource and return the samples it completes: none, one, or two after a gap.

        ``epoch_s`` determines the tick, ``monotonic_s`` the elapsed time that rates are divided by. The first call only
        reads the counters from which the second computes rates.
        """
        elapsed_s = 0.0 if self._read_s is None else monotonic_s - self._read_s
        if elapsed_s > self.schedule.interval_s:
            self._before.clear()
        first, self._read_s = self._read_s is None, monotonic_s
        tick = self.schedule.tick(epoch_s)
        readings = {collector.resource: self._read_one(collector, elapsed_s) for collector in self.collectors}
        if first:
            return []
        finished = self._close() if self.schedule.interval(tick) != self._interval else []
        self._interval = self.schedule.interval(tick)
        for resource, reading in readings.items():
            self._add(resource, reading)
        return finished + (self._close() if self.schedule.ends(tick) else [])

    def facts(self, epoch_s: float) -> MachineFacts:
        """Return the known facts of the machine, with the resources without a reading since the last ones, and why."""
        lacks, self._since_facts = {name: why[:WHY_MAX] for name, why in self._since_facts.items()}, {}
        return MachineFacts(
            v=VERSION,
            machine=self.machine,
            boot=self.boot,
            at=epoch_s,
            capacity=dict(self._known_capacities),
            labels=dict(self.labels),
            agent_version=self.agent_version,
            host_id=self.host_id,
            lacks=lacks,
            interfaces=next((one.interfaces() for one in self.collectors if isinstance(one, Nic)), {}),
        )

    def _lacks(self, resource: str, why: str, kind: type[Exception] = NoReadingError) -> None:
        """Record that a resource has no reading; log it once."""
        self.counts.lacks[resource] = self._since_facts[resource] = why
        if (resource, kind) not in self._told:
            self._told.add((resource, kind))
            log.warning("agent.resource.lacking", extra={"values": {"resource": resource, "why": why}})

    def _read_one(self, collector: Collector, elapsed_s: float) -> Reading | None:
        """Return one resource's reading; None after an error, which is counted and logged."""
        resource = collector.resource
        before = self._before.pop(resource, None)
        try:
            now = self._before[resource] = collector.read()
            reading = collector.parse(before, now, elapsed_s)
        except NoReadingError as error:
            self.counts.impossible[resource] += isinstance(error, ImpossibleRiseError)
            self._lacks(resource, str(error), type(error))
            return None
        except Exception as error:
            self.counts.collector_failures[resource] += 1
            if resource not in self._failing:
                self._failing.add(resource)
                values = {"resource": resource, "error": f"{type(error).__name__}: {error}"}
                log.warning("agent.collector.failed", extra={"values": values})
            self.counts.lacks[resource] = self._since_facts[resource] = f"{type(error).__name__}: {error}"
            return None
        if resource in self._failing:
            self._failing.remove(resource)
            log.info("agent.collector.recovered", extra={"values": {"resource": resource}})
        return reading

    def _add(self, resource: str, reading: Reading | None) -> None:
        if reading is None:
            return
        self.counts.readings[resource] += 1
        capacity = self.capacities.get(resource, reading.capacity)
        if capacity is None:
            self._lacks(resource, f"its capacity is not known: set capacity {resource}=AMOUNT")
            return
        self.counts.lacks.pop(resource, None)
        self._known_capacities[resource] = capacity
        usage = min(reading.usage, capacity) if resource in self.capacities else reading.usage
        self._readings.setdefault(resource, Readings()).add(usage, capacity)

    def _close(self) -> list[Sample]:
        """Return the sample of the current interval, if it has a reading."""
        readings, self._readings = self._readings, {}
        if not readings or self._interval is None:
            return []
        moments: dict[str, Any] = {resource: found.moments() for resource, found in readings.items()}
        sample = Sample(
            v=VERSION,
            machine=self.machine,
            boot=self.boot,
            seq=self._seq,
            at=self.schedule.end_of(self._interval),
            interval_s=self.schedule.interval_s,
            host_id=self.host_id,
            **moments,
        )
        self._seq += 1
        self.counts.samples += 1
        return [sample]
