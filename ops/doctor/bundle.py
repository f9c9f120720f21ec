"""``windward doctor --bundle FILE``: the data that support needs, in one archive without secrets.

    report.txt        the findings: the words of doctor's own source, and numbers
    findings.json     the same for a program
    settings.json     numbers and switches; of any other setting, and of each WINDWARD_ variable, only whether it is set
    versions.json     Python, the system, the packages
    processes.json    the heartbeats of all processes that run: times, versions, numbers
    health.json       the answer of each scorer: its numbers
    redis.json        INFO of the servers of windows and ledger: its numbers
    pages/            /metrics and /ready of each process: numbers, and the labels of `_LABELS`
    logs/             the end of each log, of a local stack's folder and of the journal: event names and numbers

Only data that are allowed by name leave. Looking for secrets was rejected: it kept those that are percent-coded, in
JSON, or unknown to this process. Processes are numbered, for their names are texts of others, too. A page is read by
http(s) from the host of its heartbeat alone: each process's Redis user may write any address into its heartbeat.
"""

import contextlib
import dataclasses
import importlib.metadata
import io
import json
import platform
import re
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.util import find_spec
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from types import CodeType
from typing import Any
from urllib.parse import urlsplit

from schemas.messages.process import KINDS, Process
from schemas.process.connections import answer_whole

_PAGE_S = 2.0
_PAGE_BYTES = 8 << 20
_LOG_BYTES = 64 << 10
_JOURNAL_LINES = 500
_JOURNAL_S = 10.0
_SECRET_NAME = re.compile(
    r"pass|secret|token|credential|private|auth|key|pin|code|user|error|reason|message", re.IGNORECASE
)
"""Of a value in a log: it may be a secret of digits, or a text of another."""
_SOURCES = (
    "ops.doctor.command",
    "ops.doctor.findings",
    "schemas.values.numbers",
    "schemas.values.redis_settings",
    "streams.worker.topics",
)
"""The modules whose words a finding may show."""
_TOKEN = re.compile(r"\w+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?:[smhdkMG]|ms|kB|MB|GB)?")
_SHORT = re.compile(r"\d{1,7}(?:e\d+)?(?:[smhdkMG]|ms|kB|MB|GB)?")
_VERSION = re.compile(r"\d+(?:\.\d+){1,3}(?:(?:\.dev|\.post|rc|a|b)\d+)?")
_LABELS = frozenset(("code", "kind", "le", "method", "partition", "plugin", "quantile", "resource", "stage", "window"))
"""The labels whose values are ours."""
_SERIES = re.compile(r"((?:windward|process|python)_[a-z0-9_]+)(?:\{(.*)\})? (-?[\d.e+-]+|NaN|[+-]Inf)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"(?:^|: )at=(\d{4}-[\dT:.Z-]+) level=([a-z]+) event=([a-z_]+(?:\.[a-z_]+)+)(?= |$)(.*)")
_PAIR = re.compile(r' ([a-z_]+)=("(?:[^"\\]|\\.)*"|\S*)')
HIDDEN = "***"


@cache
def _own_words() -> frozenset[str]:
    """Return every word of the texts in the modules that make findings."""
    found: set[str] = set()
    waiting: list[Any] = [find_spec(name).loader.get_code(name) for name in _SOURCES]  # type: ignore[union-attr]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.update(_TOKEN.findall(one))
        elif isinstance(one, CodeType):
            waiting += one.co_consts
        elif isinstance(one, tuple | frozenset):
            waiting += one
    return frozenset(found)


def own_words(text: str) -> str:
    """Return a text with only numbers of up to seven digits and the words of doctor's source; the rest is hidden.

    >>> own_words("3 machines are silent: db-hush7, evil")
    '3 machines are silent: ***-***, ***'
    """
    return _TOKEN.sub(lambda one: one[0] if one[0] in _own_words() or _SHORT.fullmatch(one[0]) else HIDDEN, text)


def numbers_of(value: Any, names: Container[str]) -> Any:
    """Return the numbers, switches and versions of a value, those with known names; None for any other value.

    >>> numbers_of({"machines": 3, "error": "hush", "hush": 1, "version": "1.2.0"}, ("machines", "error", "version"))
    {'machines': 3, 'version': '1.2.0'}
    """
    if isinstance(value, dict):
        kept = {name: numbers_of(one, names) for name, one in value.items() if name in names}
        return {name: one for name, one in kept.items() if one is not None}
    if isinstance(value, str):
        return value if _VERSION.fullmatch(value) else None
    return value if isinstance(value, bool | int | float) else None


def series_of(page: str) -> str:
    r"""Return the series of a page of metrics, without labels whose values others set.

    >>> print(series_of('windward_a_total{machine="m",kind="x"} 1.0\nhush'), end="")
    windward_a_total{kind="x"} 1.0
    """
    lines = []
    for name, labels, value in (found.groups() for found in map(_SERIES.fullmatch, page.splitlines()) if found):
        kept = ",".join(f'{label}="{one}"' for label, one in _LABEL.findall(labels or "") if label in _LABELS)
        lines.append(f"{name}{{{kept}}} {value}\n" if kept else f"{name} {value}\n")
    return "".join(lines)


def events_of(log: str) -> str:
    """Return the time, level, event and numbers of each line of a log; other lines are left out.

    >>> print(events_of('at=2026-01-01T00:00:00.000Z level=info event=a.b why="hush x=1" n=2'), end="")
    at=2026-01-01T00:00:00.000Z level=info event=a.b n=2
    """
    lines = []
    for found in filter(None, map(_LINE.search, map(_as_logfmt, log.splitlines()))):
        at, level, event, rest = found.groups()
        pairs = [(name, value) for name, value in _PAIR.findall(rest) if _NUMBER.fullmatch(value)]
        kept = "".join(f" {name}={value}" for name, value in pairs if not _SECRET_NAME.search(name))
        lines.append(f"at={at} level={level} event={event}{kept}\n")
    return "".join(lines)


def _as_logfmt(line: str) -> str:
    try:
        return " ".join(
            f"{name}={json.dumps(value)}" if name not in ("at", "level", "event") else f"{name}={value}"
            for name, value in json.loads(line[line.index("{") :]).items()
        )
    except (ValueError, AttributeError, RecursionError):
        return line


def plain_settings(settings: Any) -> dict[str, Any]:
    """Return the settings by name: numbers and switches; for other settings only whether they are set."""
    found = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        shown = value is None or (isinstance(value, bool | int | float) and not field.metadata.get("secret"))
        found[field.name] = value if shown else "(default)" if value == field.default else "(set)"
    return found


def plain_environ(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: "(set)" for name in sorted(environ) if re.fullmatch(r"WINDWARD_[A-Z_]+", name)}


def versions() -> dict[str, str]:
    """Return the versions of Python, the system and the installed packages."""
    packages = {one.metadata["Name"]: one.version for one in importlib.metadata.distributions()}
    system = {"python": platform.python_version(), "system": platform.platform()}
    return system | dict(sorted(packages.items()))


def numbered(processes: Mapping[str, Mapping[str, Process]]) -> dict[str, Process]:
    """Return the processes by kind and number: ``scorer-1``."""
    return {
        f"{kind}-{number}": one
        for kind in KINDS
        for number, (_, one) in enumerate(sorted(processes.get(kind, {}).items()), 1)
    }


def pages_of(processes: Mapping[str, Mapping[str, Process]], names: Container[str]) -> dict[str, str]:
    """Return the pages of the processes by file name; for an unread page the reason."""
    asked = [
        (name, one, page) for name, one in numbered(processes).items() if one.page for page in ("metrics", "ready")
    ]
    with ThreadPoolExecutor(max_workers=16) as pool:
        texts = list(pool.map(lambda one: _page(one[1], one[2], names), asked))
    return {f"pages/{name}-{page}.txt": text for (name, _, page), text in zip(asked, texts, strict=True)}


def _page(one: Process, page: str, names: Container[str]) -> str:
    try:
        base = own_page(one)
        if base is None:
            return "its address is not one of its own host: it was not asked\n"
        status, text = _get(base, page)
    except (OSError, ValueError, HTTPException) as error:
        return f"not read: {type(error).__name__}\n"
    if status not in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
        return f"not read: status {status}\n"
    if page == "metrics":
        return series_of(text)
    try:
        return as_json(numbers_of(json.loads(text), names))
    except (ValueError, RecursionError):
        return "not read: no JSON\n"


def _get(base: str, page: str) -> tuple[int, str]:
    """Return status and text of a page; no redirect is followed. A page that is not whole in time is an error."""
    parts, until_s = urlsplit(base), time.monotonic() + _PAGE_S
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    with contextlib.closing(kind(parts.hostname or "", parts.port, timeout=_PAGE_S)) as connection:
        answer_whole(connection, lambda: until_s)
        connection.request("GET", f"/{page}")
        answer = connection.getresponse()
        return answer.status, answer.read(_PAGE_BYTES).decode(errors="replace")


def own_page(one: Process) -> str | None:
    """Return the address of a process's pages; None where it is not http(s) of the host in its heartbeat."""
    parts = urlsplit(one.page)
    if parts.scheme not in ("http", "https") or not parts.hostname or not re.fullmatch(r"[\w.-]+", one.host):
        return None
    its, local = _addresses(parts.hostname), one.host == socket.gethostname()
    known = set() if local and all(one.is_loopback for one in its) else its - _addresses(one.host)
    if known or any(one.is_link_local or one.is_multicast or (one.is_loopback and not local) for one in its):
        return None
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _addresses(host: str) -> set[IPv4Address | IPv6Address]:
    return {ip_address(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}


def logs_of(folder: Path, run: Callable[..., Any] = subprocess.run) -> dict[str, str]:
    """Return the ends of the logs in a local stack's folder, and of the units' in the journal, by file name."""
    found = {}
    for path in sorted(folder.glob("*.log")):
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - _LOG_BYTES))
                found[f"logs/{path.name}"] = events_of(file.read().decode(errors="replace"))
        except OSError as error:
            found[f"logs/{path.name}"] = f"not read: {type(error).__name__}\n"
    command = ["journalctl", "--unit=windward-*", f"--lines={_JOURNAL_LINES}", "--no-pager", "--output=short-iso"]
    try:
        said = run(command, capture_output=True, text=True, errors="replace", timeout=_JOURNAL_S, check=False)
        found["logs/journal.txt"] = events_of(said.stdout)
    except (OSError, subprocess.SubprocessError) as error:
        found["logs/journal.txt"] = f"not read: {type(error).__name__}\n"
    return found


def as_json(value: Any) -> str:
    """Return a value as indented JSON; types that JSON lacks become text."""
    return json.dumps(value, indent=1, sort_keys=True, default=str) + "\n"


def write_bundle(path: Path, texts: Mapping[str, str]) -> int:
    """Write texts by file name as an archive that only its owner may read; return its size in bytes. Raises OSError."""
    path.touch()
    path.chmod(0o600)
    with path.open("wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in texts.items():
            content = text.encode()
            entry = tarfile.TarInfo("windward-doctor/" + re.sub(r"[^\w./-]|\.\.", "_", name))
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return path.stat().st_size
