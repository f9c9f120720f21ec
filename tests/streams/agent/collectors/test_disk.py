"""Reading the disks' busy time."""

import re

import pytest

from streams.agent.collectors import Disk, Reading
from streams.agent.rises import ImpossibleRiseError, NoReadingError


def disks(folder, *physical, virtual=()):
    """Write a /sys/block with these disks; return it."""
    for name in (*physical, *virtual):
        (folder / name).mkdir(parents=True)
    for name in physical:
        (folder / name / "device").mkdir()
    return folder


def read_disk(disk, use_proc, elapsed_s=5.0):
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
def test_disk_is_the_busy_share_of_the_busiest(use_proc, tmp_path, physical, share):
    """Milliseconds busy over milliseconds passed, of the physical disk with most; the whole is 1."""
    disk = Disk(sysfs=disks(tmp_path, *physical, virtual=VIRTUAL))
    assert read_disk(disk, use_proc) == (pytest.approx(share), 1.0)


def test_disk_is_never_busier_than_the_time(use_proc, tmp_path):
    """The kernel's grain may count a little more than has passed."""
    assert read_disk(Disk(sysfs=disks(tmp_path, "sda")), use_proc, elapsed_s=3.49) == (1.0, 1.0)


def test_a_machine_without_a_disk_has_no_reading(use_proc, tmp_path):
    """Nothing physical, so the resource is left out, not idle."""
    with pytest.raises(NoReadingError, match="no physical disk"):
        read_disk(Disk(sysfs=disks(tmp_path, virtual=VIRTUAL)), use_proc)


@pytest.mark.parametrize(
    ("before", "now", "elapsed_s"),
    [
        pytest.param(None, {"sda": 5}, 1.0, id="first read"),
        pytest.param({"sda": 500}, {"sdb": 600}, 1.0, id="another disk"),
        pytest.param({"sda": 5}, {"sda": 6}, 0.0, id="no time passed"),
    ],
)
def test_disk_has_no_reading(before, now, elapsed_s):
    """A first read, counters that went back, disks not seen both times."""
    assert Disk().parse(before, now, elapsed_s) is None


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("one was reset", {"sda": 500, "sdb": 5}, {"sda": 3, "sdb": 6}),
        ("a tenth of a second lower", {"sda": 100_000}, {"sda": 99_900}),
        ("a leap", {"sda": 100_000}, {"sda": 9_000_000}),
        ("beyond 32 bits", {"sda": 2**32 + 10}, {"sda": 5}),
    ],
)
def test_an_impossible_rise_is_no_reading(name, before, now):
    """Busy for longer than the time that passed, or less than before. Made, by iostats.rst: counters may be reset."""
    with pytest.raises(ImpossibleRiseError):
        Disk().parse(before, now, 1.0)


def test_a_counter_of_32_bits_is_exact():
    """The kernel counts milliseconds in 32 bits: 50 days of busy time."""
    assert Disk().parse({"sda": 2**32 - 5}, {"sda": 3}, 1.0) == Reading(0.008, 1.0)


SDA = "8 0 sda 1 0 2 3 4 0 5 6 0 {busy} 12"
LINES = [
    # name, lines, busy times of the disks sda and cciss/c0d0
    ("14 fields", SDA.format(busy=7), {"sda": 7}),
    ("18 fields: discards", SDA.format(busy=7) + " 0 0 0 0", {"sda": 7}),
    ("20 fields: flushes", SDA.format(busy=7) + " 0 0 0 0 0 0", {"sda": 7}),
    ("17 fields: lxcfs", SDA.format(busy=7) + " 0 0 0", {"sda": 7}),
    ("17 fields beside a good line", "8 16 sdb 1 0 2 3 4 0 5 6 0 9 12 0 0 0\n" + SDA.format(busy=7), {"sda": 7}),
    ("a controller with a slash", "104 0 cciss/c0d0 1 0 2 3 4 0 5 6 0 8 12", {"cciss/c0d0": 8}),
    ("a torn line beside a good one", SDA.format(busy=7) + "\n8 16 sdb 1 0 2", {"sda": 7}),
    ("a line of words", "what is this line that has more than thirteen words in it and means nothing\n"
     + SDA.format(busy=7), {"sda": 7}),
    ("a partition of old kernels", "8 1 sda1 1 2 3 4\n" + SDA.format(busy=7), {"sda": 7}),
    ("excluded", SDA.format(busy=7) + "\n8 32 sdx 1 0 2 3 4 0 5 6 0 8 12", {"sda": 7}),
    ("nothing", "", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "busy"), LINES)
def test_one_broken_line_costs_only_itself(name, text, busy, tmp_path, monkeypatch):
    """The lines that kernels, lxcfs and controllers write.

    Sources: Documentation/admin-guide/iostats.rst; lxcfs #427 and #589, psutil #2148; openvstorage #1496 and
    zabbix-disk-performance #14 (cciss). Torn lines and words: made.
    """
    for disk in ("sda", "cciss!c0d0", "sdx"):
        (tmp_path / name / disk / "device").mkdir(parents=True)
    (tmp_path / name / "diskstats").write_text(text)
    monkeypatch.setattr("psutil.PROCFS_PATH", str(tmp_path / name))
    assert Disk(re.compile("sdx"), tmp_path / name).read() == busy


def test_a_disk_that_came_counts_from_its_second_read():
    assert Disk().parse({"sda": 0}, {"sda": 100, "sdb": 9_000}, 1.0) == Reading(0.1, 1.0)


def test_a_new_name_is_looked_up(use_proc, tmp_path, monkeypatch):
    """`/sys/block` is asked when the names in the counters change, and not every second."""
    asked = []
    monkeypatch.setattr(
        "streams.agent.collectors.disk.is_physical", lambda _, name: not asked.append(name) and name == "sda"
    )
    disk = Disk(sysfs=tmp_path)
    use_proc("before")
    assert disk.read() == disk.read() == {"sda": 100_000}
    assert len(asked) == 9
    disk._names = ["sdz"]
    disk.read()
    assert len(asked) == 18
