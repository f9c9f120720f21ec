"""Disk: the share of time in which the busiest physical disk was busy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import psutil

from streams.agent.collectors.base import Collector, Reading

SYSFS = Path("/sys/block")
_REMOVABLE = ("sr", "fd")
"""Optical and floppy drives have a device, too."""

BusyTimes = Mapping[str, int]
"""Milliseconds with at least one request in flight since boot, by physical disk."""


@dataclass
class Disk(Collector):
    """The largest share of time that any physical disk was busy.

        usage = max over disks of Δbusy / elapsed, at most 1,   capacity = 1

    Busy is the time "spent doing I/Os" of ``/proc/diskstats``: at least one request was in flight. The disk that is
    busiest limits an instance, so shares are not added up. A disk that serves many requests at once (NVMe, a RAID
    controller) may take more work at a share of 1; a spinning disk may not.

    A disk is physical when ``/sys/block`` gives it a device: sda, nvme0n1, the paths nvme0c0n1 of an NVMe multipath,
    and the disks vda and xvda of a virtual machine. Partitions, LVM and multipath maps (dm-), RAID (md), loop, ram and
    zram are not: their requests pass a physical disk, or none. To count a disk and its path changes no result.
    """

    resource: ClassVar[str] = "disk"
    sysfs: Path = SYSFS
    _names: frozenset[str] = field(default=frozenset(), repr=False)
    _physical: frozenset[str] = field(default=frozenset(), repr=False)

    def read(self) -> BusyTimes:
        """Return the counters of ``/proc/diskstats`` for the physical disks; `sysfs` is read when a name is new."""
        counters = psutil.disk_io_counters(perdisk=True, nowrap=False)
        if counters.keys() != self._names:
            self._names = frozenset(counters)
            self._physical = frozenset(name for name in counters if is_physical(self.sysfs / name))
        return {name: counters[name].busy_time for name in self._physical}

    def parse(self, before: BusyTimes | None, now: BusyTimes, elapsed_s: float) -> Reading | None:
        """Return the share between two reads; no disk seen both times, or a counter that went back, is no reading."""
        if before is None or elapsed_s <= 0:
            return None
        busy_ms = [count - before[name] for name, count in now.items() if name in before]
        if not busy_ms or min(busy_ms) < 0:
            return None
        return Reading(min(max(busy_ms) / (elapsed_s * 1000), 1.0), 1.0)


def is_physical(path: Path) -> bool:
    """Tell whether a folder of ``/sys/block`` is a physical disk; a partition has no folder there."""
    return (path / "device").exists() and not path.name.startswith(_REMOVABLE)
