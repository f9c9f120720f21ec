"""The supported Pythons on this machine, and empty environments of them, in which an installed wheel is tested."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

OLDEST = (3, 11)
MINORS = range(OLDEST[1], 31)


class PackageError(RuntimeError):
    """A distribution failed its check; the message says which and how."""


class Environment:
    """A virtual environment of one Python in ``folder``; it has not even pip."""

    def __init__(self, python: str, folder: Path) -> None:
        self.folder = folder
        run([python, "-m", "venv", "--without-pip", str(folder)])

    def install(self, requirement: str, wheels: Path) -> None:
        """Install a distribution; those of this repository come from ``wheels``."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.folder / "bin/python"), "--quiet"]
        run([*pip, "--disable-pip-version-check", "install", "--find-links", str(wheels), requirement])

    def run(self, program: str, *arguments: str, code: int = 0) -> str:
        """Run a program of the environment away from any checkout; return what it printed.

        Raises PackageError when it ends with another exit code.
        """
        return run([str(self.folder / "bin" / program), *arguments], code=code, cwd=self.folder)


def run(command: list[str], *, code: int = 0, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> str:
    """Return all that a command printed; raise PackageError when it ends with another exit code."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WINDWARD"))}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=cwd, env=plain | dict(environ or {}), timeout=600
    )
    printed = done.stdout + done.stderr
    if done.returncode != code:
        raise PackageError(f"{' '.join(command)}: exit code {done.returncode}, not {code}\n{printed}")
    return printed


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
    """Return the supported interpreters on PATH that start, and pyenv's, also where they are not active."""
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
