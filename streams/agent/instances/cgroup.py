"""Control groups (version 2): reads and parses the files of one. The root is an argument, for tests."""

import os
from contextlib import suppress
from io import FileIO
from pathlib import Path

from streams.agent.instances.counters import NO_PROCESS, TORN, Counters

ROOTS = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
"""Where version 2 is mounted, below the file system's root: alone, or beside version 1."""


def find_root(root: Path) -> Path | None:
    """Return the path of control groups of version 2 below a file system's root; None without any."""
    return next((root / place for place in ROOTS if (root / place / "cgroup.controllers").is_file()), None)


def read_cgroup(path: Path) -> Counters:
    """Return the counters of one control group; a counter that is disabled or cannot be read is None.

    Raises FileNotFoundError when the group is gone.
    """
    files = ("cpu.stat", "memory.current", "memory.stat", "io.stat")
    used, current, stat, io = (_read(f"{path}/{name}") for name in files)
    if used is None and current is None and not path.is_dir():
        raise FileNotFoundError(f"{path} is gone")
    cpu = None if used is None else cpu_seconds(used)
    return Counters(
        cpu_s=None if cpu is None else {NO_PROCESS: cpu},
        memory=working_set(current, stat),
        io=None if io is None else io_bytes(io),
    )


def _text(path: str) -> str:
    """Return the text of a file by plain system calls: path objects and text layers cost a third of a reading."""
    with FileIO(path) as file:
        return file.readall().decode()


def _read(path: str) -> str | None:
    try:
        return _text(path)
    except (OSError, UnicodeDecodeError):
        return None


def cpu_seconds(text: str) -> float | None:
    r"""Return the CPU time of ``cpu.stat`` in seconds; None when it has none.

    >>> cpu_seconds("usage_usec 1500000\nuser_usec 1000000\n")
    1.5
    """
    used = _field(text, "usage_usec")
    return None if used is None else used / 1e6


def working_set(current: str | None, stat: str | None) -> float | None:
    r"""Return the bytes of ``memory.current`` less the inactive file cache, as the kubelet does.

    None without ``memory.current``, and where one is torn. The machine's own figure leaves out memory that the kernel
    can free, too.

    >>> working_set("4096\n", "anon 1024\ninactive_file 1000\n")
    3096.0
    """
    cached = _field(stat, "inactive_file") if stat else 0
    if current is None or cached is None or not current.endswith("\n") or not current.strip().isdecimal():
        return None
    return max(0.0, float(current) - cached)


def io_bytes(text: str) -> dict[str, int | None]:
    r"""Return the bytes read and written by device, from ``io.stat``; with `TORN` when the text ends within a word.

    Some kernels write a device without figures, and the next one on the same line: a figure belongs to the device
    before it. A device at the end of a text without an end of line gets None, since its figures may be cut off.

    >>> io_bytes("8:0 rbytes=4096 wbytes=512 rios=1 wios=1 dbytes=0 dios=0\n7:0 8:16 wbytes=1\n252:1 ")
    {'8:0': 4608, '8:16': 1, '252:1': None}
    """
    words = text.split()
    found: dict[str, int | None] = {}
    device, moved = "", 0
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            device, moved = word, 0
        elif name in ("rbytes", "wbytes") and value.isdecimal():
            moved += int(value)
            found[device] = moved
    if words and not text.endswith("\n"):
        found[device if text.endswith(" ") else TORN] = None
    return found


def pids(path: Path | str) -> list[int]:
    """Return the processes of a group itself, or of the first group below it that has any. Raises OSError.

    The listing contains the kinds of entries; calling stat for each of a group's 40 files took 1.5 ms a pod.
    """
    found = [int(pid) for pid in _text(f"{path}/cgroup.procs").split()]
    if found:
        return found
    with os.scandir(path) as entries:
        children = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    for child in children:
        with suppress(FileNotFoundError):
            if found := pids(f"{path}/{child}"):
                return found
    return []


def _field(text: str, name: str) -> int | None:
    for line in text.splitlines(keepends=True):  # a last line without an end may be torn
        key, _, value = line.partition(" ")
        if key == name and value.endswith("\n") and value.strip().isdecimal():
            return int(value)
    return None
