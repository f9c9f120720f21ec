"""Processes as ``/proc`` shows them."""

import os
import time
from pathlib import Path

from streams.agent.instances.processes import (
    PAGE_BYTES,
    TICKS_HZ,
    Process,
    counters_of,
    groups_of,
    read_processes,
    with_children,
)
from tests.streams.agent.instances.tree import Tree


def test_a_process_with_a_hard_name_is_read(tree: Tree) -> None:
    """Brackets and spaces in it; a process that is half gone is left out."""
    tree.process(7, parent=3, cpu_ticks=5 * TICKS_HZ, pages=4, start=99)
    (tree.root / "proc/8").mkdir()
    assert read_processes(tree.root) == {7: Process(7, 3, 99, 5.0, 4 * PAGE_BYTES)}


def test_children_belong_to_the_instance_that_started_them(tree: Tree) -> None:
    """But for the main process of another instance, and what that started."""
    for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 10), (21, 20), (30, 1)):
        tree.process(pid, parent)
    found = with_children({10: "a", 20: "b", 99: "gone"}, read_processes(tree.root))
    assert {name: sorted(one.pid for one in members) for name, members in found.items()} == {
        "a": [10, 11, 12], "b": [20, 21],
    }  # fmt: skip


def test_processes_count_together_and_once() -> None:
    """CPU by process, memory as a sum."""
    a, b = Process(1, 0, 5, 2.0, 100), Process(2, 1, 6, 3.0, 50)
    counters = counters_of([a, b, a])
    assert (counters.cpu_s, counters.memory) == ({(1, 5): 2.0, (2, 6): 3.0}, 150.0)


def test_control_groups_of_processes(tree: Tree) -> None:
    """Of version 2 alone; a path that leads up first is read, too."""
    tree.process(7, group="system.slice/redis.service")
    tree.process(8, group="../../system.slice/a.service/")
    assert groups_of(tree.root, [7, 8, 9]) == {"system.slice/redis.service", "system.slice/a.service"}


def test_this_process_is_read_as_it_is() -> None:
    """On the real ``/proc``: parent, CPU time and memory of the process that runs this test."""
    spent = time.process_time()
    found = read_processes(Path("/"))[os.getpid()]
    assert found.parent == os.getppid()
    assert abs(found.cpu_s - spent) < 1.0
    assert found.memory > 5e6
