"""The agent's settings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.messages.sample import Rejected, check_machine_id
from schemas.names import MACHINE_ID_BYTES_MAX, SLOT_S
from schemas.process.connections import KafkaSettings
from schemas.process.settings import setting
from schemas.resources import RESOURCES, UNITS
from schemas.values.quantity import parse_amount
from streams.agent.instance_settings import InstanceSettings, expression

INTERVAL_S_MAX = 3600
LABELS_BYTES_MAX = 8_192
"""All labels together; the message that carries them may hold twice that."""


@dataclass(frozen=True, kw_only=True)
class PublishSettings(KafkaSettings):
    """Settings of publishing, for the agent and the load generator."""

    labels: dict[str, str] = setting({}, "label of the machine; may be repeated", metavar="KEY=VALUE")
    interval_s: float = setting(float(SLOT_S), f"time between two samples, {SLOT_S}s to {INTERVAL_S_MAX // 3600}h")
    reading_s: Annotated[float, Meta(gt=0)] = setting(1.0, "time between two readings; divides interval_s")
    facts_interval_s: Annotated[float, Meta(ge=SLOT_S)] = setting(300.0, "time between two messages of slow facts")
    backlog_records: Annotated[int, Meta(ge=1)] = setting(
        1_000, "records kept while the broker is away; the oldest are dropped first"
    )
    flush_s: Annotated[float, Meta(ge=0)] = setting(5.0, "time to deliver what is left when told to stop")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not SLOT_S <= self.interval_s <= INTERVAL_S_MAX:
            raise ValueError(f"interval_s: expected {SLOT_S} to {INTERVAL_S_MAX} seconds, got {self.interval_s:g}")
        readings = self.interval_s / self.reading_s
        if not 1 <= round(readings) <= 65_535 or not math.isclose(readings, round(readings)):
            raise ValueError(f"reading_s: {self.reading_s:g} does not divide interval_s, which is {self.interval_s:g}")
        if sum(len(key.encode()) + len(value.encode()) for key, value in self.labels.items()) > LABELS_BYTES_MAX:
            raise ValueError(f"labels: more than {LABELS_BYTES_MAX} bytes together")
        if "" in self.labels:
            raise ValueError("labels: a label needs a name before the =")


@dataclass(frozen=True, kw_only=True)
class AgentSettings(PublishSettings, InstanceSettings):
    """Publish this machine's CPU, memory, NIC and disk load."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward agent --dry-run                             # print one sample, publish nothing",
        "windward agent --kafka broker:9092 --labels rack=r7",
        "windward agent --capacity nic=1.25G --check-config",
    )

    machine: str | None = setting(
        None, "this machine's name (default: the host's name at the first start, which is kept)"
    )
    capacity: dict[str, str] = setting(
        {},
        "RESOURCE=AMOUNT in place of what is measured: "
        + ", ".join(f"{name} in {unit}" for name, unit in UNITS.items())
        + "; may be repeated",
        metavar="RESOURCE=AMOUNT",
    )
    nic_speed: tuple[str, ...] = setting(
        (),
        "link speed in bit/s such as 10G where the kernel does not know it, or INTERFACE=SPEED in place of what it"
        " says; may be repeated",
        metavar="[INTERFACE=]SPEED",
    )
    nic_include: str | None = setting(None, "regular expression of the interfaces that count (default: physical ones)")
    nic_exclude: str | None = setting(None, "regular expression of interfaces that do not count")
    disk_exclude: str | None = setting(None, "regular expression of disks that do not count")
    memory_arc_share: Annotated[float, Meta(ge=0, le=1)] | None = setting(
        None, "share of ZFS's cache, above its least size, that counts as available (default: 1; 0 in a container)"
    )
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(0, "port of the Prometheus page; 0: none")
    metrics_host: str = setting("127.0.0.1", "address the Prometheus page listens on")
    once: bool = setting(False, "publish one sample, print it, exit")
    dry_run: bool = setting(False, "print one sample, publish nothing, exit")
    check_config: bool = setting(False, "check the settings, exit")

    def __post_init__(self) -> None:
        PublishSettings.__post_init__(self)
        InstanceSettings.__post_init__(self)
        if self.machine is not None:
            check_machine(self.machine)
        for name in ("nic_include", "nic_exclude", "disk_exclude"):
            expression(name, getattr(self, name) or "")
        _ = self.capacities, self.nic_speeds

    @property
    def capacities(self) -> Mapping[str, float]:
        found = {}
        for resource, amount in self.capacity.items():
            if resource not in RESOURCES:
                raise ValueError(f"capacity: no resource {resource!r}; there are {', '.join(RESOURCES)}")
            found[resource] = amount_of("capacity", amount, resource)
        return found

    @property
    def nic_speeds(self) -> Mapping[str, float]:
        """Link speed in bytes/s by interface; ``*`` is the one for interfaces the kernel does not know."""
        pairs = (part.rpartition("=") for part in self.nic_speed)
        return {interface or "*": amount_of("nic_speed", speed) / 8 for interface, _, speed in pairs}


def check_machine(machine: str) -> None:
    """Refuse an id that the stream app would refuse; raises ValueError naming the setting."""
    try:
        check_machine_id(machine)
    except Rejected as error:
        raise ValueError(f"machine: {error.detail}") from None
    if len(machine) > MACHINE_ID_BYTES_MAX:
        raise ValueError(f"machine: longer than {MACHINE_ID_BYTES_MAX} bytes")


def amount_of(name: str, text: str, resource: str = "") -> float:
    """Return an amount above 0 in base units; raises ValueError naming the setting."""
    try:
        amount = parse_amount(resource, text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if amount <= 0:
        raise ValueError(f"{name}: expected more than 0, got {text!r}")
    return amount
