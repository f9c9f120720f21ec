"""The whole stack as processes of this machine: broker, Valkey, stream app, scorer, agent, and a fleet if wanted.

    broker, Valkey -> topics -> stream app, scorer -> agent, fleet

What depends on others starts after them and ends before them. Settings that all processes share go to them through
their environment, so that no password is ever an argument; ports and names of one process are its arguments.
"""

from __future__ import annotations

import fcntl
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, Literal, Self

from kafka.errors import KafkaError
from msgspec import Meta

from ops.local.apache_kafka import ApacheKafka
from ops.local.broker import LocalBroker
from ops.local.process import LOOPBACK, LocalError, LocalProcess, free_port, wait_until
from ops.local.valkey import LocalValkey
from ops.supervisor import Supervisor
from schemas.connections import KafkaSettings, PipelineSettings, RedisSettings
from schemas.settings import setting
from streams.topics import TopicSettings, ensure_topics

Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=0, le=1_000)]

READY_DEADLINE_S = 60.0
ACCEPT_DEADLINE_S = 10.0
SESSION_TIMEOUT_S = 6
"""The local broker hands partitions out after half of it, so the first samples are folded after 3 s, not 5."""


@dataclass(frozen=True, kw_only=True)
class StackSettings(PipelineSettings):
    """Run the whole stack on this machine until Ctrl-C."""

    kafka: str = setting("", "brokers to use, HOST:PORT separated by commas; default: one is started here")
    redis_url: str = setting("", "server to use, URL without password; default: a Valkey is started here")
    kafka_server: Literal["tansu", "apache"] = setting(
        "tansu", "the broker that is started: the wheel's, or real Kafka"
    )
    kafka_brokers_count: Literal[1, 3] = setting(1, "how many brokers of Apache Kafka are started")
    kafka_port: Port = setting(9092, "port of the broker that is started (the first of three); 0: any free one")
    redis_port: Port = setting(6379, "port of the Valkey that is started; 0: any free one")
    metrics_port: Port = setting(9464, "first port looked at for the processes' metrics pages")
    state_dir: Path = setting(Path(".windward"), "folder of the logs, and of what the servers started here keep")
    partitions: Annotated[int, Meta(ge=1, le=1_000)] = setting(8, "partitions of the samples topic, if it is made here")
    streams: Count = setting(1, "stream app workers")
    scorers: Count = setting(1, "scorers")
    agent: bool = setting(True, "publish this machine's own load")
    machines: Annotated[int, Meta(ge=0, le=100_000)] = setting(0, "machines of a simulated fleet beside it")
    backfill_s: Annotated[int, Meta(ge=0)] = setting(3600, "how long a past the fleet publishes first")

    def __post_init__(self) -> None:
        if self.kafka:
            KafkaSettings.__post_init__(self)
        if self.redis_url:
            RedisSettings.__post_init__(self)


class Stack:
    """All processes; ``with`` starts and stops them. ``say`` gets one line for each thing that happens."""

    def __init__(
        self, settings: StackSettings, environ: Mapping[str, str], say: Callable[[str], None] = lambda _: None
    ) -> None:
        self.settings = settings
        self.supervisor = Supervisor(say)
        self.kafka = settings.kafka
        self.redis_url = settings.redis_url
        self.pages: dict[str, int] = {}
        """Port of each process's metrics page."""
        self._say = say
        self._environ = dict(environ)
        self._broker: LocalBroker | ApacheKafka | None = None
        self._valkey: LocalValkey | None = None
        self._processes: list[LocalProcess] = []
        self._lock: IO[str] | None = None

    def start(self) -> Self:
        """Start everything and wait until all of it is ready; LocalError names what is not."""
        try:
            self._take_state_dir()
            self._start_servers()
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
        broker_log = str(self._broker.brokers[0].log) if self._broker else ""
        found = [("Kafka", self.kafka, broker_log)]
        if self._valkey:
            found.append(("Valkey", self.redis_url, str(self._valkey.log)))
        else:
            found.append(("Redis", self.redis_url, ""))
        for process in self._processes:
            port = self.pages.get(process.name)
            found.append((process.name, f"http://{LOOPBACK}:{port}/metrics" if port else "", str(process.log)))
        return found

    # ---- steps of the start

    def _take_state_dir(self) -> None:
        """Make the folder and hold it, so that no second stack uses the same."""
        self.settings.state_dir.mkdir(parents=True, exist_ok=True)
        self._lock = (self.settings.state_dir / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LocalError(f"another stack runs in {self.settings.state_dir}: give --state-dir") from None

    def _start_servers(self) -> None:
        if not self.kafka:
            self._broker = self._make_broker()
            self.supervisor.add(self._broker.brokers, time.monotonic())
            self._broker.start()
            self.kafka = self._broker.address
            self._say(f"broker on {self.kafka}")
        if not self.redis_url:
            port = _own_port(self.settings.redis_port, "redis")
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

    def _make_broker(self) -> LocalBroker | ApacheKafka:
        port = _own_port(self.settings.kafka_port, "kafka")
        if self.settings.kafka_server == "apache":
            self._say("Apache Kafka: fetching its archives unless they are here")
            return ApacheKafka(
                brokers=self.settings.kafka_brokers_count, port=port, directory=self.settings.state_dir / "kafka"
            )
        return LocalBroker(port=port, log=self.settings.state_dir / "broker.log")

    def _make_topics(self) -> None:
        shared = {field.name: getattr(self.settings, field.name) for field in fields(KafkaSettings)}
        settings = TopicSettings(**(shared | {"kafka": self.kafka} | self._replicas()))
        try:
            wait_until(lambda: any(map(accepts, self.kafka.split(","))), ACCEPT_DEADLINE_S, "no connection")
            partitions = ensure_topics(settings)
        except (KafkaError, OSError, LocalError) as error:
            raise LocalError(f"kafka: {self.kafka} cannot be used: {error}") from None
        self._say(f"topic {settings.names.samples_topic} with {partitions} partitions")

    def _replicas(self) -> dict[str, int]:
        made = {"partitions": self.settings.partitions}
        if self._broker:
            made |= {"replication": self._broker.replication, "min_insync": self._broker.min_insync}
        return made

    def _start_processes(self) -> None:
        settings = self.settings
        topic = [part for name, value in self._replicas().items() for part in (f"--{name.replace('_', '-')}", value)]
        streams = ["--session-timeout-s", SESSION_TIMEOUT_S, *topic]
        middle = [self._process("stream", n, streams) for n in range(1, settings.streams + 1)]
        middle += [self._process("scorer", n) for n in range(1, settings.scorers + 1)]
        edge = [self._process("agent", 0)] if settings.agent else []
        if settings.machines:
            fleet = ["--machines", settings.machines, "--backfill-s", settings.backfill_s]
            edge.append(self._process("fleet", 0, fleet, pages=False))
        for tier in (middle, edge):
            self.supervisor.add(tier, time.monotonic())
            for process in tier:
                process.spawn()
        self._processes = [*middle, *edge]
        for process in self._processes:
            process.wait_ready()
            self._say(f"{process.name} is ready")

    def _process(
        self, command: str, number: int, arguments: Sequence[object] = (), *, pages: bool = True
    ) -> LocalProcess:
        """Return one of our own processes, to be started; ``number`` 0 for the only one of its kind."""
        name = f"{command}-{number}" if number else command
        page: list[object] = []
        if pages:
            self.pages[name] = _free_port_from(self.settings.metrics_port, set(self.pages.values()))
            page = ["--metrics-port", self.pages[name]]
        return LocalProcess(
            name,
            [sys.executable, "-P", "-m", "ops.cli", command, *map(str, [*arguments, *page])],
            log=self.settings.state_dir / f"{name}.log",
            environ=self._shared_environ(),
            ready=lambda: name not in self.pages or says_ready(self.pages[name]),
            ready_deadline_s=READY_DEADLINE_S,
        )

    def _shared_environ(self) -> dict[str, str]:
        """Return the environment of the processes: this one's, with what all must agree on."""
        shared = {field.name: getattr(self.settings, field.name) for field in fields(PipelineSettings)}
        shared |= {"kafka": self.kafka, "redis_url": self.redis_url}
        given = {f"WINDWARD_{name.upper()}": str(value) for name, value in shared.items() if value is not None}
        return self._environ | given

    def __enter__(self) -> Self:
        """Start everything."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything."""
        self.stop()


def says_ready(port: int) -> bool:
    """Whether the page ``/ready`` at a port of loopback answers yes; one without that page is ready when it answers."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 404
    except OSError:
        return False


def accepts(address: str) -> bool:
    """Whether something at HOST:PORT accepts connections."""
    host, _, port = address.strip().rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        return False
    return True


def listens(port: int) -> bool:
    """Whether something listens on a port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _own_port(port: int, what: str) -> int:
    """Return the port to start a server on; LocalError when something listens there already."""
    if not port:
        return free_port()
    if listens(port):
        use = "--redis-url" if what == "redis" else "--kafka"
        raise LocalError(
            f"{what}_port: something listens on {LOOPBACK}:{port} already; use it by {use},"
            f" or give --{what}-port (0: any free one)"
        )
    return port


def _free_port_from(first: int, taken: set[int]) -> int:
    """Return the first port from ``first`` on that nobody listens on and that is not ``taken``; 0: any free one."""
    if not first:
        return free_port()
    return next(port for port in range(first, 65_536) if port not in taken and not listens(port))
