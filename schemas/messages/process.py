"""Heartbeats: every few seconds a process reports for ``windward doctor`` that it runs, where, since when."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from schemas.values.read_json import read_or

KINDS = ("stream", "scorer", "exporter", "record", "planner", "load-watcher", "pods", "extender", "evictor")
"""The processes that write heartbeats, as their commands are called; agents have no Redis."""

BEAT_S = 2.0
BEATS_MISSED = 4
SILENT_S = BEATS_MISSED * BEAT_S
"""A process without a heartbeat for so long does not run, or does nothing."""
REMEMBERED_S = 3600.0
"""How long a process that ended without saying so is remembered."""
LASTS_S_MAX = 1e10
CLOCK_OFF_S = 1.0
"""A clock that differs by more from the server's, or the broker's, counts as wrong."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """The heartbeat of a process: JSON in a field of the hash `schemas.names.Names.processes`, by process name.

    Times are by the clock of the server.
    """

    host: str
    pid: int
    version: str
    started: float
    at: float
    clock_ahead_s: float = 0.0
    """How far its host's clock is ahead of the server's."""
    page: str = ""
    """Address of its metrics and health pages; "" when it has none."""
    ready: bool = True
    details: dict[str, Any] = {}
    """The details of its page ``/ready``."""
    user: str = ""
    """Its user at Redis."""
    beat_s: float = 5.0
    """The interval of its heartbeats; the default applies to processes that do not state one."""

    @property
    def silent_s(self) -> float:
        """The time without a heartbeat after which a process counts as stopped."""
        return BEATS_MISSED * self.beat_s

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def read_processes(fields: Mapping[bytes, bytes]) -> dict[str, Process]:
    """Return the processes of one kind by name; unreadable entries are left out.

    >>> one = Process(host="h", pid=7, version="1", started=0.0, at=5.0)
    >>> read_processes({b"h-7": one.encode(), b"x": b"?"})["h-7"].pid
    7
    """
    found = {name.decode(errors="replace"): read_or(raw, Process, None) for name, raw in fields.items()}
    return {name: one for name, one in found.items() if one is not None}


def running(processes: Mapping[str, Process], now_s: float) -> dict[str, Process]:
    """Return the processes with a recent heartbeat.

    >>> new = Process(host="h", pid=7, version="1", started=0.0, at=90.0, beat_s=2.0)
    >>> old = Process(host="h", pid=8, version="1", started=0.0, at=90.0)
    >>> list(running({"new": new, "old": old}, 100.0))
    ['old']
    """
    return {name: one for name, one in processes.items() if now_s - one.at <= one.silent_s}


def missing(processes: Mapping[str, Process], now_s: float) -> dict[str, Process]:
    """Return the processes that fell silent within the last hour and that no other process replaced.

    A process replaces one of its kind on its host when it started after the other's last heartbeat, and only one.

    >>> old = Process(host="h", pid=7, version="1", started=0.0, at=50.0)
    >>> new = Process(host="h", pid=8, version="1", started=52.0, at=100.0)
    >>> list(missing({"h-7": old}, 100.0)), list(missing({"h-7": old, "h-8": new}, 100.0))
    (['h-7'], [])
    """
    live = sorted(running(processes, now_s).values(), key=lambda one: one.started)
    found = {}
    for name, one in sorted(processes.items(), key=lambda item: item[1].at):
        if not one.silent_s < now_s - one.at <= REMEMBERED_S:
            continue
        heir = next((new for new in live if new.host == one.host and new.started > one.at), None)
        if heir is None:
            found[name] = one
        else:
            live.remove(heir)
    return found


@dataclass(frozen=True)
class Pipeline:
    """The state of the pipeline from agents to windows, by stream worker; empty: unknown."""

    caught_up: tuple[tuple[float, float], ...] = ()
    """For each worker: since when it is ready and has read all messages, and its last heartbeat."""

    def is_up(self, now_s: float, for_s: float) -> bool:
        """Return whether all running workers have been ready and up to date for this long, without a break.

        >>> Pipeline(((0.0, 95.0), (30.0, 40.0))).is_up(100.0, 60.0), Pipeline(((50.0, 95.0),)).is_up(100.0, 60.0)
        (True, False)
        """
        live = [since for since, at in self.caught_up if now_s - at <= SILENT_S]
        return bool(live) and now_s - max(live) > for_s


def read_pipeline(fields: Mapping[bytes, bytes]) -> Pipeline:
    """Return the state of the pipeline from the workers' heartbeats.

    >>> odd = Process(host="h", pid=7, version="1", started=0.0, at=5.0, details={"caught_up_s": None})
    >>> read_pipeline({b"h-7": odd.encode().replace(b"null", b"9" * 400)}).caught_up
    ((5.0, 5.0),)
    """
    found = read_processes(fields).values()
    return Pipeline(tuple((one.at - _duration_s(one.details.get("caught_up_s")), one.at) for one in found))


def _duration_s(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value <= LASTS_S_MAX else 0.0


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """The field ``worker`` of the hash `schemas.names.Names.state`, JSON."""

    version: str
    name_taken: dict[str, tuple[str, float]] = {}
    """By machine whose name two live hosts use: the key of the refused one, and the record time of its last message."""

    clocks_off: dict[str, float] = {}
    """How far the clock of a machine is ahead of the broker's, s, where that is too much to correct."""

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def read_worker(raw: bytes | None) -> Worker | None:
    """Return the data that the last worker wrote; None when there are none, or they cannot be read.

    >>> read_worker(Worker(version="0.2.0").encode()).version, read_worker(None)
    ('0.2.0', None)
    """
    return read_or(raw, Worker, None)
