"""Settings of the rebalancer."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.process.settings import setting
from scorer.commands.planning.balance_settings import BalanceSettings
from scorer.settings import LedgerSettings

Duration = Annotated[float, Meta(gt=0, le=86_400)]


@dataclass(frozen=True, kw_only=True)
class RebalancerSettings(LedgerSettings, BalanceSettings):
    """Propose moves away from overloaded machines on a Redis list; another program carries them out.

    Any number may run: one holds the lease and plans, the others wait. Each round plans on the fleet as it is then, and
    counts open proposals as done.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward rebalancer --redis-url redis://server:6379/0 --metrics-port 9467",
        "windward rebalancer --every 5m --rounds-over 3 --moves-max 5 --hour-max 0.0015",
    )

    name: str = setting("", "name of this process; default: host and process id")
    profiles: tuple[Path, ...] = setting((), "TOML files with profiles, read again on SIGHUP", metavar="FILE")
    profile: str = setting("", "profile whose filters, load and [rebalance] hold", metavar="NAME")
    every: Duration = setting(60.0, "time between two rounds", duration=True)
    lease_s: Annotated[float, Meta(ge=0.1, le=86_400)] = setting(
        30.0, "how long the lease holds unless renewed; after a kill another process plans when this time is over"
    )
    proposal_s: Duration = setting(600.0, "how long a proposed move may be begun")
    ack_s: Duration = setting(300.0, "a move that was taken and not acknowledged for so long is delivered again")
    metrics_host: str = setting("127.0.0.1", "address of the metrics and health pages")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(0, "their port; 0: none")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name and not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.name):
            raise ValueError(f"name: {self.name!r} is not 1 to 64 of A-Z a-z 0-9 . _ -")

    @property
    def holder(self) -> str:
        """The name under which the lease is held; two processes never share one."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"
