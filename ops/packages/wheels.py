"""The files of wheels, and those that several wheels have."""

from __future__ import annotations

import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path


def modules(names: Iterable[str]) -> frozenset[str]:
    """Return the paths that a wheel installs: all but its own metadata.

    >>> sorted(modules(["a/b.py", "a-1.dist-info/RECORD", "a-1.data/data/share/man/man1/a.1"]))
    ['a/b.py', 'share/man/man1/a.1']
    """
    return frozenset(name.partition(".data/data/")[2] or name for name in names if ".dist-info/" not in name)


def read_modules(wheel: Path) -> frozenset[str]:
    """Return `modules` of a wheel on disk."""
    with zipfile.ZipFile(wheel) as whole:
        return modules(whole.namelist())


def held_twice(wheels: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return each file that several distributions have, with their names.

    >>> held_twice({"agent": ["a.py", "b.py"], "client": ["b.py"]})
    {'b.py': ['agent', 'client']}
    """
    holders: dict[str, list[str]] = defaultdict(list)
    for distribution, names in wheels.items():
        for name in names:
            holders[name].append(distribution)
    return {name: found for name, found in sorted(holders.items()) if len(found) > 1}


def size_bytes(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
