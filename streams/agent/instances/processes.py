"""Processes in ``/proc`` below a given root, and the usage of several together."""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from streams.agent.instances.counters import Counters

TICKS_HZ = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    start: int
    """Ticks after boot: id and start together are unique."""
    cpu_s: float
    memory: int
    """Resident bytes, shared pages included."""


def read_processes(root: Path) -> dict[int, Process]:
    """Return every process by id; one that ends meanwhile is left out. Raises OSError without ``/proc``."""
    found = {}
    for folder in (root / "proc").iterdir():
        if folder.name.isdigit():
            try:
                process = parse_process((folder / "stat").read_text())
            except (OSError, ValueError, IndexError):
                continue
            found[process.pid] = process
    return found


def parse_process(text: str) -> Process:
    """Return the process of a ``/proc/PID/stat``; its name may hold spaces and brackets. Raises ValueError."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return Process(
        pid=int(head.split()[0]),
        parent=int(fields[1]),
        start=int(fields[19]),
        cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_HZ,
        memory=int(fields[21]) * PAGE_BYTES,
    )


def with_children(mains: Mapping[int, str], processes: Mapping[int, Process]) -> dict[str, list[Process]]:
    """Return the processes of each instance: its main ones and their descendants, without those of other instances.

    ``mains`` has the instance's id by process.
    """
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: dict[str, list[Process]] = {}
    for pid, instance_id in mains.items():
        waiting = [processes[pid]] if pid in processes else []
        while waiting:
            process = waiting.pop()
            found.setdefault(instance_id, []).append(process)
            waiting += [child for child in children.get(process.pid, ()) if child.pid not in mains and child.pid != pid]
    return found


def counters_of(processes: Iterable[Process]) -> Counters:
    """Return the sum of the counters of processes, without disk, which only a privileged agent may read."""
    members = {process.pid: process for process in processes}.values()
    return Counters(
        cpu_s={(process.pid, process.start): process.cpu_s for process in members},
        memory=float(sum(process.memory for process in members)),
    )


def groups_of(root: Path, pids: Collection[int]) -> set[str]:
    """Return the control groups (version 2) that hold these processes, as paths below their root.

    In a name space of control groups, a path may begin with parent folders (``/../``).
    """
    found: set[str] = set()
    for pid in pids:
        try:
            text = (root / f"proc/{pid}/cgroup").read_text()
        except OSError:
            continue
        found.update(line[3:].lstrip("./").rstrip("/") for line in text.splitlines() if line.startswith("0::"))
    return found
