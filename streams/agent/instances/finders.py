"""Finds the main processes of instances: by pid file, command line, environment or port.

The first two need no privilege. To read the environment of another user's process, or its sockets, needs CAP_SYS_PTRACE
(`ops/systemd/windward-agent-instances.conf`). Without it such processes are not found by the last two.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.messages.sample import INSTANCE_ID_PATTERN
from streams.agent.instances.processes import Process

_ID = re.compile(INSTANCE_ID_PATTERN)
_LISTENING = "0A"


@dataclass(frozen=True)
class PidFile:
    """``ID=PATH``, or a path in which ``*`` stands for the id."""

    path: str
    instance_id: str = ""

    def find(self, root: Path, _: Iterable[Process]) -> Iterator[tuple[int, str]]:
        """Yield process and instance of each file; a file without a number is ignored."""
        wanted = self.path.lstrip("/")
        pattern = re.compile(".*?".join(map(re.escape, wanted.split("*", 1))).replace(".*?", "(.*?)", 1))
        for path in root.glob(wanted):
            match = pattern.fullmatch(str(path.relative_to(root)))
            instance_id = self.instance_id or (match[1] if match and pattern.groups else path.stem)
            try:
                yield int(path.read_text().split()[0]), instance_id
            except (OSError, ValueError, IndexError):
                continue


@dataclass(frozen=True)
class Command:
    """A regular expression of the command line, its words joined by spaces; group 1 is the id."""

    pattern: re.Pattern[str]

    def find(self, root: Path, processes: Iterable[Process]) -> Iterator[tuple[int, str]]:
        for process in processes:
            raw = _read(root, process, "cmdline")
            line = raw.replace(b"\0", b" ").decode(errors="replace").strip()
            if line and (match := self.pattern.search(line)):
                yield process.pid, match[1]


@dataclass(frozen=True)
class Environment:
    """The variable that holds the id."""

    name: str

    def find(self, root: Path, processes: Iterable[Process]) -> Iterator[tuple[int, str]]:
        """Yield process and instance; a child that inherits the variable is found with its parent."""
        prefix = f"{self.name}=".encode()
        for process in processes:
            for entry in _read(root, process, "environ").split(b"\0"):
                if entry.startswith(prefix):
                    yield process.pid, entry[len(prefix) :].decode(errors="replace")


@dataclass(frozen=True)
class Port:
    """The id of a process that listens on a TCP port, with ``{port}`` in it."""

    template: str

    def find(self, root: Path, processes: Iterable[Process]) -> Iterator[tuple[int, str]]:
        """Yield process and instance; for a process that listens on several ports, the lowest counts."""
        ports: dict[str, int] = {}
        for name in ("tcp", "tcp6"):
            try:
                ports |= listening((root / "proc/net" / name).read_text())
            except OSError:
                continue
        for process in processes:
            if held := sorted(ports[inode] for inode in sockets(root, process.pid) if inode in ports):
                yield process.pid, self.template.replace("{port}", str(held[0]))


def _read(root: Path, process: Process, name: str) -> bytes:
    """Return a file of a process; b"" without the right to read it."""
    try:
        return (root / f"proc/{process.pid}/{name}").read_bytes()
    except OSError:
        return b""


def listening(text: str) -> dict[str, int]:
    """Return the port of each listening socket by its inode, from ``/proc/net/tcp``."""
    found = {}
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTENING:
            found[fields[9]] = int(fields[1].rpartition(":")[2], 16)
    return found


def sockets(root: Path, pid: int) -> list[str]:
    """Return the inodes of a process's sockets; none without the right to read them."""
    folder = root / f"proc/{pid}/fd"
    try:
        links = list(folder.iterdir())
    except OSError:
        return []
    found = []
    for link in links:
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            found.append(target[8:-1])
    return found


Finder = PidFile | Command | Environment | Port


def main_processes(root: Path, processes: Mapping[int, Process], finders: Iterable[Finder]) -> dict[int, str]:
    """Return the instance by main process, by the first finder that has it; without invalid ids.

    The main process is the first of a process and its children.
    """
    found: dict[int, str] = {}
    for finder in finders:
        for pid, name in finder.find(root, processes.values()):
            if pid in processes:
                found.setdefault(pid, name)
    return {pid: name for pid, name in found.items() if len(name) <= 253 and _ID.search(name)}
