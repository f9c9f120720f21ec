"""Memory: bytes that are not available to a new process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import psutil

from streams.agent.collectors.base import Collector, Reading, text_of
from streams.agent.container import in_container
from streams.agent.rises import NoReadingError

ARC = "spl/kstat/zfs/arcstats"
"""ZFS's account of its cache, below ``/proc``."""


class MemoryBytes(NamedTuple):
    """The two figures of ``/proc/meminfo`` that are used."""

    total: float
    available: float


@dataclass(frozen=True)
class Memory(Collector):
    """Total less available: page cache that the kernel can free counts as available.

    The kernel does not count ZFS's cache (ARC) as such, though it shrinks on demand: ``arc_share`` of its size above
    the minimum is added. A container of LXC sees the cache of its host, but a total of its own.
    """

    resource: ClassVar[str] = "memory"
    arc_share: float = 0.0

    @classmethod
    def configured(cls, settings: Any) -> Self:
        """Build it from the setting ``memory_arc_share``.

        Whether ZFS is there is checked once, since it costs 20 us.
        """
        share = settings.memory_arc_share
        if not Path(psutil.PROCFS_PATH, ARC).exists():
            share = 0.0
        if share is None:
            process = Path(psutil.PROCFS_PATH, "self")
            mounts, group = (text_of(process / name) for name in ("mountinfo", "cgroup"))
            share = 0.0 if in_container(mounts, group) or " fuse.lxcfs " in mounts else 1.0
        return cls(share)

    def read(self) -> MemoryBytes:
        """Return the kernel's own estimate, and the bytes that ZFS can free."""
        memory = psutil.virtual_memory()
        freed = self.arc_share * arc_bytes(text_of(Path(psutil.PROCFS_PATH, ARC))) if self.arc_share else 0.0
        return MemoryBytes(float(memory.total), memory.available + freed)

    def parse(self, before: MemoryBytes | None, now: MemoryBytes, elapsed_s: float) -> Reading | None:
        """Return the bytes in use; raises NoReadingError when the total is 0."""
        if now.total <= 0:
            raise NoReadingError("/proc/meminfo has no MemTotal")
        return Reading(min(max(now.total - now.available, 0.0), now.total), now.total)


def arc_bytes(text: str) -> float:
    r"""Return the bytes by which ZFS's cache can shrink: ``size`` less ``c_min`` of ``arcstats``; 0 without them.

    >>> arc_bytes("13 1 0x01\nname type data\nc_min 4 1000\nsize 4 5000\n"), arc_bytes("")
    (4000.0, 0.0)
    """
    lines = (line.split() for line in text.splitlines())
    values = {fields[0]: fields[2] for fields in lines if len(fields) == 3}
    size, least = values.get("size", ""), values.get("c_min", "")
    return max(float(size) - float(least), 0.0) if size.isdecimal() and least.isdecimal() else 0.0
