"""The bridge's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from schemas.process.settings import setting
from streams.agent.instance_settings import expression
from streams.agent.settings import PublishSettings, amount_of
from streams.bridge.formats.assembler import NOT_PHYSICAL

AGENTS = ("telegraf", "otel")


@dataclass(frozen=True, kw_only=True)
class BridgeSettings(PublishSettings):
    """Publish samples from the measurements that another agent writes to Kafka as JSON."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward bridge telegraf --kafka broker:9092 --topic telegraf",
        "windward bridge otel --kafka broker:9092 --nic-speed 10G",
    )

    topic: str = setting("", "topic that the other agent writes to (default: telegraf, or otlp_metrics)")
    group: str | None = setting(None, "consumer group (default: PREFIX-bridge)")
    from_start: bool = setting(False, "read the topic from its beginning if the group has no offset in it yet")
    machine_key: str = setting("", "tag or attribute that names the machine (default: host, or host.name)")
    backlog_records: Annotated[int, Meta(ge=1)] = setting(
        100_000, "records kept while the broker is away; the oldest are dropped first"
    )
    cores: Annotated[float, Meta(gt=0)] | None = setting(None, "cores of a machine whose agent does not send them")
    nic_speed: str | None = setting(None, "link speed in bit/s such as 10G of every machine", metavar="SPEED")
    excluded: str = setting(NOT_PHYSICAL, "regular expression of interfaces and disks that do not count")

    def __post_init__(self) -> None:
        super().__post_init__()
        expression("excluded", self.excluded)
        _ = self.nic_bytes_s

    @property
    def nic_bytes_s(self) -> float | None:
        """The link speed in bytes/s."""
        return None if self.nic_speed is None else amount_of("nic_speed", self.nic_speed) / 8

    def source(self, agent: Literal["telegraf", "otel"]) -> str:
        """The topic to read."""
        return self.topic or {"telegraf": "telegraf", "otel": "otlp_metrics"}[agent]
