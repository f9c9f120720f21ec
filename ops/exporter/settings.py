"""Settings of the exporter."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from ops.exporter.selection import label_names
from schemas.process.settings import setting
from schemas.rpc.parameters import Risk
from schemas.rpc.request import InvalidRequest, Request, read_request
from scorer.settings import LedgerSettings

Statistic = Literal["mean", "std", "p50", "p90", "p95", "p99", "max", "peak"]
DEFAULT_PORT = 9466


@dataclass(frozen=True, kw_only=True)
class ExporterSettings(LedgerSettings):
    """Export the windowed load of every machine, and of the fleet, to Prometheus.

    It reads the window tables, the ledger and operators' rules, and writes nothing. Each scrape has the state of Redis
    at that moment. Scrape it every 15 to 30 s: a window changes every 10 s.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward exporter --labels zone,rack",
        "windward exporter --windows 5m --statistics mean,p95 --shard 1/4",
    )

    metrics_host: str = setting("127.0.0.1", "address of the page; for other hosts use TLS and a password, too")
    metrics_port: Annotated[int, Meta(ge=1, le=65_535)] = setting(DEFAULT_PORT, "port of the page")
    metrics_tls_cert_file: str | None = setting(None, "PEM file with the page's certificate: it is served by TLS")
    metrics_tls_key_file: str | None = setting(None, "PEM file with its key")
    metrics_username: str | None = setting(None, "user who may read the page (HTTP basic authentication)")
    metrics_password: str | None = setting(None, "that user's password", secret=True)
    connections_max: Annotated[int, Meta(ge=1, le=1_000)] = setting(20, "connections held at once")
    timeout_s: Annotated[int, Meta(ge=1, le=600)] = setting(10, "a connection silent for so long is closed")

    windows: tuple[Annotated[int, Meta(ge=1)], ...] = setting(
        (), "window lengths, such as 5m; default: all that are kept", duration=True
    )
    statistics: tuple[Statistic, ...] = setting(
        ("mean", "std", "p95"), "of each machine's load: mean, std, p50, p90, p95, p99, max or peak (the day's)"
    )
    per_machine: Literal["auto", "always", "never"] = setting(
        "auto", "series of single machines; auto: up to machines_max of them. Those of the fleet are always there"
    )
    machines_max: Annotated[int, Meta(ge=0)] = setting(20_000, "the largest fleet whose machines auto shows")
    top_instances: Annotated[int, Meta(ge=0, le=10_000)] = setting(
        0, "single instances with series: so many, those that use the largest part of their machines"
    )
    soon_hot_limit: Annotated[float, Meta(gt=0, le=10)] = setting(
        Risk().limit,
        "CPU load, as a share of allocatable, above which a machine is hot in windward_machine_soon_hot_ratio",
    )
    shard: str = setting("1/1", "I/N: this exporter shows the machines of every N-th partition", metavar="I/N")
    labels: tuple[str, ...] = setting((), "machine labels shown by windward_machine_info, such as zone,rack")

    profiles: tuple[Path, ...] = setting((), "TOML files with profiles, as the scorers have; read again on SIGHUP")
    profile: str = setting("windward", "profile that defines fresh machines and risks, and ranks the probe")
    probe: dict[str, str] = setting(
        {"cpu": "1", "memory": "1G"}, "the request whose refusals are shown, as cpu=1,memory=1G", metavar="R=AMOUNT"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        label_names(self.labels)
        _ = self.shard_position, self.probe_request
        for name in ("cert", "key"):
            path = getattr(self, f"metrics_tls_{name}_file")
            if path is not None and not Path(path).is_file():
                raise ValueError(f"metrics_tls_{name}_file: there is no file {path!r}")
        if bool(self.metrics_tls_cert_file) != bool(self.metrics_tls_key_file):
            missing = "key" if self.metrics_tls_cert_file else "cert"
            raise ValueError(f"metrics_tls_{missing}_file: certificate and key are required together")
        if bool(self.metrics_username) != bool(self.metrics_password):
            missing = "password" if self.metrics_username else "username"
            raise ValueError(f"metrics_{missing}: user and password are required together")

    @property
    def shard_position(self) -> tuple[int, int]:
        """Which shard this is, from 0, and how many there are."""
        match = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", self.shard)
        if not match or int(match[1]) > int(match[2]):
            raise ValueError(f"shard: expected I/N with I from 1 to N, got {self.shard!r}")
        return int(match[1]) - 1, int(match[2])

    @property
    def probe_request(self) -> Request:
        try:
            return read_request(dict(self.probe))
        except InvalidRequest as error:
            raise ValueError(f"probe: {error}") from None

    @property
    def exposed(self) -> bool:
        """Whether others than this host can reach the page."""
        try:
            return not ipaddress.ip_address(self.metrics_host).is_loopback
        except ValueError:
            return self.metrics_host != "localhost"
