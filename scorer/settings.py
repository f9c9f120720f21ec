"""Settings of the scorer process and of the commands that call it."""

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from schemas.names import QueryLists
from schemas.process.connections import RedisSettings, WindowsSettings, check_redis_url
from schemas.process.settings import setting

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Count = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, kw_only=True)
class LedgerServerSettings(RedisSettings):
    """Where the ledger is: on the server of the queries, or on one of its own (with AOF)."""

    GROUP: ClassVar[str] = "ledger"

    ledger_url: str = setting("", "server of the ledger, if it has one of its own; password, user and TLS as above")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ledger_url:
            check_redis_url("ledger_url", self.ledger_url)

    def ledger_arguments(self) -> dict[str, Any]:
        """Return the arguments of `schemas.process.redis_url.connected` for the ledger."""
        return self.redis_arguments(self.ledger_url)


@dataclass(frozen=True, kw_only=True)
class LedgerSettings(LedgerServerSettings, WindowsSettings):
    """Where the windows are, and how much the ledger keeps."""

    GROUP: ClassVar[str] = "ledger"

    ledger_log_length: Annotated[int, Meta(ge=100, le=10_000_000)] = setting(
        50_000,
        "changes kept for scorers and events to catch up with; a scorer further behind reads all of the ledger",
        process=True,
    )
    leavers_most: Annotated[int, Meta(ge=0, le=10_000_000)] = setting(
        100_000,
        "how many of the instances that ended or moved away in the last two hours are kept: load measured while they "
        "were there is not held against their machines",
        process=True,
    )
    remember_s: Annotated[float, Meta(ge=1, le=31 * 86_400)] = setting(
        86_400.0,
        "how long an ended instance stays known, to `windward instances show` and to repeated queries",
        process=True,
    )
    ended_max: Annotated[int, Meta(ge=1_000, le=100_000_000)] = setting(
        1_000_000, "how many ended instances stay known at most; the oldest are forgotten first", process=True
    )

    def ledger_bounds(self) -> dict[str, Any]:
        """Return how much the ledger keeps, as the arguments of `scorer.ledger.store.scripts.Ledger`."""
        return {
            "log_length": self.ledger_log_length, "remember_s": self.remember_s, "ended_max": self.ended_max,
            "leavers_most": self.leavers_most,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class AnsweringSettings(LedgerSettings):
    """Settings of a process that answers queries: a scorer, a planner."""

    name: str = setting("", "name of this process; default: host and process id")
    profiles: tuple[Path, ...] = setting((), "TOML files with profiles, read again on SIGHUP", metavar="FILE")
    profile: str = setting("windward", "profile of queries that name none")
    refresh_s: Annotated[float, Meta(ge=0.005, le=60)] = setting(0.05, "shortest time between two reads of the windows")
    queue_length_max: Count = setting(10_000, "queries that may wait; those beyond get RESOURCE_EXHAUSTED at once")
    heartbeat_s: Annotated[float, Meta(ge=0.05, le=10)] = setting(0.5, "time between two heartbeats of this process")
    silent_s: Annotated[float, Meta(ge=0.2, le=600)] = setting(
        2.0, "after so long without a heartbeat a process counts as dead: its queries go back to the queue"
    )
    decisions_length: Annotated[int, Meta(ge=0, le=10_000_000)] = setting(
        100_000, "decisions kept for `windward why`; 0: none"
    )
    decisions_bytes: Annotated[int, Meta(ge=2**20, le=2**40)] = setting(
        256 * 2**20, "the most bytes of the decisions kept; the larger they are, the fewer are kept"
    )
    acknowledged_by: Annotated[int, Meta(ge=0, le=100)] = setting(
        0,
        "replicas of the ledger's server that must have a change before it is answered; where they have not within "
        "half a second, the answer is UNAVAILABLE, and the same query finds what became of it",
    )
    metrics_host: str = setting("127.0.0.1", "address of the metrics and health pages")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(0, "their port; 0: none")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name and not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.name):
            raise ValueError(f"name: {self.name!r} is not 1 to 64 of A-Z a-z 0-9 . _ -")
        if self.silent_s < 2 * self.heartbeat_s:
            raise ValueError(f"silent_s: {self.silent_s} is less than twice heartbeat_s ({self.heartbeat_s})")

    @property
    def holder(self) -> str:
        """The name under which queries are claimed and leases are held; two processes never share one."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"

    @property
    def lists(self) -> QueryLists:
        """The lists of queries that the process answers."""
        return self.names.of_planners

    @property
    def together(self) -> int:
        """The most queries that it takes at once: one where each may take seconds and other processes are free."""
        return 1

    @property
    def block_s(self) -> float:
        """The time that it waits for a query before it checks the operators' list."""
        return 0.05


@dataclass(frozen=True, kw_only=True)
class ScorerSettings(AnsweringSettings):
    """Answer placement queries. Any number of scorers may run; each query is answered by one."""

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward scorer --redis-url redis://server:6379/0 --metrics-port 9465",
        "windward scorer --profiles mine.toml --profile mine",
    )

    drain_max: Annotated[int, Meta(ge=1, le=256)] = setting(32, "the most queries taken together")
    ledger_check_s: Annotated[float, Meta(ge=0, le=31 * 86_400)] = setting(
        3600.0, "seconds between two checks of the ledger's sums by any scorer; 0: only at start"
    )
    attempts_max: Annotated[int, Meta(ge=1, le=1_000)] = setting(
        20, "how often a placement is tried again when other scorers changed its machines"
    )
    learn_s: Annotated[float, Meta(ge=0, le=86_400)] = setting(
        300.0, "time between two observations by the one scorer that learns; 0: this scorer never learns"
    )

    @property
    def lists(self) -> QueryLists:
        return self.names.of_scorers

    @property
    def together(self) -> int:
        """As many as set: each takes a few milliseconds."""
        return self.drain_max

    @property
    def block_s(self) -> float:
        return 0.25


@dataclass(frozen=True, kw_only=True)
class ClientSettings(RedisSettings):
    """The settings of every command that calls the scorer."""

    GROUP: ClassVar[str] = "output"
    ONE_CALL: ClassVar[bool] = True

    timeout: Seconds = setting(5.0, "how long to wait for the answer", duration=True)
    json: bool = setting(False, "print the answer as JSON, and an error as JSON on stderr")
    wide: bool = setting(False, "show every column, however narrow the terminal is")
