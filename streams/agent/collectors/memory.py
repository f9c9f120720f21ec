"""Memory: bytes that are not available to a new process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import psutil

from streams.agent.collectors.base import Collector, Reading


class MemoryBytes(NamedTuple):
    """The two lines of ``/proc/meminfo`` that count."""

    total: float
    available: float


@dataclass(frozen=True)
class Memory(Collector):
    """Total less available: page cache that the kernel can free counts as available."""

    resource: ClassVar[str] = "memory"

    def read(self) -> MemoryBytes:
        """Return the kernel's own estimate."""
        memory = psutil.virtual_memory()
        return MemoryBytes(float(memory.total), float(memory.available))

    def parse(self, before: MemoryBytes | None, now: MemoryBytes, elapsed_s: float) -> Reading | None:
        """Return the bytes in use; None when the total is 0."""
        if now.total <= 0:
            return None
        return Reading(min(max(now.total - now.available, 0.0), now.total), now.total)
