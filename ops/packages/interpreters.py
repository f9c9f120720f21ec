"""The supported Pythons on this machine: the oldest and the newest."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

OLDEST = (3, 11)
MINORS = range(OLDEST[1], 31)


def extremes(names: Iterable[str]) -> list[str]:
    """Return the oldest and the newest of some interpreters, by the version in their names; one if they are equal.

    >>> extremes(["/a/python3.9", "python3.14", "python3.12"])
    ['/a/python3.9', 'python3.14']
    >>> extremes(["python3.11"])
    ['python3.11']
    """
    ordered = sorted(names, key=lambda name: [int(part) for part in re.findall(r"\d+", Path(name).name)])
    return list(dict.fromkeys(ordered[:1] + ordered[-1:]))


def present() -> list[str]:
    """Return the supported interpreters on PATH that run; of pyenv also those that are not active."""
    names = [f"python{OLDEST[0]}.{minor}" for minor in MINORS]
    return [found for name in names for found in [next(filter(runs, candidates(name)), "")] if found]


def candidates(name: str) -> list[str]:
    """Return an interpreter's possible paths: on PATH, then under pyenv's folder when the one on PATH is its shim."""
    found = shutil.which(name)
    if found is None:
        return []
    return [found, *map(str, Path(found).parents[1].glob(f"versions/*/bin/{name}"))]


def runs(path: str) -> bool:
    """Return whether an interpreter starts and can make an environment."""
    return subprocess.run([path, "-c", "import venv"], capture_output=True, check=False).returncode == 0
