"""An empty environment: a Python without any package, in which an installed wheel is tested."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


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

    def installed_bytes(self) -> int:
        """Return the size of the installed packages, with their compiled modules, bytes."""
        (packages,) = self.folder.glob("lib/python3*/site-packages")
        return sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())

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
