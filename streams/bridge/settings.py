"""The bridge's settings."""

from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from msgspec import Meta

from schemas.process.connections import check_tls_files, tls_context
from schemas.process.settings import SettingsError, setting
from streams.agent.instance_settings import expression
from streams.agent.settings import PublishSettings, amount_of
from streams.bridge.formats.interfaces import NOT_PHYSICAL
from streams.bridge.scraping import NO_USER, How, Target

AGENTS = ("telegraf", "otel", "node-exporter")


@dataclass(frozen=True, kw_only=True)
class BridgeSettings(PublishSettings):
    """Publish samples from what another agent measures: it writes to Kafka, or is scraped (node-exporter)."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward bridge telegraf --kafka broker:9092 --topic telegraf",
        "windward bridge otel --kafka broker:9092 --nic-speed 10G",
        "windward bridge node-exporter --target db1:9100 --target db2:9100",
        "windward bridge node-exporter --prometheus http://prometheus:9090 --series 'job=\"node\"'",
    )

    topic: str = setting("", "topic that the other agent writes to (default: telegraf, or otlp_metrics)")
    group: str | None = setting(None, "consumer group (default: PREFIX-bridge)")
    from_start: bool = setting(False, "read the topic from its beginning if the group has no offset in it yet")
    machine_key: str = setting(
        "", "tag, attribute or label that names the machine (default: host, host.name, or what node_uname_info says)"
    )
    backlog_records: Annotated[int, Meta(ge=1)] = setting(
        100_000, "records kept while the broker is away; the oldest are dropped first"
    )
    cores: Annotated[float, Meta(gt=0)] | None = setting(None, "cores of a machine whose agent does not send them")
    nic_speed: str | None = setting(None, "link speed in bit/s such as 10G of every machine", metavar="SPEED")
    target: tuple[str, ...] = setting(
        (), "node_exporters: HOST:PORT, NAME=HOST:PORT or a URL", group="node-exporter", metavar="TARGET"
    )
    targets_file: Path | None = setting(None, "file of them, one a line", group="node-exporter", metavar="FILE")
    prometheus: str = setting(
        "", "instead of targets: the URL of a Prometheus that scrapes them", group="node-exporter", metavar="URL"
    )
    series: str = setting(
        "", 'matchers of the series of node_exporter in Prometheus, such as job="node"', group="node-exporter"
    )
    every: Annotated[float, Meta(ge=2, le=300)] = setting(
        10.0, "how often a target is scraped, or Prometheus asked", group="node-exporter", duration=True
    )
    timeout_s: Annotated[float, Meta(gt=0, le=300)] = setting(
        5.0, "how long an answer may take", group="node-exporter", duration=True
    )
    scrape_username: str | None = setting(None, "user that targets, or Prometheus, ask for", group="node-exporter")
    scrape_password: str | None = setting(
        None, "its password; without a user: a bearer token", secret=True, group="node-exporter"
    )
    scrape_tls_ca_file: str | None = setting(
        None, "PEM file with the authorities to trust", group="node-exporter", metavar="FILE"
    )
    scrape_tls_cert_file: str | None = setting(
        None, "PEM file with the bridge's certificate", group="node-exporter", metavar="FILE"
    )
    scrape_tls_key_file: str | None = setting(
        None, "PEM file with the bridge's key", group="node-exporter", metavar="FILE"
    )
    dry_run: bool = setting(
        False,
        "print which interfaces of each target count, and why others do not; publish nothing",
        group="node-exporter",
    )
    excluded: str = setting(NOT_PHYSICAL, "regular expression of interfaces and disks that do not count")

    def __post_init__(self) -> None:
        super().__post_init__()
        expression("excluded", self.excluded)
        _ = self.nic_bytes_s
        if self.prometheus and (self.target or self.targets_file):
            raise ValueError("prometheus: goes without --target and --targets-file")
        if "@" in self.prometheus:
            raise ValueError(f"prometheus: {NO_USER}")
        check_tls_files(self, "scrape")
        if self.scrape_username is not None and self.scrape_password is None:
            raise ValueError("scrape_username: WINDWARD_SCRAPE_PASSWORD, or the same with _FILE, is required beside it")
        if self.prometheus and urlsplit(self.prometheus).scheme not in ("http", "https"):
            raise ValueError(f"prometheus: expected http://HOST:PORT, got {self.prometheus!r}")

    @property
    def targets(self) -> list[Target]:
        """The node_exporters to scrape.

        Raises SettingsError for a file that cannot be read, an invalid target, and one given twice.
        """
        lines = list(self.target)
        if self.targets_file is not None:
            try:
                text = self.targets_file.read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise SettingsError(f"targets_file: {self.targets_file}: {error}") from None
            lines += [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
        found: dict[str, Target] = {}
        for line in lines:
            try:
                target = Target.read(line)
            except ValueError as error:
                raise SettingsError(f"target: {error}") from None
            if target.url in found:
                raise SettingsError(f"target: {target.url} is given twice")
            found[target.url] = target
        return [*found.values()]

    @property
    def how(self) -> How:
        """How targets are asked; raises SettingsError for files that cannot be used."""
        said = ""
        if self.scrape_username is not None:
            said = f"Basic {b64encode(f'{self.scrape_username}:{self.scrape_password}'.encode()).decode()}"
        elif self.scrape_password is not None:
            said = f"Bearer {self.scrape_password}"
        if not (said.isascii() and said.isprintable()):
            raise SettingsError("scrape_password: a bearer token is printable ASCII")
        files = (self.scrape_tls_ca_file, self.scrape_tls_cert_file, self.scrape_tls_key_file)
        context = tls_context("scrape", *files) if any(files) else None
        return How(self.every, self.timeout_s, self.excluded, said, context)

    @property
    def nic_bytes_s(self) -> float | None:
        """The link speed in bytes/s."""
        return None if self.nic_speed is None else amount_of("nic_speed", self.nic_speed) / 8
