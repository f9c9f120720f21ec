"""Reading the disks' busy time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streams.agent.collectors import Disk, Reading


def disks(folder: Path, *physical: str, virtual: tuple[str, ...] = ()) -> Path:
    """Write a /sys/block with these disks; return it."""
    for name in (*physical, *virtual):
        (folder / name).mkdir(parents=True)
    for name in physical:
        (folder / name / "device").mkdir()
    return folder


def read_disk(disk: Disk, use_proc: Callable[[str], None], elapsed_s: float = 5.0) -> Reading | None:
    """Return the reading between the two moments of tests/proc."""
    use_proc("before")
    before = disk.read()
    use_proc("after")
    return disk.parse(before, disk.read(), elapsed_s)


VIRTUAL = ("loop0", "dm-0", "md0", "zram0")


@pytest.mark.parametrize(
    ("physical", "share"),
    [
        pytest.param(("sda", "nvme0n1", "sr0"), 0.7, id="the busiest; partitions, maps, loops and drives do not count"),
        pytest.param(("nvme0n1",), 0.2, id="nvme alone"),
        pytest.param(("vda",), 0.05, id="the disk of a virtual machine"),
    ],
)
def test_disk_is_the_busy_share_of_the_busiest(
    use_proc: Callable[[str], None], tmp_path: Path, physical: tuple[str, ...], share: float
):
    """Milliseconds busy over milliseconds passed, of the physical disk with most; the whole is 1."""
    disk = Disk(sysfs=disks(tmp_path, *physical, virtual=VIRTUAL))
    assert read_disk(disk, use_proc) == (pytest.approx(share), 1.0)


def test_disk_is_never_busier_than_the_time(use_proc: Callable[[str], None], tmp_path: Path):
    """The kernel's grain may count a little more than has passed."""
    assert read_disk(Disk(sysfs=disks(tmp_path, "sda")), use_proc, elapsed_s=3.49) == (1.0, 1.0)


def test_a_machine_without_a_disk_has_no_reading(use_proc: Callable[[str], None], tmp_path: Path):
    """Nothing physical, so the resource is left out, not idle."""
    assert read_disk(Disk(sysfs=disks(tmp_path, virtual=VIRTUAL)), use_proc) is None


@pytest.mark.parametrize(
    ("before", "now", "elapsed_s"),
    [
        pytest.param(None, {"sda": 5}, 1.0, id="first read"),
        pytest.param({"sda": 2**32 - 5}, {"sda": 3}, 1.0, id="the counter wrapped"),
        pytest.param({"sda": 500, "sdb": 5}, {"sda": 3, "sdb": 6}, 1.0, id="one was reset"),
        pytest.param({"sda": 500}, {"sdb": 600}, 1.0, id="another disk"),
        pytest.param({"sda": 5}, {"sda": 6}, 0.0, id="no time passed"),
    ],
)
def test_disk_has_no_reading(before: dict[str, int] | None, now: dict[str, int], elapsed_s: float):
    """A first read, counters that went back, disks not seen both times."""
    assert Disk().parse(before, now, elapsed_s) is None


def test_a_disk_that_came_counts_from_its_second_read():
    """It has no counter to compare with before."""
    assert Disk().parse({"sda": 0}, {"sda": 100, "sdb": 9_000}, 1.0) == Reading(0.1, 1.0)


def test_a_new_name_is_looked_up(use_proc: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`/sys/block` is asked when the names in the counters change, and not every second."""
    asked: list[str] = []
    monkeypatch.setattr(
        "streams.agent.collectors.disk.is_physical", lambda path: not asked.append(path.name) and path.name == "sda"
    )
    disk = Disk(sysfs=tmp_path)
    use_proc("before")
    assert disk.read() == disk.read() == {"sda": 100_000}
    assert len(asked) == 9
    disk._names = frozenset(["sdz"])
    disk.read()
    assert len(asked) == 18
