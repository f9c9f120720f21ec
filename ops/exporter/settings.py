"""Settings of the exporter: its page, and what is shown there: windows, statistics, labels, the machines of a shard."""

import ipaddress
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from msgspec import Meta

from ops.exporter.exposition import escape
from schemas.process.settings import setting
from schemas.resources import ABOUT
from schemas.rpc.parameters import Risk
from schemas.rpc.request import InvalidRequest, Request, read_request
from scorer.settings import LedgerSettings
from scorer.snapshot.arrays import Bools
from scorer.snapshot.rules import MachineRules
from scorer.snapshot.snapshot import Snapshot

Statistic = Literal["mean", "std", "p50", "p90", "p95", "p99", "max", "peak"]
DEFAULT_PORT = 9466


def window_name(window_s: int) -> str:
    """Return a window's length as Prometheus writes durations.

    >>> [window_name(length) for length in (90, 300, 3600, 5400)]
    ['90s', '5m', '1h', '90m']
    """
    for unit, seconds in (("h", 3600), ("m", 60)):
        if window_s % seconds == 0:
            return f"{window_s // seconds}{unit}"
    return f"{window_s}s"


def unit_name(resource: str) -> str:
    """Return a resource's unit as the end of a metric's name.

    >>> [unit_name(resource) for resource in ("cpu", "nic", "disk")]
    ['cores', 'bytes_per_second', 'ratio']
    """
    about = ABOUT[resource]
    return "ratio" if about.is_share else about.unit.replace("/s", "_per_second").replace(" ", "_")


OWN = ("fleet", "machine", "instance", "job")
"""Reserved names: the exporter's own, and those that Prometheus adds."""


def label_name(key: str) -> str:
    """Return a label's key as a valid label name.

    >>> label_name("topology.kubernetes.io/zone"), label_name("1st"), label_name("__x")
    ('topology_kubernetes_io_zone', '_1st', 'x')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", key)
    if name.startswith("__"):  # Prometheus keeps such names for itself
        name = name.lstrip("_")
    return f"_{name}" if not name or name[0].isdigit() else name


def label_names(keys: Sequence[str]) -> Mapping[str, str]:
    """Return the valid name of each key.

    Raises ValueError when two keys give the same name, or a key gives a reserved one.
    """
    found: dict[str, str] = {}
    for key in keys:
        name = label_name(key)
        if name in OWN:
            raise ValueError(f"labels: {key!r} would be the label {name}, which is taken")
        if name in found:
            raise ValueError(f"labels: {found[name]!r} and {key!r} would both be the label {name}")
        found[name] = key
    return {key: name for name, key in found.items()}


def label_columns(rules: MachineRules, names: Mapping[str, str], machines: int) -> list[bytes]:
    """Return [M]: each machine's labels of the allow-list as text, each after a comma; absent labels are left out."""
    texts = [b""] * machines
    for key, name in names.items():
        column = rules.label(key)
        written = [f',{name}="{escape(value)}"'.encode() for value in column.values] + [b""]
        texts = [text + written[code] for text, code in zip(texts, column.codes.tolist(), strict=True)]
    return texts


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

    @property
    def shared(self) -> Mapping[str, str]:
        """The labels of every line."""
        return {"fleet": self.names.prefix}

    def shown_windows(self, snapshot: Snapshot) -> tuple[int, ...]:
        """Return the windows shown: the selected ones that the tables have."""
        return tuple(length for length in snapshot.windows_s if not self.windows or length in self.windows)

    def shows_machines(self, snapshot: Snapshot) -> bool:
        return self.per_machine == "always" or (self.per_machine == "auto" and len(snapshot) <= self.machines_max)

    def rows(self, snapshot: Snapshot) -> Bools:
        """Return [M]: the machines of this shard.

        A machine is in the shard of the partition it is read from (the newer one, when it is in two); one without a
        partition, in the shard of its name's checksum. So each machine is in one shard, the same for all exporters.
        """
        shard, shards = self.shard_position
        if shards == 1:
            return np.ones(len(snapshot), np.bool_)
        place = snapshot.partition
        nowhere = np.flatnonzero(place < 0)
        if nowhere.size:
            place = place.copy()
            place[nowhere] = [zlib.crc32(snapshot.names[row].encode()) for row in nowhere.tolist()]
        mine: Bools = place % shards == shard
        return mine
