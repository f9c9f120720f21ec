"""What the files of a control group say."""

from pathlib import Path

import pytest

from streams.agent.instances.cgroup import find_root, io_bytes, pids, read_cgroup, working_set
from streams.agent.instances.counters import NO_PROCESS, Counters
from tests.rows import each_row
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


@each_row(
    ("name", "text", "found"),
    [
        ("two devices on a line", "8:0 8:16 wbytes=1000000\n", {"8:16": 1_000_000}),
        ("two devices, figures of both", "8:0 rbytes=1 8:16 rbytes=2\n", {"8:0": 1, "8:16": 2}),
        ("written alone", "8:0 wbytes=5 wios=1\n", {"8:0": 5}),
        ("a device at the end", "8:0 rbytes=1 wbytes=2\n252:0 ", {"8:0": 3, "252:0": None}),
        ("torn in a figure", "8:0 rbytes=1 wbytes=2\n252:0 rbytes=40", None),
        ("torn after =", "8:0 rbytes=", None),
        ("a word for a figure", "8:0 rbytes=x wbytes=2\n", {"8:0": 2}),
        ("costs of a controller", "8:0 rbytes=1 wbytes=2 cost.vrate=100.00 cost.usage=5\n", {"8:0": 3}),
        ("nothing", "", {}),
    ],
)
def test_a_figure_is_that_of_the_device_before_it(name: str, text: str, found: dict[str, int | None] | None) -> None:
    """The texts of ``io.stat`` that kernels 5.4 to 6.1 write; what is torn is not known, never 0."""
    assert io_bytes(text) == found, name


def test_a_file_that_cannot_be_read_costs_its_own_figure(tree: Tree) -> None:
    """The others of the group are there."""
    for file, read in (
        ("cpu.stat", Counters(None, 1.0 * MIB, {"8:0": 3})),
        ("memory.current", Counters({NO_PROCESS: 1.5}, None, {"8:0": 3})),
        ("io.stat", Counters({NO_PROCESS: 1.5}, 1.0 * MIB, {})),
    ):
        tree.group(file, cpu_s=1.5, memory=MIB, io="8:0 rbytes=1 wbytes=2\n")
        (tree.groups / file / file).write_text("")
        assert read_cgroup(tree.groups / file) == read, file
