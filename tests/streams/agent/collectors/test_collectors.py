"""The collectors together; CPU time from `/proc/stat`, memory from `/proc/meminfo`."""

import psutil
import pytest

from schemas.resources import RESOURCES
from streams.agent.collectors import COLLECTORS, Cpu, Memory, Reading
from streams.agent.collectors.cpu import CpuTimes
from streams.agent.collectors.memory import MemoryBytes
from streams.agent.rises import NoReadingError
from streams.agent.settings import AgentSettings


def test_cpu_is_the_busy_share_of_the_time_counted_times_the_cores(use_proc, monkeypatch):
    """940 of 2,000 ticks were busy on four cores: user, system, interrupts and steal; guest is not counted twice."""
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    use_proc("before")
    before = Cpu().read()
    use_proc("after")
    reading = Cpu().parse(before, Cpu().read(), elapsed_s=4.9)
    assert reading == (pytest.approx(4 * 940 / 2000), 4.0)


@pytest.mark.parametrize(
    ("name", "now", "usage"),
    [
        ("idle time of busy cores, node_exporter #1903", CpuTimes(14.0, 9.98, 4), 4.0),
        ("user time of idle cores, node_exporter #1090", CpuTimes(9.99, 14.0, 4), 0.0),
    ],
)
def test_time_that_falls_a_little_is_no_loss(name, now, usage):
    """Kernels put it right by some ticks: the cores are as busy, or as idle, as they can be."""
    assert Cpu().parse(CpuTimes(10, 10, 4), now, elapsed_s=1.0) == Reading(usage, 4.0), name


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(9, 20, 4), id="busy went back"),
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(20, 9, 4), id="idle went back"),
        pytest.param(CpuTimes(10, 10, 4, (6, 4)), CpuTimes(10.2, 13, 4, (7, 3.2)), id="stolen time went back"),
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(10, 10, 4), id="no time counted"),
        pytest.param(CpuTimes(10, 10, 1), CpuTimes(8e6, 10.5, 1), id="stolen time, node_exporter #742"),
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(10.5, 19, 4), id="more than the cores had time for"),
    ],
)
def test_cpu_has_no_reading(before, now):
    """Counters that went back, stood still, or counted more than the time allows."""
    assert Cpu().parse(None, now, elapsed_s=1.0) is None
    with pytest.raises(NoReadingError):
        Cpu().parse(before, now, elapsed_s=1.0)


def test_memory_is_total_less_available(use_proc):
    """Page cache that can be given back is not in use; one read is enough."""
    use_proc("after")
    assert Memory().parse(None, Memory().read(), elapsed_s=0.0) == Reading(10 * 2**30, 16 * 2**30)


@pytest.mark.parametrize(
    ("now", "reading"),
    [
        pytest.param(MemoryBytes(100, 120), Reading(0, 100), id="more available than there is"),
        pytest.param(MemoryBytes(100, -5), Reading(100, 100), id="less than nothing available"),
    ],
)
def test_memory_is_never_negative_nor_more_than_there_is(now, reading):
    """What the kernel estimates badly is kept within the machine."""
    assert Memory().parse(None, now, elapsed_s=1.0) == reading


@pytest.mark.parametrize(
    ("name", "share", "mounts", "used"),
    [
        ("a host", None, "", 5_120),
        ("half of it", 0.5, "", 7_680),
        ("none of it", 0.0, "", 10_240),
        ("a container of LXC", None, "50 49 0:40 /proc/meminfo /proc/meminfo rw - fuse.lxcfs lxcfs rw", 10_240),
        ("a container of an engine", None, "5 4 0:3 /x /etc/hostname rw - ext4 /dev/sda rw", 10_240),
        ("a container, set", 1.0, "5 4 0:3 /x /etc/hostname rw - ext4 /dev/sda rw", 5_120),
    ],
)
def test_the_cache_of_zfs_counts_as_available(name, share, mounts, used, tmp_path, monkeypatch):
    """What it has above its least size; in a container it is the host's, and counts only when it is set.

    Sources: openzfs #10255, htop #1002, telegraf #15663; lxcfs's mount by its README.
    """
    proc = tmp_path / name
    (proc / "spl/kstat/zfs").mkdir(parents=True)
    (proc / "self").mkdir()
    (proc / "self/mountinfo").write_text(mounts)
    (proc / "meminfo").write_text(
        "MemTotal: 20 kB\nMemFree: 10 kB\nMemAvailable: 10 kB\nBuffers: 0 kB\nCached: 0 kB\nShmem: 0 kB\n"
        "Active: 0 kB\nInactive: 0 kB\n"
    )
    (proc / "spl/kstat/zfs/arcstats").write_text("13 1 0x01 147\nname type data\nc_min 4 1000\nsize 4 6120\n")
    monkeypatch.setattr("psutil.PROCFS_PATH", str(proc))
    memory = Memory.configured(AgentSettings(memory_arc_share=share))
    assert memory.parse(None, memory.read(), 1.0).usage == used


def test_every_resource_has_one_collector():
    """The tuple lists one collector a resource, in the order of the resource axis, each with a handbook page."""
    assert tuple(kind.resource for kind in COLLECTORS) == RESOURCES
    assert all(kind.__doc__ and kind.configured(AgentSettings()) for kind in COLLECTORS)
