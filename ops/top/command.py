"""``windward top``: the machines of highest load, the fleet's figures and the newest decisions, in a terminal."""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import redis

from ops.doctor.findings import muted, process_findings
from ops.top.view import Decision, Moment, TopSettings, as_json, chosen, frame, rows_of, spread_of
from schemas.messages.process import read_processes, running
from schemas.process.settings import SettingsError, load_settings
from schemas.process.tables import readable, screen
from schemas.values.numbers import counted
from schemas.values.read_json import partition_count, read_json
from scorer.client import UpdateResult, WindwardError
from scorer.cluster_wire import wire_to
from scorer.commands.instances.why import decided, move_words
from scorer.commands.shared import ask
from scorer.live.windows_reader import WindowsReader, asking
from scorer.snapshot.builder import build_snapshot
from scorer.wire import AWAY

DECISIONS = 50
_NEEDED = ("stream", "planner", "scorer")
"""The processes without which the shown data grow old."""


SETTINGS = TopSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    settings = load_settings(TopSettings, "top", argv, environ)
    if settings.once or not sys.stdout.isatty():
        return _once(settings)
    try:
        from ops.top.app import TopApp
    except ImportError:
        raise SettingsError("the live view is not installed: pip install 'windward[top]', or give --once") from None
    with Reader(settings) as reader:
        TopApp(lambda: readable(reader.read()), settings).run()
    return 0


def _once(settings: TopSettings) -> int:
    with Reader(settings) as reader:
        try:
            moment = reader.read()
        except (*AWAY, redis.ResponseError) as error:
            return ask.unreachable(settings.redis_url, error, "top", settings)
    rows = chosen(moment, settings.sort, reverse=settings.reverse, text=settings.filter)
    if settings.json:
        print(json.dumps(as_json(replace(moment, rows=rows[: settings.limit]))))  # noqa: T201
    else:
        moment, rows = readable((moment, rows))
        print(frame(moment, rows, screen(wide=settings.wide), machines=settings.limit, decisions=10))  # noqa: T201
    return 0


class Reader:
    """Reads the state of the fleet from Redis: window tables, decisions, the queue. It asks no scorer."""

    def __init__(self, settings: TopSettings) -> None:
        self._settings, self._names = settings, settings.names
        self._server = ask.server(settings)
        self._wire = wire_to(settings.windows_arguments())
        self._windows = WindowsReader(asking(self._wire, in_part=True), settings.names)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        self._wire.close()

    def read(self) -> Moment:
        """Return the present state; raises redis.RedisError when the server is away."""
        names, server, now_s = self._names, self._server, time.time()
        partitions = partition_count(server.get(names.partitions)) or 0
        self._windows.refresh(partitions)
        fleet = build_snapshot(self._windows.windows, {}, {})
        scorers, problem = self._processes()
        return Moment(
            now_s=now_s,
            windows_s=fleet.windows_s,
            rows=rows_of(fleet, now_s),
            std=spread_of(fleet),
            waiting=int(server.llen(names.queries)),
            scorers=scorers,
            decisions=self._decisions(),
            problem=problem or next(iter(self._windows.problems.values()), ""),
        )

    def _processes(self) -> tuple[int, str]:
        """Return how many scorers run, and what is at fault; nothing where the user may not read heartbeats."""
        try:
            seconds, micros = self._server.time()
            now_s = seconds + micros / 1e6
            fields: Any = {what: self._server.hgetall(self._names.processes(what)) for what in _NEEDED}
        except redis.ResponseError:
            return 0, ""
        known = {what: read_processes(fields[what]) for what in _NEEDED}
        found = [one for what in _NEEDED for one in process_findings(what, known[what], now_s)]
        wrong = [one for one in muted(found) if one.level in ("warning", "error")]
        first = min(wrong, key=lambda one: one.level != "error", default=None)
        return len(running(known["scorer"], now_s)), f"{first.area}: {first.found}" if first else ""

    def _decisions(self) -> list[Decision]:
        entries: Any = self._server.xrevrange(self._names.decisions, count=DECISIONS)
        return [
            Decision(int(stamp.split(b"-")[0]) / 1000, *_in_words(entry.get(b"method", b""), entry.get(b"answer", b"")))
            for stamp, entry in entries
        ]


def _in_words(raw_method: bytes, text: bytes) -> tuple[str, str]:
    """Return a decision, and the machines that were refused, in words."""
    try:
        method = raw_method.decode()
        answer = decided(method, read_json(text))
    except (msgspec.DecodeError, UnicodeDecodeError, WindwardError):
        return "a decision that cannot be read", ""
    if isinstance(answer, UpdateResult):
        return move_words(answer), ""
    placed, asked = answer.placed, answer.asked
    feasible, _, refused = answer.summary.partition(": ")
    if len(placed) == 1 == asked:
        return f"{placed[0].id} on {placed[0].machine}, {feasible}", refused
    if not placed:
        return f"no machine fits, {feasible}", refused
    machines = len({one.machine for one in placed})
    return (
        f"{len(placed)} of {asked} instances on {counted(machines, 'machine')}, {placed[0].id} and so on ({method})",
        "",
    )
