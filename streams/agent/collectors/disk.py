"""Disk: the share of time in which the busiest physical disk was busy."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import psutil

from streams.agent.collectors.base import Collector, Reading
from streams.agent.rises import NoReadingError, allowed_s, rises

SYSFS = Path("/sys/block")
_REMOVABLE = ("sr", "fd")
"""Optical and floppy drives have a device, too."""
_SECTOR_BYTES = 512
"""The unit of the disks' counters, for any disk."""

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
    zram are not: their requests reach a physical disk, or no disk. To count a disk and its path changes no result.
    """

    resource: ClassVar[str] = "disk"
    exclude: re.Pattern[str] | None = None
    """Disks that do not count."""
    sysfs: Path = SYSFS
    _names: list[str] = field(default_factory=list, repr=False)
    _physical: frozenset[str] = field(default=frozenset(), repr=False)

    @classmethod
    def configured(cls, settings: Any) -> Self:
        """Build it from the setting ``disk_exclude``."""
        return cls(exclude=re.compile(settings.disk_exclude) if settings.disk_exclude else None)

    def read(self) -> BusyTimes:
        """Return the counters of ``/proc/diskstats`` for the physical disks; `sysfs` is read when a name is new."""
        disks = list(parse_disks(Path(psutil.PROCFS_PATH, "diskstats").read_text()))
        names = [disk.name for disk in disks]
        if names != self._names:
            self._names = names
            counted = [name for name in names if not (self.exclude and self.exclude.fullmatch(name))]
            self._physical = frozenset(name for name in counted if is_physical(self.sysfs, name))
        return {disk.name: disk.busy_ms for disk in disks if disk.name in self._physical}

    def parse(self, before: BusyTimes | None, now: BusyTimes, elapsed_s: float) -> Reading | None:
        """Return the share between two reads; None when no disk was seen both times.

        Raises NoReadingError without a disk, and for one that was busy for longer than the time that passed.
        """
        if not now:
            raise NoReadingError("no physical disk is in /proc/diskstats, or disk_exclude names all")
        if before is None or elapsed_s <= 0:
            return None
        busy_ms = rises(before, now, allowed_s(elapsed_s) * 1000).values()
        return Reading(min(max(busy_ms) / (elapsed_s * 1000), 1.0), 1.0) if busy_ms else None


class DiskLine(NamedTuple):
    name: str
    device: str
    """``major:minor``."""
    bytes: int
    """Read and written since boot."""
    busy_ms: int


def parse_disks(text: str) -> Iterator[DiskLine]:
    r"""Yield each line of ``/proc/diskstats`` that has a busy time.

    Kernels have added fields at the end: 14, 18, 20; lxcfs writes 17. A torn line is skipped.

    >>> [*parse_disks("   8       0 sda 10 0 4 5 20 0 6 7 0 1500 12 0 0 0\n 8 1 sda1 10 0 4 5 20 0 6 7 0 15")]
    [DiskLine(name='sda', device='8:0', bytes=5120, busy_ms=1500)]
    """
    for line in text.splitlines():
        fields = line.split(None, 13)
        if len(fields) > 13 and fields[5].isdecimal() and fields[9].isdecimal() and fields[12].isdecimal():
            moved = (int(fields[5]) + int(fields[9])) * _SECTOR_BYTES
            yield DiskLine(fields[2], f"{fields[0]}:{fields[1]}", moved, int(fields[12]))


def is_physical(folder: Path, name: str) -> bool:
    """Return whether ``/sys/block`` has a physical disk of this name; a partition has no folder there.

    ``cciss/c0d0`` of ``/proc/diskstats`` is ``cciss!c0d0`` in ``/sys``.
    """
    return not name.startswith(_REMOVABLE) and (folder / name.replace("/", "!") / "device").exists()
