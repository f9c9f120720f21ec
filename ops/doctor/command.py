"""``windward doctor``: checks every part of a Windward, and says what is wrong and what to do."""

import dataclasses
import json
import math
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec
import redis
from kafka.errors import KafkaError
from redis.backoff import NoBackoff
from redis.retry import Retry

from ops.doctor import findings as rules
from ops.doctor.bundle import (
    as_json,
    logs_of,
    numbered,
    numbers_of,
    own_words,
    pages_of,
    plain_environ,
    plain_settings,
    versions,
    write_bundle,
)
from ops.doctor.findings import Attempt, Finding
from schemas.messages.operator import DEFAULT
from schemas.messages.process import KINDS, SILENT_S, Process, missing, read_processes, read_worker, running
from schemas.messages.sample import MachineFacts
from schemas.names import Names
from schemas.process.connections import KafkaSettings
from schemas.process.redis_cluster import SLOTS
from schemas.process.redis_url import connected, in_words
from schemas.process.settings import load_settings, setting
from schemas.process.tables import readable, screen
from schemas.process.version import product_version
from schemas.resources import RESOURCES
from schemas.tables.window_table import aligned
from schemas.values.numbers import counted
from schemas.values.read_json import by_name, partition_count, read_or
from schemas.values.redis_settings import wrong_settings
from scorer.client import Client, HealthResult, WindwardError
from scorer.client.call import refused_by
from scorer.cluster_wire import ClusterWire, wire_to
from scorer.commands.shared import ask
from scorer.live.windows_reader import asking, read_windows
from scorer.settings import ClientSettings, LedgerSettings
from scorer.wire import AWAY
from streams.worker.topics import check_topics


@dataclass(frozen=True, kw_only=True)
class DoctorSettings(KafkaSettings, ClientSettings, LedgerSettings):
    """Check Kafka, Redis, rights, clocks, agents, machines, scorers and versions; say what is wrong and what to do.

    It changes nothing. Exit code 1 when there is a warning or an error, 0 otherwise.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward doctor",
        "windward doctor --no-broker --json                # for a program, on a host that cannot reach Kafka",
        "windward doctor --bundle windward.tar.gz          # for the person who helps you",
    )

    broker: bool = setting(True, "check the topics' settings at the broker")
    bundle: Path | None = setting(
        None, "write findings, settings without secrets, health, metrics, last log lines and versions to this archive"
    )
    log_dir: Path = setting(Path(".windward"), "folder whose logs go into the bundle, beside those of the journal")

    def __post_init__(self) -> None:
        KafkaSettings.__post_init__(self)
        LedgerSettings.__post_init__(self)


CONNECT_S = 2.0
ANSWER_S_MAX = 2.5
"""The longest wait for one answer: a frozen process must not keep the report for longer than 10 s in all."""
BROKER_S_MAX = 7.0
_MARKS = {"good": "ok", "note": "note", "warning": "WARNING", "error": "ERROR"}
SETTINGS = DoctorSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the checks, print the findings, and return 1 when something is wrong."""
    settings = load_settings(DoctorSettings, "doctor", argv, environ)
    inspection = Inspection(settings)
    found = inspection.findings()
    wrong = [one for one in found if one.level in ("warning", "error")]
    if settings.json:
        print(json.dumps({"good": not wrong, "findings": [dataclasses.asdict(one) for one in found]}))  # noqa: T201
    else:
        print(report(found, screen(wide=settings.wide).width))  # noqa: T201
    if settings.bundle is not None:
        try:
            size = write_bundle(settings.bundle, inspection.texts(found, environ))
        except OSError as error:
            print(f"windward doctor: bundle: {error}", file=sys.stderr)  # noqa: T201
            return 1
        said = f"{settings.bundle}: {size / 1e3:,.0f} kB without secrets; look through it before you send it"
        print(said, file=sys.stderr)  # noqa: T201
    return 1 if wrong else 0


def report(found: list[Finding], width: int | None) -> str:
    """Return the findings for people: one line each, what to do below it."""
    found, lines = readable(found), list[str]()
    areas, marks = max(len(one.area) for one in found), max(map(len, _MARKS.values()))
    for one in found:
        head = f"{_MARKS[one.level]:{marks}}  {one.area:{areas}}  "
        lines += _wrapped(head, one.found, width)
        if one.do:
            lines += _wrapped(" " * len(head) + "-> ", one.do, width)
    counts = Counter(one.level for one in found)
    return "\n".join([*lines, "", ", ".join(counted(counts[kind], kind) for kind in ("error", "warning", "note"))])


def _wrapped(head: str, text: str, width: int | None) -> list[str]:
    if width is None:
        return [head + text]
    indent = " " * len(head)
    return textwrap.wrap(
        text, max(width, len(head) + 20), initial_indent=head, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


class Inspection:
    """Collects the values for the rules of `ops.doctor.findings`; a part that cannot be reached is a finding."""

    def __init__(self, settings: DoctorSettings) -> None:
        self._settings = settings
        self._answer_s = min(settings.timeout, ANSWER_S_MAX)
        self._names: Names = settings.names
        self._replicas: int | None = None
        self._epoch = ""
        self._versions: dict[str, list[str]] = {"this command": [product_version()]}
        self.processes: dict[str, dict[str, Process]] = {}
        """By kind and name, as their heartbeats say; those that run."""
        self.health: dict[str, HealthResult] = {}
        """The answers of the scorers, by name."""
        self.redis_info: dict[str, Any] = {}
        """By area, the server's INFO."""
        self._scorer_error: WindwardError | None = None
        self._scorer_lost = False
        """Whether the heartbeats name a scorer that does not run, and none that does."""

    def texts(self, found: list[Finding], environ: Mapping[str, str]) -> dict[str, str]:
        """Return the files of a bundle by name, after `findings`."""
        settings = {"settings": plain_settings(self._settings), "environment": plain_environ(environ)}
        said = [Finding(own_words(one.area), one.level, own_words(one.found), own_words(one.do)) for one in found]
        names = {*HealthResult.__struct_fields__, *Process.__struct_fields__} - {"page", "host"}
        processes = numbered(self.processes)
        health = [self.health[name] for name in sorted(self.health)]
        redis_info = {  # without the counters of errors, whose names scripts can choose
            own_words(area): numbers_of(info, {"keys", "expires", *(n for n in info if not n.startswith("errorstat_"))})
            for area, info in self.redis_info.items()
        }
        return {
            "report.txt": report(said, None) + "\n",
            "findings.json": as_json([dataclasses.asdict(one) for one in said]),
            "settings.json": as_json(settings),
            "versions.json": as_json(versions()),
            "processes.json": as_json({k: numbers_of(msgspec.to_builtins(one), names) for k, one in processes.items()}),
            "health.json": as_json([numbers_of(msgspec.to_builtins(one), names) for one in health]),
            "redis.json": as_json(redis_info),
            **pages_of(self.processes, names),
            **logs_of(self._settings.log_dir),
        }

    def findings(self) -> list[Finding]:
        """Run all checks, the broker's beside those of Redis."""
        of_broker: list[Finding] = []
        asking = threading.Thread(target=lambda: of_broker.extend(self._broker()), daemon=True)
        if not self._settings.broker:
            return rules.muted(self._of_redis())
        asking.start()
        until = time.monotonic() + BROKER_S_MAX
        found = self._of_redis()
        asking.join(max(0.0, until - time.monotonic()))
        if not of_broker:
            said = f"{self._settings.kafka}: no answer for {BROKER_S_MAX:g} s"
            of_broker = [Finding("Kafka", "error", said, "look at the broker: it is frozen or overloaded")]
        return rules.muted(of_broker + found)

    def _of_redis(self) -> list[Finding]:
        found: list[Finding] = []
        with self._connect(self._settings.redis_arguments()) as server:
            try:
                server.ping()
            except redis.RedisError as error:
                return [_of_server("Redis", self._settings.redis_url, error, "--redis-url")]
            for look in (self._servers, self._running, self._machines, self._scorers):
                try:
                    found += look(server)
                except redis.exceptions.NoPermissionError as error:
                    said = f"{look.__name__.strip('_')} cannot be checked: {error}"
                    do = "ask as a user with the rights of ops/redis/doctor.acl"
                    found.append(Finding("ACL", "note", said, do))
                except (redis.RedisError, *AWAY) as error:
                    found.append(Finding("Redis", "error", in_words(error), "read its log"))
        return found + rules.version_findings(self._versions)

    def _connect(self, arguments: dict[str, Any]) -> redis.Redis:
        limits: dict[str, Any] = {"socket_connect_timeout": CONNECT_S, "socket_timeout": self._answer_s}
        found: redis.Redis = connected(redis.Redis, **arguments, **limits, retry=Retry(NoBackoff(), 0))
        return found

    def _broker(self) -> list[Finding]:
        import logging

        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        logging.getLogger("windward").setLevel(logging.CRITICAL)
        area, where = "Kafka", self._settings.kafka
        try:
            problems = check_topics(self._settings)
        except (KafkaError, OSError) as error:
            said = str(error) or type(error).__name__
            return [Finding(area, "error", f"{where}: {said}", "start the broker, give --kafka, or --no-broker")]
        if not problems:
            return [Finding(area, "good", f"{where}: the topics' settings are right")]
        return _warnings(area, problems, "see docs/runbook.md")

    def _servers(self, server: redis.Redis) -> list[Finding]:
        settings = self._settings
        found = self._server("Redis", server, holds_ledger=not settings.ledger_url)
        if settings.ledger_url:
            found += self._server_apart("ledger's Redis", settings.ledger_arguments(), holds_ledger=True)
        if settings.windows_url:
            found += self._of_windows(settings.windows_arguments())
        return found

    def _of_windows(self, arguments: dict[str, Any]) -> list[Finding]:
        """Return the findings on the server of the windows, or on the nodes of a Cluster."""
        area = "windows' Redis"
        wire = wire_to(arguments)
        if not isinstance(wire, ClusterWire):
            return self._server_apart(area, arguments)
        with closing(wire):
            try:
                urls, uncovered = wire.urls, wire.uncovered
            except AWAY as error:
                return [_of_server(area, arguments["url"], error, "--windows-url")]
        found = [
            finding
            for url in urls
            for finding in self._server_apart(f"{area} {urlsplit(url).netloc}", {**arguments, "url": url})
        ]
        if uncovered:
            said = f"no node has {uncovered:,} of {SLOTS:,} slots: windows of these partitions stand still"
            found.append(Finding(area, "error", said, "give the slots to a node: see docs/deploying.md"))
        return found

    def _server_apart(self, area: str, arguments: dict[str, Any], *, holds_ledger: bool = False) -> list[Finding]:
        """Return the findings on the server of the ledger, or on one of the windows."""
        with self._connect(arguments) as server:
            try:
                return self._server(area, server, holds_ledger=holds_ledger)
            except redis.RedisError as error:
                flag = "--ledger-url" if holds_ledger else "--windows-url"
                return [_of_server(area, arguments["url"], error, flag)]

    def _server(self, area: str, server: redis.Redis, *, holds_ledger: bool) -> list[Finding]:
        info: Any = server.info()
        self.redis_info[area] = info
        if holds_ledger:
            self._replicas = info.get("connected_slaves")
            with suppress(redis.ResponseError):  # another type, or a user that may not read it: it is not known
                epoch: Any = server.hget(self._names.ledger("head"), "epoch")
                self._epoch = (epoch or b"").decode(errors="replace")
        wrong = _warnings(area, wrong_settings(info))
        where = server.get_connection_kwargs()
        local = "path" in where or where.get("host") in ("127.0.0.1", "localhost", "::1")
        found = rules.redis_findings(
            area, info, holds_ledger=holds_ledger, open_to_all=_open_to_all(server), local=local
        )
        return wrong + [one for one in found if not (wrong and one.level == "good")]

    def _running(self, server: redis.Redis) -> list[Finding]:
        """Return the findings on each kind of process, from the heartbeats."""
        now_s = float(server.time()[0])
        refused, known_users = _refused_logins(server), set[str]()
        found: list[Finding] = []
        for what in KINDS:
            fields: Any = server.hgetall(self._names.processes(what))
            known = read_processes(fields)
            self.processes[what] = running(known, now_s)
            told = rules.process_findings(what, known, now_s, refused)
            known_users |= {one.user or "default" for one in known.values()}
            if what == "scorer":
                self._scorer_lost = bool(told) and not self.processes[what]
            if what == "planner" and not missing(known, now_s):
                wrong = rules.planner_findings(self.processes["scorer"], self.processes[what])
                told = wrong + [one for one in told if not wrong or one.level != "good"]
            found += told
            if versions := [one.version for one in self.processes[what].values()]:
                self._versions[what] = versions
        return found + rules.login_findings(refused, known_users)

    def _machines(self, server: redis.Redis) -> list[Finding]:
        before = time.time()
        seconds, micros = server.time()
        offset_s = (before + time.time()) / 2 - (int(seconds) + int(micros) / 1e6)
        partitions = partition_count(server.get(self._names.partitions)) or 0
        found: list[Finding] = []
        ages: dict[str, float] = {}
        skews: dict[str, float] = {}
        cores: dict[str, float] = {}
        with closing(wire_to(self._settings.windows_arguments())) as windows:
            reader = read_windows(windows, self._names, partitions)
            numbers, read = range(partitions), asking(windows)
            facts = read([("HGETALL", self._names.facts(partition)) for partition in numbers])
            states = read([("HMGET", self._names.state(partition), "worker") for partition in numbers])
        for partition, problem in reader.problems.items():
            remedy = "the stream app rebuilds it: is it running?"
            found.append(Finding("windows", "error", f"partition {partition}: {problem}", remedy, "stream"))
        tables = [windows.whole() for windows in reader.windows]
        now_s = int(seconds)
        for table in tables:
            at, skew, capacity = aligned(table, "at"), aligned(table, "skew"), aligned(table, "capacity")
            for row, name in enumerate(table.machines):
                skews[name] = float(skew[row]) if skew is not None else 0.0
                cores[name] = float(capacity[RESOURCES.index("cpu"), row]) if capacity is not None else math.nan
                ages[name] = now_s - float(at[row]) + skews[name] if at is not None else 0.0
        said = {name: raw for flat in facts for name, raw in by_name(flat).items()}
        agents = {name: one for name, raw in said.items() if (one := read_or(raw, MachineFacts, None))}
        if versions := [one.agent_version for one in agents.values() if one.agent_version[:1].isdigit()]:
            self._versions["agents"] = versions
        workers = [worker for (stored,) in states if (worker := read_worker(stored)) is not None]
        taken = {name for worker in workers for name in worker.name_taken}
        clocks_off = {name: off for worker in workers for name, off in worker.clocks_off.items()}
        entries: Any = server.hkeys(self._names.operator)
        said_of = [name.decode(errors="replace") for name in entries]
        placed = self._placed_on()
        silent = set(said) - set(ages)
        found += rules.machine_findings(ages, silent, set(said_of) - {DEFAULT}, placed)
        found += rules.capacity_findings(cores)
        found += rules.lack_findings({name: one.lacks for name, one in agents.items() if name in ages})
        found += rules.interface_findings({name: one.interfaces for name, one in agents.items() if name in ages})
        found += rules.name_findings(taken, {name: one.host_id for name, one in agents.items()}, ages, placed)
        return found + rules.clock_findings(offset_s, skews | clocks_off)

    def _placed_on(self) -> Mapping[str, int]:
        try:
            with self._client() as client:
                return Counter(row.machine for row in ask.every_instance(client))
        except WindwardError as error:
            self._scorer_error = error  # `_scorers` reports it, and asks no more
            return {}

    def _scorers(self, server: redis.Redis) -> list[Finding]:
        waiting = int(server.llen(self._names.queries))
        scorers = len(self.processes.get("scorer", ())) or 1
        answers = self.health
        try:
            if self._scorer_error is not None:
                raise self._scorer_error
            with self._client() as client:
                for _ in range(min(100, 4 * scorers) or 1):  # whichever scorer is free answers
                    answer = client.health()
                    answers[answer.scorer] = answer
                    if len(answers) >= scorers:
                        break
                broken: list[Finding] = []
                if self.processes.get("planner"):
                    with suppress(WindwardError):  # a planner tells them, or cannot
                        broken = rules.rule_findings(client.instances(violations=True, limit=1).violations)
        except WindwardError as error:
            denied = error.code in ("PERMISSION_DENIED", "UNAUTHENTICATED")
            do = "ask as a user with the rights of ops/redis/doctor.acl" if denied else "start `windward scorer`"
            return [Finding("scorer", "error", error.message, do)] if denied or not self._scorer_lost else []
        replicated = rules.replication_findings(
            self._replicas, min(one.ledger_acknowledged_by for one in answers.values())
        )
        apart = rules.ledger_findings({name: one.ledger_epoch for name, one in answers.items()}, self._epoch)
        return rules.scorer_findings(next(iter(answers.values())), scorers, waiting) + broken + apart + replicated

    def _client(self) -> Client:
        settings = self._settings
        return Client(prefix=settings.prefix, timeout_s=self._answer_s, **settings.redis_arguments())


def _warnings(area: str, problems: Iterable[str], otherwise: str = "") -> list[Finding]:
    """Return a finding for each problem; the part after the last semicolon becomes its advice."""
    parts = (problem.rpartition(";") for problem in problems)
    return [Finding(area, "warning", what, do.strip() or otherwise) for what, _, do in parts]


def _open_to_all(server: redis.Redis) -> bool | None:
    """Return whether the default user is on and has no password; None when this user may not read it."""
    try:
        flags: Any = server.acl_getuser("default")
    except redis.RedisError:
        return None
    return "on" in flags["flags"] and "nopass" in flags["flags"]


def _of_server(area: str, url: str, error: Exception, flag: str) -> Finding:
    """Return the finding of a server that does not answer, or that refuses this command."""
    code, do = refused_by(url, Exception(in_words(error))).code, f"start it, or give {flag}"
    if code == "UNAUTHENTICATED":
        do = "it runs and refuses this password: give WINDWARD_REDIS_USERNAME and WINDWARD_REDIS_PASSWORD_FILE"
    elif code == "PERMISSION_DENIED":
        do = "ask as a user with the rights of ops/redis/doctor.acl"
    return Finding(area, "error", f"{url}: {in_words(error)}", do)


def _refused_logins(server: redis.Redis) -> dict[str, Attempt]:
    """Return the users whose password was refused within `SILENT_S`, from the server's log if that is readable."""
    try:
        log: Any = server.acl_log()
    except redis.ResponseError:
        return {}
    return {
        one["username"]: Attempt(float(one["age-seconds"]), _address(one["client-info"]))
        for one in reversed(log)
        if one["reason"] == "auth" and float(one["age-seconds"]) <= SILENT_S
    }


def _address(client: Any) -> str:
    """Return the address of a client in the log; redis-py has parsed its line by default, not by RESP3."""
    return str(client["addr"]) if isinstance(client, dict) else str(client).partition("addr=")[2].partition(" ")[0]
