"""CPU: cores kept busy, from the kernel's time counters."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import psutil

from streams.agent.collectors.base import Collector, Reading
from streams.agent.rises import ImpossibleRiseError, NoReadingError, allowed_s

FELL = 0.01
"""The seconds of a core by which a sum may fall: kernels put idle and busy time right by a tick."""


class CpuTimes(NamedTuple):
    """Seconds since boot, over all cores, and the number of cores."""

    busy_s: float
    idle_s: float
    cores: int
    parts: tuple[float, ...] = ()
    """The counters that are added up to ``busy_s``."""


@dataclass(frozen=True)
class Cpu(Collector):
    """Busy share of the time counted, times the logical cores.

        usage = cores · Δbusy / (Δbusy + Δidle)

    Busy is user, nice, system, irq, softirq and steal: time stolen by the hypervisor is not available either. Guest
    time is included in user. Waiting for the disk is idle. The divisor is the time counted and not the clock's, so that
    the 10 ms resolution of the counters cancels. The capacity is the number of logical cores online; limits of the
    agent's own control group are ignored.
    """

    resource: ClassVar[str] = "cpu"

    def read(self) -> CpuTimes:
        return cpu_times(psutil.cpu_times(), psutil.cpu_count() or 1)

    def parse(self, before: CpuTimes | None, now: CpuTimes, elapsed_s: float) -> Reading | None:
        """Return the cores busy between two reads.

        Raises NoReadingError for a counter that fell, stood still, or counted more than the cores had time for.
        """
        if before is None:
            return None
        busy_s, idle_s = now.busy_s - before.busy_s, now.idle_s - before.idle_s
        cores = max(now.cores, before.cores)
        risen = [now_s - before_s for before_s, now_s in zip(before.parts, now.parts, strict=False)]
        if min(busy_s, idle_s, *risen) < -FELL * cores or busy_s + idle_s > cores * allowed_s(elapsed_s):
            raise ImpossibleRiseError(f"{busy_s:.6g} s busy, {idle_s:.6g} s idle of {cores} cores in {elapsed_s:.3g} s")
        busy_s, idle_s = max(busy_s, 0.0), max(idle_s, 0.0)
        if busy_s + idle_s == 0:
            raise NoReadingError("the counters of /proc/stat stand still")
        return Reading(now.cores * busy_s / (busy_s + idle_s), float(now.cores))


def cpu_times(times: Any, cores: int) -> CpuTimes:
    """Return the sums of psutil's fields; a field that this kernel lacks is zero."""
    busy = tuple(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq", "steal"))
    return CpuTimes(sum(busy), times.idle + getattr(times, "iowait", 0.0), cores, busy)
