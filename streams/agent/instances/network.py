"""Traffic of an instance that has a network of its own: the interfaces that one of its processes sees.

Any user may read ``/proc/PID/net/dev``. Processes in one network see one file: the same inode. For an instance in the
machine's own network the file has the traffic of all processes, so its own is not known.
"""

from __future__ import annotations

from pathlib import Path


def own_network(root: Path, pid: int) -> tuple[int, int] | None:
    """Return bytes received and sent in the network of a process; None where that is the machine's.

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
    r"""Return bytes received and sent over all interfaces but the loopback.

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
