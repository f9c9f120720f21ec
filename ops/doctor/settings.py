"""Settings of `windward doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schemas.process.connections import KafkaSettings
from schemas.process.settings import setting
from scorer.settings import ClientSettings, LedgerSettings


@dataclass(frozen=True, kw_only=True)
class DoctorSettings(KafkaSettings, ClientSettings, LedgerSettings):
    """Check Kafka, Redis, rights, clocks, agents, machines, scorers and versions; say what is wrong and what to do.

    It changes nothing. Exit code 1 when there is a warning or an error, 0 otherwise.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward doctor",
        "windward doctor --no-broker --json                # for a program, on a host that cannot reach Kafka",
    )

    broker: bool = setting(True, "check the topics' settings at the broker")

    def __post_init__(self) -> None:
        KafkaSettings.__post_init__(self)
        LedgerSettings.__post_init__(self)
