"""What the files of a control group say."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.agent.instances.cgroup import find_root, io_bytes, pids, read_cgroup, working_set
from streams.agent.instances.counters import NO_PROCESS, Counters
from tests.streams.agent.instances.tree import MIB, Tree


def test_every_figure_is_read(tree: Tree) -> None:
    """CPU seconds, memory less the cache that is not in use, bytes by device."""
    io = "8:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n7:0 \n259:1 rbytes=10 wbytes=0\n"
    tree.group("a.service", cpu_s=1.5, memory=3 * MIB, cache=MIB, io=io)
    read = read_cgroup(tree.groups / "a.service")
    assert read == Counters(cpu_s={NO_PROCESS: 1.5}, memory=2.0 * MIB, io={"8:0": 4608, "259:1": 10})


def test_a_controller_that_is_off_is_not_known(tree: Tree) -> None:
    """None, never 0; CPU time is counted in every group."""
    tree.group("a.service", cpu_s=2.0, memory=None, io=None)
    assert read_cgroup(tree.groups / "a.service") == Counters(cpu_s={NO_PROCESS: 2.0})


def test_a_group_that_is_gone_is_an_error(tree: Tree) -> None:
    """For the caller to count."""
    with pytest.raises(FileNotFoundError):
        read_cgroup(tree.groups / "gone.service")


def test_odd_contents() -> None:
    """More cache than memory is no memory; a line that a kernel may leave half empty is passed over."""
    assert working_set("100", "inactive_file 200") == 0.0
    assert working_set("100", None) == 100.0
    assert io_bytes("8:16 \n") == {}


def test_processes_of_a_group_or_of_what_is_below(tree: Tree) -> None:
    """A pod has none itself, its containers have."""
    tree.group("pod")
    tree.group("pod/a")
    tree.group("pod/b", pids=(7, 8))
    assert pids(tree.groups / "pod") == [7, 8]
    assert pids(tree.groups / "pod/a") == []


def test_the_root_alone_and_beside_version_1(tmp_path: Path) -> None:
    """Neither: None."""
    assert find_root(tmp_path) is None
    beside = tmp_path / "sys/fs/cgroup/unified"
    beside.mkdir(parents=True)
    (beside / "cgroup.controllers").write_text("")
    assert find_root(tmp_path) == beside


@pytest.mark.skipif(find_root(Path("/")) is None, reason="no control groups of version 2 here")
def test_the_root_group_of_this_machine_is_read() -> None:
    """Whatever its kernel: CPU time is there wherever the group has a ``cpu.stat``."""
    root = find_root(Path("/"))
    assert root is not None
    groups = [path for path in root.iterdir() if (path / "cpu.stat").is_file()]
    for path in groups:
        read = read_cgroup(path)
        assert read.cpu_s is not None
        assert read.cpu_s[NO_PROCESS] >= 0
