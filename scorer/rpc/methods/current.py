"""Shell: the inputs of an answer: the newest snapshot, the current ledger, the profiles in force."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import redis

from schemas.rpc.envelope import Query
from scorer.ledger.record.transition import Call
from scorer.ledger.store.follower import Follower
from scorer.ledger.view.view import LedgerView
from scorer.metrics import AnsweringMetrics
from scorer.ranking.inputs import FleetState, RankingInputs, Tables
from scorer.ranking.profiles.catalogue import Profiles
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.staleness import degraded
from scorer.snapshot.builder import build_snapshot
from scorer.snapshot.snapshot import Latest, Snapshot
from scorer.wire import AWAY, Command

_LOOK_S = 1.0
"""Shortest time between two looks at the age of all data."""
_TELL_S = 0.05
"""Shortest time between two updates of the gauges, and of the ledger's machines for the source of snapshots."""


@dataclass(eq=False)
class Current:
    """The inputs of decisions, in one consistent state: `accept` updates them when queries are taken."""

    follower: Follower
    latest: Latest
    """Where the newest snapshot is taken from."""
    profiles: Profiles
    metrics: AnsweringMetrics
    same_server: bool
    """Whether the ledger is on the server of the queries."""
    clock: Callable[[], float] = time.time
    """Returns the time by which deadlines are compared: that of the queries' server."""
    on_ledger: Callable[[float], float] = float
    """Returns such a time by the clock of the ledger's server."""

    def __post_init__(self) -> None:
        self.snapshot = self.latest.snapshot or build_snapshot((), {}, {})
        self.tables = Tables()
        """The rows of the machines."""
        self._reloads = self._lost = 0
        self._told, self._told_at, self._looked_at = -1, 0.0, 0.0

    @property
    def ledger(self) -> LedgerView:
        """The ledger view, as of the last change read."""
        return self.follower.view

    def call(self, query: Query) -> Call:
        return Call(query.id, self.on_ledger(query.deadline))

    def ranking(self, profile: Profile) -> RankingInputs:
        return RankingInputs(self.snapshot, self.ledger, profile, self.clock(), self.tables)

    @property
    def ready(self) -> bool:
        """Whether windows and ledger have been read."""
        return self.follower.loaded and self.latest.snapshot is not None

    def reads(self) -> Sequence[Command]:
        """Return the commands that read the ledger's log; none when it is on another server than the queries."""
        return self.follower.reads() if self.same_server else ()

    def begin(self) -> None:
        """Read the ledger before other threads start, for speed; a server that is away is read later."""
        with suppress(*AWAY, redis.ResponseError):
            self.follower.poll()

    def accept(self, answers: Sequence[Any]) -> None:
        """Update ledger and snapshot before decisions."""
        if self.same_server:
            self.follower.accept(answers)
        else:
            self.follower.poll()
        if self._reloads != self.follower.reloads:
            self.metrics.reloads.inc(self.follower.reloads - self._reloads)
            self._reloads = self.follower.reloads
        if self._lost != self.follower.lost:
            self.metrics.lost.inc(self.follower.lost - self._lost)
            self._lost = self.follower.lost
        if self.latest.snapshot is not None:
            self.snapshot = self.latest.snapshot
        if (now := time.monotonic()) > self._told_at + _TELL_S:
            self._told_at = now
            self._tell(now)

    def newest(self, now_s: float) -> FleetState:
        """Return the present fleet: the last query may have taken seconds. Raises one of `AWAY`, UnknownFormat."""
        self.follower.poll()
        self.follower.require()
        self.snapshot = self.latest.snapshot or self.snapshot
        return FleetState(self.snapshot, self.ledger, now_s)

    def cordon(self, machines: Sequence[str]) -> None:
        """Count machines as cordoned that were written as such by this query, and are not read yet."""
        self.snapshot = self.snapshot.with_cordon(machines)

    def prepare(self, snapshot: Snapshot) -> None:
        """Compute the rows that a new snapshot changes as a whole; called by the thread that builds it."""
        for _ in self.tables.prepare(snapshot, self.ledger, self.profiles.choose(), self.clock()):
            time.sleep(0)  # another thread's turn

    def _tell(self, now: float) -> None:
        """Set the gauges, and send the machines that hold instances to the source of snapshots."""
        if self.follower.change != self._told:
            self.latest.ledger_machines = self.ledger.machine_names
            self._told = self.follower.change
        self.metrics.instances.set(len(self.ledger))
        self.metrics.ready.set(float(self.ready))
        if now > self._looked_at + _LOOK_S:
            self._looked_at = now
            self.metrics.degraded.set(float(bool(self.degraded)))

    @property
    def degraded(self) -> str:
        """The fault of the data that decisions use, in words; "" when there is none."""
        return degraded(self.snapshot, self.profiles.choose(), self.clock())
