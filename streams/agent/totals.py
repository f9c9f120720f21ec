"""The machine's own CPU and memory over the interval of a report, read by the collectors of samples."""

from __future__ import annotations

from streams.agent.collectors.cpu import Cpu, CpuTimes
from streams.agent.collectors.memory import Memory


class MachineTotals:
    """Remembers the CPU counters of the last call."""

    def __init__(self) -> None:
        self._before: CpuTimes | None = None

    def read(self, elapsed_s: float) -> tuple[float | None, float | None]:
        """Return the cores busy since the last call and the bytes in use; None where not known."""
        now = Cpu().read()
        cpu = Cpu().parse(self._before, now, elapsed_s)
        self._before = now
        memory = Memory().parse(None, Memory().read(), elapsed_s)
        return cpu.usage if cpu else None, memory.usage if memory else None
