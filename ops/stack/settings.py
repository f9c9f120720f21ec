"""The settings of the local stack, and of its commands `ops.stack.up` and `ops.demo.command`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Self

from msgspec import Meta

from schemas.process.connections import KafkaSettings, PipelineSettings, RedisSettings, check_redis_url
from schemas.process.settings import setting

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
