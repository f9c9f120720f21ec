"""What the files of a control group say, made-up ones and one of this machine's own kernel."""

import os
import subprocess
import sys
import uuid
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from streams.agent.instances.cgroup import cpu_seconds, find_root, io_bytes, pids, read_cgroup, working_set
from streams.agent.instances.counters import NO_PROCESS, Counters
from streams.agent.instances.meter import Found, Meter
from tests.streams.agent.instances.tree import MIB


def test_a_group_is_read(tree):
    """CPU seconds, memory less the cache that is not in use, bytes by device; what is off is None, never 0."""
    io = "8:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n7:0 \n259:1 rbytes=10 wbytes=0\n"
    tree.group("a.service", cpu_s=1.5, memory=3 * MIB, cache=MIB, io=io)
    read = read_cgroup(tree.groups / "a.service")
    assert read == Counters(cpu_s={NO_PROCESS: 1.5}, memory=2.0 * MIB, io={"8:0": 4608, "259:1": 10})
    tree.group("b.service", cpu_s=2.0, memory=None, io=None)
    assert read_cgroup(tree.groups / "b.service") == Counters(cpu_s={NO_PROCESS: 2.0})
    with pytest.raises(FileNotFoundError):
        read_cgroup(tree.groups / "gone.service")


def test_odd_contents():
    """More cache than memory is no memory; a half empty line is passed over; what is torn is not known."""
    assert working_set("100\n", "inactive_file 200\n") == 0.0
    assert working_set("100\n", None) == 100.0
    assert working_set("100\n", "inactive_file 2") is working_set("10", None) is cpu_seconds("usage_usec 15") is None
    assert io_bytes("8:16 \n") == {}


def test_processes_of_a_group_or_of_what_is_below(tree):
    tree.group("pod")
    tree.group("pod/a")
    tree.group("pod/b", pids=(7, 8))
    assert pids(tree.groups / "pod") == [7, 8]
    assert pids(tree.groups / "pod/a") == []


def test_the_root_alone_and_beside_version_1(tmp_path):
    assert find_root(tmp_path) is None
    beside = tmp_path / "sys/fs/cgroup/unified"
    beside.mkdir(parents=True)
    (beside / "cgroup.controllers").write_text("")
    assert find_root(tmp_path) == beside


@pytest.mark.skipif(find_root(Path("/")) is None, reason="no control groups of version 2 here")
def test_the_root_group_of_this_machine_is_read():
    """Whatever its kernel: CPU time is there wherever the group has a ``cpu.stat``."""
    root = find_root(Path("/"))
    groups = [path for path in root.iterdir() if (path / "cpu.stat").is_file()]
    for path in groups:
        assert read_cgroup(path).cpu_s[NO_PROCESS] >= 0


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("two devices on a line", "8:0 8:16 wbytes=1000000\n", {"8:16": 1_000_000}),
        ("two devices, figures of both", "8:0 rbytes=1 8:16 rbytes=2\n", {"8:0": 1, "8:16": 2}),
        (
            "four, of which the last has figures",
            "7:7 7:6 7:5 7:4 rbytes=9 wbytes=0\n7:3 rbytes=5\n",
            {"7:4": 9, "7:3": 5},
        ),
        ("a path of NVMe", "(unknown) rbytes=5 wbytes=1\n8:0 rbytes=1\n", {"(unknown)": 6, "8:0": 1}),
        ("written alone", "8:0 wbytes=5 wios=1\n", {"8:0": 5}),
        ("a device at the end", "8:0 rbytes=1 wbytes=2\n252:0 ", {"8:0": 3, "252:0": None}),
        ("torn in a figure", "8:0 rbytes=1 wbytes=2\n252:0 rbytes=40", {"8:0": 3, "252:0": 40, "": None}),
        ("torn in the name of a figure", "8:0 rbytes=1 wbytes=2\n252:0 rby", {"8:0": 3, "": None}),
        ("torn in a device", "8:0 rbytes=1 wbytes=2\n25", {"8:0": 3, "": None}),
        ("torn after a figure", "8:0 rbytes=1 wbytes=2\n252:0 rbytes=40 ", {"8:0": 3, "252:0": None}),
        ("torn after =", "8:0 rbytes=", {"": None}),
        ("a word for a figure", "8:0 rbytes=x wbytes=2\n", {"8:0": 2}),
        ("costs of a controller", "8:0 rbytes=1 wbytes=2 cost.vrate=100.00 cost.usage=5\n", {"8:0": 3}),
        ("nothing", "", {}),
    ],
)
def test_a_figure_is_that_of_the_device_before_it(name, text, found):
    """The texts of ``io.stat`` that kernels 5.4 to 6.17 write; what is torn is not known, never 0.

    Sources: lxd #10052 and #18609, green-metrics-tool #1837; ``cost.``: cgroup-v2.rst. Torn in a figure: made.
    """
    assert io_bytes(text) == found, name


def test_a_file_that_cannot_be_read_costs_its_own_figure(tree):
    for file, read in (
        ("cpu.stat", Counters(None, 1.0 * MIB, {"8:0": 3})),
        ("memory.current", Counters({NO_PROCESS: 1.5}, None, {"8:0": 3})),
        ("io.stat", Counters({NO_PROCESS: 1.5}, 1.0 * MIB, {})),
    ):
        tree.group(file, cpu_s=1.5, memory=MIB, io="8:0 rbytes=1 wbytes=2\n")
        (tree.groups / file / file).write_text("")
        assert read_cgroup(tree.groups / file) == read, file


BUSY_S = 0.3
WORK = f"""
import sys, time
sys.stdin.readline()
begin = time.process_time()
held = bytearray(32 << 20)
held[::4096] = b"x" * len(held[::4096])
while time.process_time() < begin + {BUSY_S}:
    pass
print(time.process_time() - begin, flush=True)
sys.stdin.readline()
"""
"""Waits for a line, uses a known time of CPU and 32 MiB, says how much it was, and waits to be ended."""


def writable_root():
    """Where a group can be made; None: nowhere."""
    root = find_root(Path("/"))
    return root if root is not None and os.access(root, os.W_OK) and os.geteuid() == 0 else None


@pytest.fixture
def group():
    """A new group, with the memory controller where this kernel's version 2 has it."""
    root = writable_root()
    if "memory" in (root / "cgroup.controllers").read_text().split():
        with suppress(OSError):  # a root that is not the machine's own may not pass it on
            (root / "cgroup.subtree_control").write_text("+memory")
    path = root / f"measured-{uuid.uuid4().hex[:12]}.service"
    path.mkdir()
    try:
        yield path
    finally:
        path.rmdir()


@pytest.mark.skipif(
    writable_root() is None, reason="NOT RUN: no control groups of version 2 in which this user may make one"
)
def test_what_a_process_in_a_group_uses_is_what_is_read(group):
    """CPU time as the process itself counts it; memory where its controller is on; the id is the unit's name."""
    meter = Meter(Found(cgroup_root=group.parent), lambda _: (None, None), Counter())
    with subprocess.Popen(
        [sys.executable, "-c", WORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        (group / "cgroup.procs").write_text(str(child.pid))
        before = meter.read(0.0)
        child.stdin.write("\n")
        child.stdin.flush()
        used_s = float(child.stdout.readline())
        counters, now = read_cgroup(group), meter.read(10.0)
        child.stdin.write("\n")
        child.stdin.close()
        assert child.wait(30) == 0
    cpu = meter.between(before, now, 10.0).entries[group.stem].cpu
    assert cpu == pytest.approx(used_s / 10.0, rel=0.25)  # the kernel counts what the interpreter does around it, too
    assert cpu >= BUSY_S / 10.0 * 0.95
    if (group / "memory.current").exists():
        assert counters.memory >= 32 << 20
    else:
        assert counters.memory is None
