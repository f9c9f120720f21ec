"""The instances of a made-up machine between two moments."""

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from schemas.messages.sample import InstanceMeans
from streams.agent.__main__ import MachineTotals
from streams.agent.collectors.disk import DiskLine
from streams.agent.collectors.memory import Memory, MemoryBytes
from streams.agent.instances.finders import Command
from streams.agent.instances.meter import Found, Meter, own_network, parse_disks, read_disks
from streams.agent.instances.processes import PAGE_BYTES, TICKS_HZ
from tests.streams.agent.instances.tree import MIB

A, B = "system.slice/redis-a.service", "system.slice/redis-b.service"


class Machine:
    """A meter on a made-up machine, and what it counted."""

    def __init__(self, tree, **found):
        self.totals = (4.0, 100.0 * MIB)
        self.troubles = Counter()
        self.meter = Meter(Found(root=tree.root, **found), lambda _: self.totals, self.troubles)
        self.before = self.meter.read(0.0)

    def after(self, seconds=10.0):
        """Return what was used since the read before."""
        before, self.before = self.before, self.meter.read(seconds)
        return self.meter.between(before, self.before, seconds)


def test_instances_and_what_belongs_to_none(tree):
    """By unit name, without any setting; the system is the machine less its instances."""
    tree.unit("cron.service")
    tree.disk("sda", "8:0", 0, 0)
    tree.group(A, cpu_s=5, memory=30 * MIB, cache=10 * MIB, io="8:0 rbytes=0 wbytes=0\n", pids=(7,))
    tree.group(B, cpu_s=1, memory=10 * MIB, io="8:0 rbytes=0 wbytes=0\n", pids=(8,))
    tree.group("system.slice/cron.service", cpu_s=9)
    tree.network(7, 0, 0)
    tree.share_network(8)
    machine = Machine(tree)
    tree.group(A, cpu_s=25, memory=30 * MIB, cache=10 * MIB, io="8:0 rbytes=1024 wbytes=512\n", pids=(7,))
    tree.group(B, cpu_s=2, memory=15 * MIB, io="8:0 rbytes=512 wbytes=0\n", pids=(8,))
    tree.disk("sda", "8:0", 8, 5000)
    tree.network(7, 500, 100)
    measured = machine.after()
    assert measured.entries == {
        "redis-a": InstanceMeans(cpu=2.0, memory=20.0 * MIB, nic=50.0, disk=0.5 * 1536 / 4096),
        "redis-b": InstanceMeans(cpu=0.1, memory=15.0 * MIB, disk=0.5 * 512 / 4096),
    }
    assert measured.system == InstanceMeans(cpu=4.0 - 2.1, memory=65.0 * MIB, disk=0.25)
    assert machine.troubles == Counter(vanished=0)


def test_a_disk_that_is_excluded_is_no_busiest_one(tree):
    """As in the samples of the machine: a backup's disk is busy for the whole time."""
    tree.disk("sda", "8:0", 0, 0)
    tree.disk("sdb", "8:16", 0, 0)
    tree.group(A, io="8:0 rbytes=0 wbytes=0\n")
    machine = Machine(tree, disk_exclude=re.compile("sdb"))
    tree.group(A, io="8:0 rbytes=512 wbytes=0\n8:16 rbytes=512 wbytes=0\n")
    tree.disk("sda", "8:0", 2, 1000)
    tree.disk("sdb", "8:16", 1, 10_000)
    measured = machine.after()
    assert (measured.entries["redis-a"].disk, measured.system.disk) == (0.05, 0.05)


def test_a_new_instance_leaves_the_system_unknown(tree):
    """Its CPU is in the machine's and not known: the rest would be made up."""
    tree.group(A, cpu_s=5)
    machine = Machine(tree)
    tree.group(A, cpu_s=15)
    tree.group(B, cpu_s=50)
    measured = machine.after()
    assert measured.entries["redis-b"] == InstanceMeans(memory=float(MIB))
    assert measured.system == InstanceMeans(memory=98.0 * MIB)
    tree.group(A, cpu_s=15)
    tree.group(B, cpu_s=60)
    assert machine.after().system.cpu == 3.0


def test_what_vanishes_counts_again_or_cannot_be_read_is_counted(tree):
    for path in (A, B, "system.slice/c.service"):
        tree.group(path, cpu_s=5)
    machine = Machine(tree)
    tree.group(A, cpu_s=15)
    tree.group(B, cpu_s=1)  # the unit was started again
    for file in (tree.groups / "system.slice/c.service").iterdir():
        file.unlink()
    (tree.groups / "system.slice/c.service").rmdir()
    tree.group("system.slice/d.service")
    (tree.groups / "system.slice/d.service/cpu.stat").write_text("usage_usec soon\n")
    measured = machine.after()
    assert measured.entries == {
        "redis-a": InstanceMeans(cpu=1.0, memory=float(MIB)), "redis-b": InstanceMeans(memory=float(MIB)),
        "d": InstanceMeans(memory=float(MIB)),
    }  # fmt: skip
    assert machine.troubles == Counter(vanished=1, reset=1, unreadable=1)


def test_a_machine_without_control_groups_has_none(tmp_path):
    meter = Meter(Found(root=tmp_path), lambda _: (1.0, 1.0), troubles := Counter())
    moment = meter.read(0.0)
    assert (moment.instances, troubles) == ({}, Counter())
    assert meter.between(moment, moment, 10.0).entries == {}


def test_instances_by_process_take_the_place_of_their_group(tree):
    """Two servers in one unit: the unit is no third instance. Another unit stays."""
    both = "system.slice/redis.service"
    tree.group(both, cpu_s=9)
    tree.group(A, cpu_s=1)
    for pid, port in ((10, 7001), (11, 7002)):
        tree.process(pid, command=f"redis-server :{port}", group=both, cpu_ticks=0, pages=100)
    machine = Machine(tree, finders=(Command(re.compile(r"redis-server :(\d+)")),))
    tree.process(10, command="redis-server :7001", group=both, cpu_ticks=5 * TICKS_HZ, pages=200)
    measured = machine.after()
    assert measured.entries == {
        "redis-a": InstanceMeans(cpu=0.0, memory=float(MIB)),
        "7001": InstanceMeans(cpu=0.5, memory=200.0 * PAGE_BYTES),
        "7002": InstanceMeans(cpu=0.0, memory=100.0 * PAGE_BYTES),
    }


def test_more_instances_than_there_may_be_are_counted(tree, monkeypatch):
    monkeypatch.setattr("streams.agent.instances.meter.INSTANCES_MAX", 1)
    tree.group(A)
    tree.group(B)
    machine = Machine(tree)
    assert list(machine.before.instances) == ["redis-a"]
    assert machine.troubles == Counter({"left-out": 1})


def test_the_pods_of_a_node_from_inside_one(tree):
    """By the node's mounted groups; processes of others are shown as 0, so the network is not known."""
    pod, uid = "kubepods/burstable/pod", "0d1c2b3a-1111-2222-3333-444455556666"
    tree.group("system.slice/kubelet.service", cpu_s=9)
    tree.group(pod + uid, cpu_s=5)
    tree.group(f"{pod}{uid}/{'ab' * 32}", cpu_s=5, pids=(0, 0))
    (tree.root / "host").mkdir()
    mounted = tree.groups.rename(tree.root / "host/cgroup")
    machine = Machine(tree, cgroup_root=mounted, pods_only=True)
    (mounted / pod.removesuffix("/pod") / f"pod{uid}/cpu.stat").write_text("usage_usec 25000000\n")
    measured = machine.after()
    assert measured.entries == {uid: InstanceMeans(cpu=2.0, memory=1.0 * MIB)}
    assert measured.system == InstanceMeans(cpu=2.0, memory=99.0 * MIB)
    assert not machine.troubles["unreadable"]


def test_the_totals_of_this_machine(monkeypatch):
    """Memory as in its samples: ZFS's cache counts by the same share."""
    monkeypatch.setattr(Memory, "read", lambda self: MemoryBytes(100.0, 40.0 + 20.0 * self.arc_share))
    totals = MachineTotals(Memory(1.0))
    first, second = totals.read(0.0), totals.read(0.1)
    assert first == (None, 40.0)
    assert second[0] is None or second[0] >= 0


RECORDED = Path(__file__).parents[3] / "proc"


def test_only_physical_disks_count(tree):
    """Partitions and maps have no device of their own; an optical drive is none either."""
    tree.disk("sda", "8:0", 8, 1500)
    tree.disk("sr0", "11:0", 9, 9)
    path = tree.root / "proc/diskstats"
    path.write_text(path.read_text() + "   8       1 sda1 1 0 8 1 1 0 0 1 0 1500 1\n")
    assert read_disks(tree.root) == {"8:0": DiskLine("sda", "8:0", 8 * 512, 1500)}
    assert read_disks(tree.root / "none") == {}


def test_recorded_disks_are_read():
    """The two moments of tests/proc are five seconds apart: sda was busy for 3.5 s."""
    before, after = (
        {one.name: one for one in parse_disks((RECORDED / m / "diskstats").read_text())} for m in ("before", "after")
    )
    assert after["sda"].busy_ms - before["sda"].busy_ms == 3500


def test_whose_network_it_is(tree):
    """One of its own is counted; the machine's is not told apart; a process that is gone is an error."""
    tree.network(7, received=100, sent=250)
    tree.share_network(8)
    assert (own_network(tree.root, 7), own_network(tree.root, 8)) == ((100, 250), None)
    with pytest.raises(FileNotFoundError):
        own_network(tree.root, 9)


@pytest.mark.skipif(not Path("/proc/1/net/dev").exists(), reason="no /proc here")
def test_this_process_has_the_machines_network():
    """On the real ``/proc``: the inode tells that this process and the first one see the same."""
    same = Path("/proc/1/net/dev").stat().st_ino == Path("/proc/self/net/dev").stat().st_ino
    assert (own_network(Path("/"), os.getpid()) is None) == same


def test_processes_that_cannot_be_listed_cost_the_network_alone(tree):
    """CPU and memory of the group are known; it is counted."""
    tree.group(A, cpu_s=5)
    machine = Machine(tree)
    tree.group(A, cpu_s=15)
    (tree.groups / A / "cgroup.procs").unlink(missing_ok=True)
    (tree.groups / A / "cgroup.procs").write_text("what\n")
    assert machine.after().entries == {"redis-a": InstanceMeans(cpu=1.0, memory=float(MIB))}
    assert machine.troubles["unreadable"] == 1


def test_a_pod_whose_containers_are_beside_it_is_measured_whole(tree):
    """Kubelet and runtime have other drivers: the pod's own slice stands still."""
    uid = "0d1c2b3a_1111_2222_3333_444455556666"
    slice_name = f"kubepods-burstable-pod{uid}.slice"
    groups = [
        f"kubepods.slice/{slice_name}",
        *(f"system.slice/{slice_name}:cri-containerd:{n * 32}" for n in ("ab", "cd")),
    ]
    for group in groups:
        tree.group(group, cpu_s=1)
    machine = Machine(tree, pods_only=True)
    for group in groups[1:]:
        tree.group(group, cpu_s=21)
    assert machine.after().entries == {uid.replace("_", "-"): InstanceMeans(cpu=4.0, memory=3.0 * MIB)}
