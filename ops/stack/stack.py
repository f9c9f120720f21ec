"""The whole stack as processes of this machine: broker, Valkey, stream app, scorer, exporter, agent, and optional ones.

    broker, Valkey -> topics -> stream app, scorer, exporter -> agent, fleet -> Prometheus

A process that depends on others starts after them and ends before them. Settings that all share go to them through
their environment, so that no password is ever an argument; ports and names of one process are its arguments.
"""

import contextlib
import fcntl
import os
import re
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, Annotated, Any, Self, get_args

import redis
from kafka.errors import KafkaError
from msgspec import Meta
from redis.backoff import NoBackoff
from redis.retry import Retry

from ops.exporter.settings import Statistic
from ops.stack.servers.local import LocalBroker, LocalPrometheus, LocalValkey
from ops.stack.servers.process import LOOPBACK, LocalError, LocalProcess, StartedByWith, free_port, wait_until
from schemas.names import SLOT_S
from schemas.process.connections import KafkaSettings, PipelineSettings, RedisSettings, check_redis_url
from schemas.process.redis_url import connected, in_words
from schemas.process.settings import setting
from streams.worker.topics import TopicSettings, ensure_topics

Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=0, le=1_000)]


@dataclass(frozen=True, kw_only=True)
class StackSettings(PipelineSettings):
    """Run the whole stack on this machine until Ctrl-C.

    Variables such as WINDWARD_REDIS_URL name the fleet that this shell's commands use. They do not name the one that is
    started here: otherwise simulated machines would join it.
    """

    kafka: str = setting("", "brokers to use, HOST:PORT separated by commas; default: one is started here", own=True)
    redis_url: str = setting("", "server to use, URL without password; default: a Valkey is started here", own=True)
    windows_url: str = setting("", "server of the windows, if they have one of their own", own=True)
    ledger_url: str = setting("", "server of the ledger, if it has one of its own", own=True)
    kafka_port: Port = setting(9092, "port of the broker that is started; 0: any free one")
    redis_port: Port = setting(6379, "port of the Valkey that is started; 0: any free one")
    metrics_port: Port = setting(9464, "first port looked at for the processes' metrics pages")
    state_dir: Path = setting(Path(".windward"), "folder of the logs, and of the data of the servers started here")
    partitions: Annotated[int, Meta(ge=1, le=1_000)] = setting(8, "partitions of the samples topic, if it is made here")
    streams: Count = setting(1, "stream app workers")
    scorers: Count = setting(1, "scorers")
    agent: bool = setting(True, "publish this machine's own load")
    exporter: bool = setting(True, "show the windowed load of all machines to Prometheus")
    record: bool = setting(False, "record the fleet into the folder recording of state_dir, for `windward replay`")
    planner: bool = setting(True, "answer what takes long, and propose moves; a program of its own carries them out")
    load_watcher: bool = setting(False, "serve the load of all machines as Trimaran's plugins ask for it")
    pods: str = setting(
        "", "API server, as that of `kubectl proxy`, whose pods are followed into the ledger", metavar="URL"
    )
    prometheus: bool = setting(False, "start the Prometheus that is installed here; it scrapes the processes' pages")
    prometheus_port: Port = setting(9090, "its port; 0: any free one")
    prometheus_interval_s: Annotated[int, Meta(ge=1, le=300)] = setting(5, "how often it looks")
    machines: Annotated[int, Meta(ge=0, le=100_000)] = setting(0, "machines of a simulated fleet beside it")
    backfill_s: Annotated[int, Meta(ge=0)] = setting(3600, "length of the past that the fleet publishes first")

    def __post_init__(self) -> None:
        if self.kafka:
            KafkaSettings.__post_init__(self)
        if self.redis_url:
            RedisSettings.__post_init__(self)
        self.check_windows_url()
        if self.ledger_url:
            check_redis_url("ledger_url", self.ledger_url)

    def for_own_servers(self) -> Self:
        """Return the settings for servers that are started here: without user and TLS, but with a password."""
        return replace(
            self,
            redis_username=self.redis_username if self.redis_url else None,
            kafka_security=self.kafka_security if self.kafka else "PLAINTEXT",
        )


BACKOFF_S_MAX = 30.0
STEADY_S = 60.0
"""A process that ran this long has recovered: the pause before its next restart is short again, s."""


def backoff_s(failures: int) -> float:
    """Return the pause before the restart after so many ends in a row: 1, 2, 4 ... 30 s.

    >>> [backoff_s(n) for n in (1, 2, 3, 6)]
    [1.0, 2.0, 4.0, 30.0]
    """
    return min(BACKOFF_S_MAX, 2.0 ** min(failures - 1, 10))


@dataclass
class _Watched:
    process: LocalProcess
    started_s: float
    failures: int = 0
    restart_s: float | None = None


class Supervisor:
    """Watches processes that were started elsewhere, in the order in which they depend on each other.

    ``report`` gets one line for each event. Nothing here sleeps; the caller calls `watch` at an interval.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._tiers: list[list[_Watched]] = []

    def add(self, processes: Iterable[LocalProcess], now_s: float) -> None:
        """Watch further processes, which may depend on those added before."""
        self._tiers.append([_Watched(process, now_s) for process in processes])

    @property
    def processes(self) -> list[LocalProcess]:
        return [watched.process for tier in self._tiers for watched in tier]

    @property
    def dead(self) -> list[LocalProcess]:
        return [process for process in self.processes if not process.running]

    def watch(self, now_s: float) -> None:
        """Report processes that ended, and restart those whose pause is over."""
        for tier in self._tiers:
            for watched in tier:
                if not watched.process.running:
                    self._revive(watched, now_s)

    def _revive(self, watched: _Watched, now_s: float) -> None:
        process = watched.process
        if watched.restart_s is None:
            if now_s - watched.started_s > STEADY_S:
                watched.failures = 0
            watched.failures += 1
            pause_s = backoff_s(watched.failures)
            watched.restart_s = now_s + pause_s
            self._report(f"{process.name} ended with {process.exit_code}; again in {pause_s:g} s ({process.log})")
        elif now_s >= watched.restart_s:
            process.spawn()
            watched.started_s, watched.restart_s = now_s, None
            self._report(f"{process.name} is started again, process {process.pid}")

    def stop(self) -> None:
        """End all: those that depend on others first, the processes of one tier together."""
        for tier in reversed(self._tiers):
            for watched in tier:
                watched.process.ask_to_stop()
            for watched in tier:
                with contextlib.suppress(LocalError):
                    watched.process.stop()


READY_DEADLINE_S = 60.0
ACCEPT_DEADLINE_S = 10.0
REDIS_DEADLINE_S = 2.0
SESSION_TIMEOUT_S = 6
"""The local broker hands partitions out after half of it, so the first samples are folded after 3 s, not 5."""


class Stack(StartedByWith):
    """All processes; ``with`` starts and stops them. ``say`` gets one line for each step."""

    def __init__(
        self, settings: StackSettings, environ: Mapping[str, str], say: Callable[[str], None] = lambda _: None
    ) -> None:
        self.settings = settings.for_own_servers()
        self.supervisor = Supervisor(say)
        self.kafka = settings.kafka
        self.redis_url = settings.redis_url
        self.pages: dict[str, int] = {}
        """Port of each process's metrics page."""
        self._say = say
        self._given = dict(environ)
        self._broker: LocalBroker | None = None
        self._valkey: LocalValkey | None = None
        self.prometheus: LocalPrometheus | None = None
        self._processes: list[LocalProcess] = []
        self._lock: IO[str] | None = None

    def start(self) -> Self:
        """Start everything and wait until all is ready. Raises LocalError, which names what is not."""
        try:
            self._take_state_dir()
            self._check_redis()
            self._start_servers()
            self._check_fleet()
            self._make_topics()
            self._start_processes()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all processes, those that depend on others first."""
        self.supervisor.stop()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, address and log of everything, for a table."""
        found = [
            ("Kafka", self.kafka, str(self._broker.brokers[0].log) if self._broker else ""),
            ("Valkey" if self._valkey else "Redis", self.redis_url, str(self._valkey.log) if self._valkey else ""),
        ]
        for process in self._processes:
            port = self.pages.get(process.name)
            found.append((process.name, f"http://{LOOPBACK}:{port}/metrics" if port else "", str(process.log)))
        if self.prometheus:
            found.append(("Prometheus", self.prometheus.url, str(self.prometheus.log)))
        return found

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the processes: the given one, plus this stack's servers and how they are reached."""
        shared = {field.name: getattr(self.settings, field.name) for field in fields(PipelineSettings)}
        shared |= {"kafka": self.kafka, "redis_url": self.redis_url, "ledger_url": self.settings.ledger_url}
        return self._given | {f"WINDWARD_{name.upper()}": str(value or "") for name, value in shared.items()}

    # ---- steps of the start

    def _take_state_dir(self) -> None:
        """Make the folder and lock it, so that no second stack uses the same."""
        self.settings.state_dir.mkdir(parents=True, exist_ok=True)
        self._lock = (self.settings.state_dir / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LocalError(f"another stack runs in {self.settings.state_dir}: give --state-dir") from None

    def _check_redis(self) -> None:
        """Refuse a Redis that does not answer within 2 s, before a process is started that would wait for it."""
        if not self.redis_url:
            return
        arguments = self.settings.redis_arguments()
        try:
            with connected(
                redis.Redis, **arguments, socket_connect_timeout=REDIS_DEADLINE_S, socket_timeout=REDIS_DEADLINE_S,
                retry=Retry(NoBackoff(), 0),
            ) as server:  # fmt: skip
                server.ping()
        except redis.RedisError as error:
            raise LocalError(f"redis_url: {self.redis_url} cannot be used: {in_words(error)}") from None

    def _start_servers(self) -> None:
        if not self.kafka:
            port = own_port(self.settings.kafka_port, "kafka")
            self._broker = LocalBroker(port=port, log=self.settings.state_dir / "broker.log")
            self.supervisor.add(self._broker.brokers, time.monotonic())
            self._broker.start()
            self.kafka = self._broker.address
            self._say(f"broker on {self.kafka}")
        if not self.redis_url:
            port = own_port(self.settings.redis_port, "redis")
            self._valkey = LocalValkey(
                port=port,
                directory=self.settings.state_dir / "valkey",
                append_only=True,
                password=self.settings.redis_password,
                log=self.settings.state_dir / "valkey.log",
            )
            self.supervisor.add([self._valkey], time.monotonic())
            self.redis_url = self._valkey.start().url
            self._say(f"Valkey on {self.redis_url}")

    def _check_fleet(self) -> None:
        """Refuse a folder with more simulated machines than are started: they would be silent in every answer."""
        if not self._valkey:
            return
        names = self.settings.names
        with connected(redis.Redis, self.redis_url, password=self.settings.redis_password) as server:
            partitions: Any = server.get(names.partitions) or 0
            known = {name.decode() for number in range(int(partitions)) for name in server.hkeys(names.facts(number))}
        simulated = [int(found[1]) for name in known if (found := re.fullmatch(r"sim-(\d{5,})", name))]
        if (most := max(simulated, default=0)) > self.settings.machines:
            folder = self.settings.state_dir
            raise LocalError(
                f"machines: {folder} has the data of {most:,} simulated machines, and {self.settings.machines:,} are "
                f"started: the others would be silent; give --machines {most} or another --state-dir, "
                f"or begin anew: rm -r {folder}"
            )

    def _make_topics(self) -> None:
        shared = {field.name: getattr(self.settings, field.name) for field in fields(KafkaSettings)}
        settings = TopicSettings(**(shared | {"kafka": self.kafka, "partitions": self.settings.partitions}))
        try:
            wait_until(lambda: any(map(accepts, self.kafka.split(","))), ACCEPT_DEADLINE_S, "no connection")
            partitions = ensure_topics(settings)
        except (KafkaError, OSError, LocalError) as error:
            raise LocalError(f"kafka: {self.kafka} cannot be used: {error}") from None
        self._say(f"topic {settings.names.samples_topic} with {partitions} partitions")

    def _start_processes(self) -> None:
        settings = self.settings
        streams = ["--session-timeout-s", SESSION_TIMEOUT_S, "--partitions", settings.partitions]
        middle = [self._process("stream", n, streams) for n in range(1, settings.streams + 1)]
        middle += [self._process("scorer", n) for n in range(1, settings.scorers + 1)]
        if settings.exporter:
            shown = ["--statistics", ",".join(get_args(Statistic)), "--labels", "zone,rack", "--top-instances", 100]
            middle.append(self._process("exporter", 0, shown))
        if settings.record:
            middle.append(self._process("record", 0, ["--record-dir", settings.state_dir / "recording"]))
        if settings.planner:
            middle.append(self._process("planner", 0))
        if settings.load_watcher:
            middle.append(self._process("load-watcher", 0))
        if settings.pods:
            middle.append(self._process("pods", 0, ["--kubernetes", "here", "--api-url", settings.pods]))
        name = os.environ.get("WINDWARD_MACHINE") or socket.gethostname()  # in a container, too
        edge = [self._process("agent", 0, ["--machine", name])] if settings.agent else []
        if settings.machines:
            fleet = ["--machines", settings.machines, "--backfill-s", settings.backfill_s]
            fleet += ["--instances-interval-s", SLOT_S]  # so that the usage of an instance is seen at once
            edge.append(self._process("fleet", 0, fleet, pages=False))
        for tier in (middle, edge):
            self.supervisor.add(tier, time.monotonic())
            for process in tier:
                process.spawn()
        self._processes = [*middle, *edge]
        for process in self._processes:
            process.wait_ready()
            self._say(f"{process.name} is ready")
        self._start_prometheus()

    def _start_prometheus(self) -> None:
        if not self.settings.prometheus:
            return
        port = own_port(self.settings.prometheus_port, "prometheus")
        self.prometheus = LocalPrometheus(
            self.pages,
            port=port,
            interval_s=self.settings.prometheus_interval_s,
            directory=self.settings.state_dir,
            fleet=self.settings.prefix,
        )
        self.supervisor.add([self.prometheus], time.monotonic())
        self.prometheus.start()
        self._say(
            f"Prometheus on {self.prometheus.url}; its alerts link to pages that are not started: docs/runbook.md"
        )

    def _process(
        self, command: str, number: int, arguments: Sequence[object] = (), *, pages: bool = True
    ) -> LocalProcess:
        """Return a process of a windward command, to be started; ``number`` 0 for the only one of its kind."""
        name = f"{command}-{number}" if number else command
        page: list[object] = []
        if pages:
            self.pages[name] = free_port_from(self.settings.metrics_port, set(self.pages.values()))
            page = ["--metrics-port", self.pages[name]]
        return LocalProcess(
            name,
            [sys.executable, "-P", "-m", "ops.cli.main", command, *map(str, [*arguments, *page])],
            log=self.settings.state_dir / f"{name}.log",
            environ=self.environ,
            ready=lambda: name not in self.pages or says_ready(self.pages[name]),
            ready_deadline_s=READY_DEADLINE_S,
        )


def says_ready(port: int) -> bool:
    """Return whether the page ``/ready`` at a port of loopback has status 200; a server without that page is ready."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 404
    except OSError:
        return False


def accepts(address: str, timeout_s: float = 2.0) -> bool:
    host, _, port = address.strip().rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout_s).close()
    except OSError:
        return False
    return True


def listens(port: int) -> bool:
    """Return whether a server listens on a port of loopback."""
    return accepts(f"{LOOPBACK}:{port}", 0.2)


def own_port(port: int, what: str) -> int:
    """Return the port to start a server on; raises LocalError when another server listens there."""
    if not port:
        return free_port()
    if listens(port):
        use = {"redis": "use it by --redis-url, or ", "kafka": "use it by --kafka, or "}.get(what, "")
        raise LocalError(
            f"{what}_port: something listens on {LOOPBACK}:{port} already; {use}give --{what}-port (0: any free one)"
        )
    return port


def free_port_from(first: int, taken: set[int]) -> int:
    """Return the first port from ``first`` on where nothing listens and that is not ``taken``; 0: any free one."""
    if not first:
        return free_port()
    return next(port for port in range(first, 65_536) if port not in taken and not listens(port))
