"""The meter of the instances on this machine: finds them, reads them, and computes the usage of each.

A figure that cannot be read, or whose counter was reset, is left out of that instance and counted; the others are not
affected. An instance that is configured by its processes replaces the control group that they are in.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from schemas.messages.sample import InstanceMeans
from streams.agent.collectors.disk import DiskLine, is_physical, parse_disks
from streams.agent.instances.cgroup import find_root, pids, read_cgroup
from streams.agent.instances.counters import Counters, busiest_disk, means_of, rest, together
from streams.agent.instances.finders import Finder, main_processes
from streams.agent.instances.processes import counters_of, groups_of, read_processes, with_children
from streams.agent.instances.units import find_instances, vendor_units


def own_network(root: Path, pid: int) -> tuple[int, int] | None:
    """Return the bytes received and sent in the network of a process; None where that is the machine's.

    Any user may read ``/proc/PID/net/dev``, and processes in one network see one file: the same inode. In the machine's
    own network the file has the traffic of all processes, so an instance's traffic is unknown.

    Raises OSError when the process is gone.
    """
    theirs, ours = root / f"proc/{pid}/net/dev", root / "proc/1/net/dev"
    try:
        if theirs.stat().st_ino == ours.stat().st_ino:
            return None
    except PermissionError:
        return None
    return parse_traffic(theirs.read_text())


def parse_traffic(text: str) -> tuple[int, int]:
    r"""Return the bytes received and sent over all interfaces except the loopback.

    >>> parse_traffic("h\nh\n  lo: 5 0 0 0 0 0 0 0 5 0\neth0: 7 0 0 0 0 0 0 0 9 0\n")
    (7, 9)
    """
    received = sent = 0
    for line in text.splitlines()[2:]:
        name, _, numbers = line.partition(":")
        fields = numbers.split()
        if name.strip() != "lo" and len(fields) >= 9:
            received, sent = received + int(fields[0]), sent + int(fields[8])
    return received, sent


def read_disks(root: Path, exclude: re.Pattern[str] | None = None) -> dict[str, DiskLine]:
    """Return the physical disks below a file system's root that count; none where they cannot be read."""
    try:
        text = (root / "proc/diskstats").read_text()
    except OSError:
        return {}
    counted = (disk for disk in parse_disks(text) if not (exclude and exclude.fullmatch(disk.name)))
    return {disk.device: disk for disk in counted if is_physical(root / "sys/block", disk.name)}


TROUBLES = ("vanished", "reset", "unreadable", "left-out")
INSTANCES_MAX = 5_000
"""Instances of one machine; more are counted as left out."""


@dataclass(frozen=True)
class Found:
    """The rules by which instances are found on this machine."""

    root: Path = Path("/")
    """The file system's root."""
    cgroup_root: Path | None = None
    """Where control groups are; None: where they are mounted."""
    patterns: tuple[re.Pattern[str], ...] = ()
    """Patterns of control groups' paths."""
    pods_only: bool = False
    """Whether pods alone are instances, among the other control groups."""
    finders: tuple[Finder, ...] = ()
    """What finds main processes, in their order."""
    disk_exclude: re.Pattern[str] | None = None
    """Disks that do not count."""


@dataclass(frozen=True)
class Moment:
    """The counters of all instances at one moment, and the machine's own; None: not known."""

    instances: dict[str, Counters] = field(default_factory=dict)
    cpu: float | None = None
    """Cores busy since the moment before, mean."""
    memory: float | None = None
    disks: dict[str, DiskLine] = field(default_factory=dict)
    """By ``major:minor``."""


@dataclass(frozen=True)
class Measured:
    """The usage of the instances, and the usage of everything else."""

    entries: dict[str, InstanceMeans]
    system: InstanceMeans


class Meter:
    """Reads the instances; ``totals`` returns cores busy since the last call and bytes of memory in use, or None."""

    def __init__(
        self, found: Found, totals: Callable[[float], tuple[float | None, float | None]], troubles: Counter[str]
    ) -> None:
        self._found = found
        self._totals = totals
        self._troubles = troubles
        self._vendor: frozenset[str] | None = None

    def read(self, elapsed_s: float) -> Moment:
        """Read all counters; ``elapsed_s``: time since the previous read."""
        groups = self._groups()
        instances: dict[str, Counters] = {}
        processes = self._processes(groups)
        for instance_id, paths in groups.items():
            if instance_id not in processes and (parts := [each for path in paths if (each := self._read_group(path))]):
                instances[instance_id] = together(parts)
        instances |= processes
        if over := list(instances)[INSTANCES_MAX:]:
            self._troubles["left-out"] += len(over)
            instances = {name: instances[name] for name in list(instances)[:INSTANCES_MAX]}
        cpu, memory = self._totals(elapsed_s)
        disks = read_disks(self._found.root, self._found.disk_exclude) if instances else {}
        return Moment(instances, cpu, memory, disks)

    def between(self, before: Moment, now: Moment, elapsed_s: float) -> Measured:
        """Return the usage of the instances in ``now`` between two moments; with `system` it sums to the machine's."""
        disk = busiest_disk(before.disks, now.disks, elapsed_s)
        entries: dict[str, InstanceMeans] = {}
        for instance_id, counters in now.instances.items():
            earlier = before.instances.get(instance_id)
            entries[instance_id], went_back = means_of(earlier, counters, elapsed_s, disk)
            self._troubles["reset"] += went_back
        self._troubles["vanished"] += len(before.instances.keys() - now.instances.keys())
        used = list(entries.values())
        system = InstanceMeans(
            cpu=rest(now.cpu, [one.cpu for one in used]),
            memory=rest(now.memory, [one.memory for one in used]),
            disk=rest(disk.share if disk else None, [one.disk for one in used]),
        )
        return Measured(entries, system)

    def _root(self) -> Path | None:
        return self._found.cgroup_root or find_root(self._found.root)

    def _groups(self) -> dict[str, list[Path]]:
        """Return the control groups that are instances, by id; the first of two with one id, all parts of a pod."""
        root = self._root()
        if root is None:
            return {}
        if self._vendor is None:
            self._vendor = vendor_units(self._found.root)
        found: dict[str, list[Path]] = {}
        try:
            own = find_instances(root, self._vendor, self._found.patterns, pods_only=self._found.pods_only)
            for instance_id, path in own:
                paths = found.setdefault(instance_id, [])
                if not paths or ":" in paths[0].name + path.name:
                    paths.append(path)
        except OSError:
            self._troubles["unreadable"] += 1
        return found

    def _read_group(self, path: Path) -> Counters | None:
        try:
            counters = read_cgroup(path)
        except FileNotFoundError:
            return None  # it vanished between finding and reading
        self._troubles["unreadable"] += counters.cpu_s is None  # every group has it, whatever is switched on
        try:
            members = pids(path)
        except (OSError, ValueError):
            members = []
            self._troubles["unreadable"] += 1
        try:
            net = own_network(self._found.root, members[0]) if members else None
        except (OSError, ValueError):
            net = None
        return Counters(counters.cpu_s, counters.memory, counters.io, net)

    def _processes(self, groups: dict[str, list[Path]]) -> dict[str, Counters]:
        """Return the instances found by their processes; remove the control groups of these from ``groups``."""
        found = self._found
        if not found.finders:
            return {}
        try:
            processes = read_processes(found.root)
        except OSError:
            self._troubles["unreadable"] += 1
            return {}
        mains = main_processes(found.root, processes, found.finders)
        members = with_children(mains, processes)
        inside, root = groups_of(found.root, mains), self._root() or found.root
        for instance_id, paths in list(groups.items()):
            own = tuple(f"{path.relative_to(root)}/" for path in paths)
            if any(f"{group}/".startswith(own) for group in inside):
                del groups[instance_id]
        return {instance_id: counters_of(own) for instance_id, own in members.items()}
