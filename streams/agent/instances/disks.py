"""The physical disks in ``/proc/diskstats``."""

from __future__ import annotations

from pathlib import Path

from streams.agent.instances.counters import DiskTraffic

SECTOR_BYTES = 512
"""The unit of the counters, for any disk."""


def read_disks(root: Path) -> dict[str, DiskTraffic]:
    """Return the physical disks below a file system's root; none where they cannot be read."""
    try:
        text = (root / "proc/diskstats").read_text()
    except OSError:
        return {}
    return {
        device: traffic
        for name, device, traffic in parse_disks(text)
        if (root / "sys/block" / name / "device").exists() and not name.startswith(("sr", "fd"))
    }


def parse_disks(text: str) -> list[tuple[str, str, DiskTraffic]]:
    r"""Return name, ``major:minor`` and traffic of each line.

    >>> parse_disks("   8       0 sda 10 0 4 5 20 0 6 7 0 1500 12\n")
    [('sda', '8:0', DiskTraffic(bytes=5120, busy_ms=1500))]
    """
    found = []
    for line in text.splitlines():
        parts = line.split()
        if len(parts) >= 13:
            moved = (int(parts[5]) + int(parts[9])) * SECTOR_BYTES
            found.append((parts[2], f"{parts[0]}:{parts[1]}", DiskTraffic(moved, int(parts[12]))))
    return found
