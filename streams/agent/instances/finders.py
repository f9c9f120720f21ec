"""Finds the main processes of instances, by pid file or command line."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.messages.sample import INSTANCE_ID_PATTERN
from streams.agent.instances.processes import Process

_ID = re.compile(INSTANCE_ID_PATTERN)


@dataclass(frozen=True)
class PidFile:
    """``ID=PATH``, or a path in which ``*`` stands for the id."""

    path: str
    instance_id: str = ""

    def find(self, root: Path) -> Iterator[tuple[int, str]]:
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


def main_processes(
    root: Path,
    processes: Iterable[Process],
    pid_files: Sequence[PidFile],
    commands: Sequence[re.Pattern[str]],
) -> dict[int, str]:
    """Return the instance by main process: pid files first, then the expressions in order, without invalid ids.

    An expression is of the command line, its words joined by spaces; its group 1 is the id. The main process is the
    first of a process and its children.
    """
    found: dict[int, str] = {}
    lines = {process.pid: _command_line(root, process) for process in processes}
    for pid_file in pid_files:
        found |= {pid: name for pid, name in pid_file.find(root) if pid in lines}
    for pattern in commands:
        for pid, line in lines.items():
            if line and (match := pattern.search(line)):
                found.setdefault(pid, match[1])
    return {pid: name for pid, name in found.items() if len(name) <= 253 and _ID.search(name)}


def _command_line(root: Path, process: Process) -> str:
    """Return the words of the process's command line; empty where it is gone."""
    try:
        raw = (root / f"proc/{process.pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()
