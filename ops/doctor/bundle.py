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
from functools import cache, partial
from http import HTTPStatus
from importlib.util import find_spec
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from schemas.messages.process import KINDS, Process
from schemas.process.http_calls import FAILED, HttpCalls
from schemas.values.read_json import read_json

_PAGE_S = 2.0
_PAGE_BYTES = 8 << 20
_LOG_BYTES = 64 << 10
_JOURNAL_LINES = 500
_JOURNAL_S = 10.0
_SECRET_NAME = re.compile(
    r"pass|pwd|secret|token|credential|private|auth|key|pin|otp|code|user|login|sess|cookie|sign|error|reason|message",
    re.IGNORECASE,
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
_COUNT = re.compile(
    r"((?:(?<![^(])|(?<=[a-z] ))[+-]?\d{1,7}(?:[.,]\d{1,3})*"
    r"(?:%? (?=[a-z])(?!(?:and|has|have|is|runs)\b)|[smhd]\b(?!-)))|\b\d\w*"
)
"""Of a text without others' words: a count between words of ours, or the start of any other number."""
_VERSION = re.compile(r"\d{1,4}(?:\.\d{1,4}){1,2}(?:(?:\.dev|\.post|rc|a|b)\d{1,4})?")
_LABELS = frozenset(("code", "kind", "le", "method", "partition", "plugin", "quantile", "resource", "stage", "window"))
"""The labels whose values are ours."""
_SERIES = re.compile(r"((?:windward|process|python)_[a-z0-9_]+)(?:\{(.*)\})? (-?[\d.e+-]+|NaN|[+-]Inf)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_PAIR = re.compile(r'(?:^|[ {])"?([a-z_]+)"?(?:=|: )("(?:[^"\\]|\\.)*"|[^\s,}]*)')
"""Of a line in logfmt or JSON."""
_HEAD = re.compile(r"at=\d{4}-[\dT:.Z-]+ level=[a-z]+ event=[a-z_]+(?:\.[a-z_]+)+")
HIDDEN = "***"
_NOT_OWN = "its address is not one of its own host: it was not asked\n"


@cache
def _own_words() -> frozenset[str]:
    """Return every word in the source of the modules that make findings."""
    sources = (find_spec(name).loader.get_source(name) for name in _SOURCES)  # type: ignore[union-attr]
    return frozenset(word for source in sources for word in _TOKEN.findall(source))


def own_words(text: str) -> str:
    """Return a text with only the words of doctor's source, and counts between them; the rest is hidden.

    >>> own_words("3 machines are silent: db-48151, 48151, evil, for 2m"), own_words("48151 runs, pin of 10.0.0.5:48")
    ('3 machines are silent: ***-***, ***, ***, for 2m', '*** runs, *** of ***.***.***.***:***')
    """
    said = _TOKEN.sub(lambda one: one[0] if one[0][0].isdecimal() or one[0] in _own_words() else HIDDEN, text)
    return _COUNT.sub(lambda one: one[1] or HIDDEN, said)


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
    for pairs in map(_PAIR.findall, log.splitlines()):
        head = " ".join(f"{name}={value}" for name, value in pairs[:3]).replace('"', "")
        numbers = [(name, value) for name, value in pairs[3:] if _NUMBER.fullmatch(value)]
        kept = "".join(f" {name}={value}" for name, value in numbers if not _SECRET_NAME.search(name))
        lines += [f"{head}{kept}\n"] * bool(_HEAD.fullmatch(head))
    return "".join(lines)


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
    known = numbered(processes).items()
    asked = {(name, page): one for name, one in known if one.page for page in ("metrics", "ready")}
    with ThreadPoolExecutor(max_workers=16) as pool:
        texts = pool.map(lambda of: _page(asked[of], of[1], names), asked)
        return {f"pages/{name}-{page}.txt": text for (name, page), text in zip(asked, texts, strict=True)}


def _page(one: Process, page: str, names: Container[str]) -> str:
    try:
        parts, its = urlsplit(one.page), own_addresses(one)
        if not its:
            return _NOT_OWN
        where, tls = parts.netloc.rpartition("@")[2], parts.scheme == "https"
        with contextlib.closing(HttpCalls(where, None, _PAGE_S, _PAGE_BYTES, tls)) as calls:
            calls.connection.connect()
            if ip_address(calls.connection.sock.getpeername()[0]) not in its:  # its name had another one by now
                return _NOT_OWN
            answer = calls.call("GET", f"/{page}")
        if answer.status not in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):  # no redirect is followed
            return f"not read: status {answer.status}\n"
        if page == "metrics":
            return series_of(answer.body.decode(errors="replace"))
        return as_json(numbers_of(read_json(answer.body), names))
    except (*FAILED, ValueError) as error:
        return f"not read: {type(error).__name__}\n"


def own_addresses(one: Process) -> set[IPv4Address | IPv6Address]:
    """Return the addresses of a process's pages; none where they are not http(s) of the host in its heartbeat."""
    parts = urlsplit(one.page)
    if parts.scheme not in ("http", "https") or not parts.hostname or not re.fullmatch(r"[\w.-]+", one.host):
        return set()
    its, local = _addresses(parts.hostname), one.host == socket.gethostname()
    known = set() if local and all(one.is_loopback for one in its) else its - _addresses(one.host)
    if known or any(one.is_link_local or one.is_multicast or (one.is_loopback and not local) for one in its):
        return set()
    return its


def _addresses(host: str) -> set[IPv4Address | IPv6Address]:
    return {ip_address(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}


def logs_of(folder: Path, run: Callable[..., Any] = subprocess.run) -> dict[str, str]:
    """Return the ends of the logs in a local stack's folder, and of the units' in the journal, by file name."""
    command = ["journalctl", "--unit=windward-*", f"--lines={_JOURNAL_LINES}", "--no-pager", "--output=short-iso"]
    reading = {"text": True, "errors": "replace", "timeout": _JOURNAL_S}
    reads: dict[str, Callable[[], str]] = {path.name: partial(_end_of, path) for path in sorted(folder.glob("*.log"))}
    reads["journal.txt"] = lambda: run(command, capture_output=True, check=False, **reading).stdout
    found = {}
    for name, read in reads.items():
        try:
            found[f"logs/{name}"] = events_of(read())
        except (OSError, subprocess.SubprocessError) as error:
            found[f"logs/{name}"] = f"not read: {type(error).__name__}\n"
    return found


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LOG_BYTES))
        return file.read().decode(errors="replace")


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
