"""How many overloaded rounds in a row make a machine a source: a state per machine, kept between rounds."""

from collections.abc import Iterable
from dataclasses import dataclass, field

FORGOTTEN_S = 300.0
"""The state of a machine that was not over for this long is dropped, s."""


@dataclass(frozen=True)
class Condition:
    """When a machine counts as abnormal.

    It does from the round in which its count of overloaded rounds is **more** than ``abnormal``. That ends
    ``timeout_s`` after that round, or with more than ``normal`` normal marks in a row. With ``abnormal`` 1 nothing is
    counted.
    """

    abnormal: int = 5
    normal: int = 3
    timeout_s: float = 60.0
    forgotten_s: float = FORGOTTEN_S


@dataclass
class Detector:
    """The state of one machine. A mark of one kind ends the run of the other; a change of state ends both."""

    condition: Condition
    anomalous: bool = False
    abnormal: int = 0
    normal: int = 0
    until: float = 0.0
    over_at: float = 0.0
    """When it was last overloaded."""

    def state(self, now_s: float) -> bool:
        """Return whether the machine counts as abnormal now."""
        if self.anomalous and (self.until < now_s or self.normal > self.condition.normal):
            self._become(False, now_s)
        return self.anomalous

    def mark(self, normal: bool, now_s: float) -> bool:
        """Record a round; return the state after it."""
        self.state(now_s)
        if normal:
            self.normal, self.abnormal = self.normal + 1, 0
            if self.anomalous and self.normal > self.condition.normal:
                self._become(False, now_s)
        else:
            self.normal, self.abnormal = 0, self.abnormal + 1
            if not self.anomalous and self.abnormal > self.condition.abnormal:
                self._become(True, now_s)
        return self.state(now_s)

    def reset(self, now_s: float) -> None:
        """End the abnormal state; the count of a machine in the normal state stays."""
        if self.anomalous:
            self._become(False, now_s)

    def _become(self, anomalous: bool, now_s: float) -> None:
        self.anomalous = anomalous
        self.abnormal = self.normal = 0
        self.until = now_s + self.condition.timeout_s if anomalous else 0.0


@dataclass
class Detectors:
    """The states by machine; the state of a machine that was not overloaded for ``forgotten_s`` is dropped."""

    by_machine: dict[str, Detector] = field(default_factory=dict)

    def abnormal(self, machines: Iterable[str], condition: Condition | None, now_s: float) -> list[str]:
        """Record that these machines are overloaded, and return those that count as abnormal."""
        if condition is None or condition.abnormal == 1:
            return list(machines)
        self.by_machine = {
            machine: one for machine, one in self.by_machine.items() if now_s - one.over_at <= condition.forgotten_s
        }
        found = []
        for machine in machines:
            detector = self.by_machine.setdefault(machine, Detector(condition))
            detector.over_at = now_s
            if detector.mark(False, now_s):
                found.append(machine)
        return found

    def reset(self, machines: Iterable[str], now_s: float) -> None:
        """End the abnormal state of machines that are underloaded, or no longer overloaded."""
        for machine in machines:
            if (detector := self.by_machine.get(machine)) is not None:
                detector.reset(now_s)

    def mark_normal(self, machines: Iterable[str], now_s: float) -> None:
        """Record that these machines were relieved."""
        for machine in machines:
            if (detector := self.by_machine.get(machine)) is not None:
                detector.mark(True, now_s)


@dataclass
class SideDetectors:
    """The states for balancing by thresholds: for the usage of all instances, and for that of production."""

    machines: Detectors = field(default_factory=Detectors)
    prod: Detectors = field(default_factory=Detectors)
