"""Physical disks of ``/proc/diskstats``."""

from __future__ import annotations

from pathlib import Path

from streams.agent.instances.counters import DiskTraffic
from streams.agent.instances.disks import parse_disks, read_disks
from tests.streams.agent.instances.tree import Tree

RECORDED = Path(__file__).parents[3] / "proc"


def test_only_physical_disks_count(tree: Tree) -> None:
    """Partitions and maps have no device of their own; an optical drive is none either."""
    tree.disk("sda", "8:0", 8, 1500)
    tree.disk("sr0", "11:0", 9, 9)
    path = tree.root / "proc/diskstats"
    path.write_text(path.read_text() + "   8       1 sda1 1 0 8 1 1 0 0 1 0 1500 1\n")
    assert read_disks(tree.root) == {"8:0": DiskTraffic(8 * 512, 1500)}


def test_a_machine_without_disks_has_none(tmp_path: Path) -> None:
    """Nor one whose ``/proc`` is hidden."""
    assert read_disks(tmp_path) == {}


def test_recorded_disks_are_read() -> None:
    """The two moments of tests/proc are five seconds apart: sda was busy for 3.5 s."""
    before, after = (
        {n: t for n, _, t in parse_disks((RECORDED / m / "diskstats").read_text())} for m in ("before", "after")
    )
    assert after["sda"].busy_ms - before["sda"].busy_ms == 3500
