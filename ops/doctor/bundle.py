"""``windward doctor --bundle FILE``: what a person who helps needs, in one archive without secrets.

    report.txt        the findings, as the command prints them
    findings.json     the same for a program
    settings.json     the settings that doctor used, and the WINDWARD_ variables of its environment
    versions.json     Python, the system, the packages
    processes.json    the heartbeats of all processes that run
    health.json       the answer of each scorer
    redis.json        INFO of the servers of windows and ledger
    pages/            /metrics and /ready of each process
    logs/             the end of each log: of a local stack's folder, and of the units in the journal

All texts go through `without_secrets`. A part that cannot be had is its error, in its place.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import io
import json
import platform
import re
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from schemas.messages.process import Process

_PAGE_S = 2.0
_PAGE_BYTES = 8 << 20
_LOG_BYTES = 64 << 10
_JOURNAL_LINES = 500
_JOURNAL_S = 10.0
_SHORTEST = 4
"""A secret of fewer characters is not looked for: it would be found in other words."""
_SECRET_NAME = re.compile(r"pass|secret|token|credential|private", re.IGNORECASE)
_IN_URL = re.compile(r"(?<=://)[^/\s@\"']*@")
_NAMED = re.compile(
    r"""((?:requirepass\s|masterauth\s|(?:password|passwd|secret|token|credentials?)[\w-]*["']?\s*[:=])\s*)"""
    r"""(?!["']?(?:\(set\)|None\b|null\b))(?:"[^"]*"|'[^']*'|[^\s,;}"']+)""",
    re.IGNORECASE,
)
"""A word for a secret and its value, but for the words of `plain_settings`."""
HIDDEN = "***"


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """Return a text without these secrets, users and passwords in URLs, and what follows a word such as password.

    >>> print(without_secrets("redis://u:x@h/0 password=abc, 'token': 'd e', hush7", ["hush7"]))
    redis://***@h/0 password="***", 'token': "***", ***
    """
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return _NAMED.sub(rf'\1"{HIDDEN}"', _IN_URL.sub(f"{HIDDEN}@", text))


def secrets_of(settings: Any, environ: Mapping[str, str]) -> list[str]:
    """Return the secrets that this process knows: of its settings, and of variables named as secrets are."""
    own = [getattr(settings, field.name) for field in dataclasses.fields(settings) if field.metadata.get("secret")]
    own += [value for name, value in environ.items() if _SECRET_NAME.search(name)]
    return [one for one in own if one and len(one) >= _SHORTEST]


def plain_settings(settings: Any) -> dict[str, str]:
    """Return the settings by name; of a secret only whether it is set."""
    found = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        hidden = field.metadata.get("secret") and value is not None
        found[field.name] = "(set)" if hidden else str(value)
    return found


def plain_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return our variables; of one named as secrets are only whether it is set."""
    ours = {name: value for name, value in sorted(environ.items()) if name.startswith("WINDWARD_")}
    return {name: "(set)" if _SECRET_NAME.search(name) else value for name, value in ours.items()}


def versions() -> dict[str, str]:
    """Return the versions of Python, the system and the installed packages."""
    packages = {one.metadata["Name"]: one.version for one in importlib.metadata.distributions()}
    system = {"python": platform.python_version(), "system": platform.platform()}
    return system | dict(sorted(packages.items()))


def pages_of(processes: Mapping[str, Mapping[str, Process]]) -> dict[str, str]:
    """Return the pages of the processes by file name; a page that is not read is its error."""
    addresses = {
        f"pages/{kind}-{name}-{page}.txt": f"{one.page}/{page}"
        for kind, found in processes.items()
        for name, one in found.items()
        if one.page
        for page in ("metrics", "ready")
    }
    with ThreadPoolExecutor(max_workers=16) as pool:
        return dict(zip(addresses, pool.map(_page, addresses.values()), strict=True))


def _page(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=_PAGE_S) as answer:  # noqa: S310
            text: bytes = answer.read(_PAGE_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            text = f"{error}\n".encode() + error.read(_PAGE_BYTES)
    except (OSError, ValueError) as error:
        return f"{address}: {error}\n"
    return text.decode(errors="replace")


def logs_of(folder: Path, run: Callable[..., Any] = subprocess.run) -> dict[str, str]:
    """Return the ends of the logs in a local stack's folder, and of the units' in the journal, by file name."""
    found = {}
    for path in sorted(folder.glob("*.log")):
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _LOG_BYTES))
                found[f"logs/{path.name}"] = file.read().decode(errors="replace")
        except OSError as error:
            found[f"logs/{path.name}"] = f"{error}\n"
    command = ["journalctl", "--unit=windward-*", f"--lines={_JOURNAL_LINES}", "--no-pager", "--output=short-iso"]
    try:
        said = run(command, capture_output=True, text=True, errors="replace", timeout=_JOURNAL_S, check=False)
        found["logs/journal.txt"] = said.stdout + said.stderr
    except (OSError, subprocess.SubprocessError) as error:
        found["logs/journal.txt"] = f"{error}\n"
    return found


def as_json(value: Any) -> str:
    """Return a value as JSON for people; what JSON does not know as its text."""
    return json.dumps(value, indent=1, sort_keys=True, default=str) + "\n"


def write_bundle(path: Path, texts: Mapping[str, str], secrets: Sequence[str]) -> int:
    """Write texts by file name as an archive that only its owner may read; return its size in bytes. Raises OSError."""
    path.touch()
    path.chmod(0o600)
    with path.open("wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in texts.items():
            content = without_secrets(text, secrets).encode()
            entry = tarfile.TarInfo("windward-doctor/" + re.sub(r"[^\w./-]", "_", name))
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return path.stat().st_size
