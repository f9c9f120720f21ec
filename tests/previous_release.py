"""The previous release, to run beside this one: its tree, and its processes.

release = previous_release()                  # a folder, made once a test run from this repository's history
with release.scorer(url, names) as process:   # its scorer
    answer = release.call(url, names, "place", id="a", cpu=1)     # its client: the result, or {"error": {...}}
release.python("print(1)")                    # any code of it, in its tree: what it printed
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from schemas.names import Names
from tests.conftest import stop

COMMIT = "c287f8d"
"""The last commit of the previous release."""
_ROOT = Path(__file__).parents[1]
_CALL = """
import json, sys
from scorer.client import Client, WindwardError
url, prefix, method, params = json.loads(sys.stdin.read())
with Client(url, prefix, timeout_s=20) as client:
    try:
        print(json.dumps(getattr(client, method)(**params)))
    except WindwardError as error:
        print(json.dumps({"error": {"code": error.code, "message": error.message}}))
"""


@dataclass(frozen=True)
class PreviousRelease:
    """Its tree; processes run by this interpreter with nothing of this release on their path."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment of its processes."""
        return {**os.environ, "PYTHONPATH": str(self.folder)}

    def python(self, code: str, given: str = "") -> str:
        """Run code in its tree; return what it printed. Raises CalledProcessError with what it said."""
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=self.folder, env=self.environ, input=given, text=True,
            capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def call(self, url: str, names: Names, method: str, **params: Any) -> Any:
        """Ask by its client; return the result, or the error as an object with code and message."""
        return json.loads(self.python(_CALL, json.dumps([url, names.prefix, method, params])))

    @contextmanager
    def scorer(
        self, url: str, names: Names, *options: str, log: IO[bytes] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run its scorer; end it afterwards."""
        arguments = ["--redis-url", url, "--prefix", names.prefix, "--log-level", "warning", *options]
        process = subprocess.Popen(
            [sys.executable, "-m", "scorer", *arguments], cwd=self.folder, env=self.environ, stderr=log
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                stop(process)


@cache
def previous_release() -> PreviousRelease:
    """Return the previous release, unpacked from this repository; fail when its commit is not in the clone."""
    folder = tempfile.TemporaryDirectory(prefix="windward-previous-")
    _kept.append(folder)
    archive = subprocess.run(["git", "archive", COMMIT], cwd=_ROOT, capture_output=True, check=False)
    if archive.returncode:
        raise AssertionError(
            f"commit {COMMIT}, the previous release, is not in this clone: these tests run it beside this one; "
            f"get the whole history (git fetch --unshallow). git: {archive.stderr.decode().strip()}"
        )
    subprocess.run(["tar", "-x", "-C", folder.name], input=archive.stdout, check=True)
    return PreviousRelease(Path(folder.name))


_kept: list[tempfile.TemporaryDirectory[str]] = []
"""Removed when the interpreter ends."""
