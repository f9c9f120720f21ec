"""Shell: the parts of a process that answers queries: connections, heartbeat, the newest fleet, the loop."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from schemas.process.presence import Presence
from schemas.process.run import Process
from schemas.process.signals import Stop
from scorer.background.thread import BackgroundThread
from scorer.cluster_wire import windows_wire
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.live.loader import Loader, WakeUps
from scorer.metrics import AnsweringMetrics
from scorer.ranking.profiles.catalogue import Profiles, load_profiles
from scorer.rpc.loop import Rpc
from scorer.rpc.methods.current import Current
from scorer.rpc.operator_rules import OperatorRules
from scorer.settings import AnsweringSettings
from scorer.snapshot.snapshot import Latest, Snapshot
from scorer.wire import AWAY, ServerClock, Wire

if TYPE_CHECKING:
    from scorer.rpc.service import AnsweringService

FACTS_S = 1.0
"""Shortest time between two reads of the machines' facts (labels, capacity)."""


_REMEMBERED_S = 3600.0
"""A process without a heartbeat for so long is removed from the list."""


class Heartbeat(Presence):
    """Every ``heartbeat_s``: writes a heartbeat, and returns the queries of dead processes of its kind."""

    def __init__(
        self, wire: Wire, metrics: AnsweringMetrics, settings: AnsweringSettings, clock: ServerClock, *where: Any,
        **about: Any,
    ) -> None:  # fmt: skip
        """``where``, ``about``: the arguments of `Presence`."""
        super().__init__(*where, **about, tell_clock=metrics.clock_ahead.set)
        self._wire, self._metrics, self._clock = wire, metrics, clock
        self._lists, self._name = settings.lists, settings.holder
        self.every_s, self._silent_s = settings.heartbeat_s, settings.silent_s

    def _read_clock(self) -> float:
        """Note the process in the list of those that answer, and return the queries of silent ones to their lists.

        The name of a silent process is kept for an hour: if it was only suspended, it may claim a query before its next
        heartbeat. Returns the server's time.
        """
        now_s = self._clock.read(self._wire)
        self.tell(self._clock.ahead_s)
        names = self._lists.answering
        _, _, silent = self._wire.ask(
            [
                ("ZADD", names, now_s, self._name),
                ("ZREMRANGEBYSCORE", names, "-inf", now_s - _REMEMBERED_S),
                ("ZRANGEBYSCORE", names, "-inf", now_s - self._silent_s),
            ]
        )
        if isinstance(silent, list) and silent:
            self._return([name.decode(errors="replace") for name in silent])
        return now_s

    def _return(self, silent: Sequence[str]) -> None:
        """Return the queries that silent processes had claimed to their lists; several processes may do so at once."""
        claimed = [(name, *lists) for name in silent for lists in self._lists.pairs(name)]
        while claimed:
            moved = self._wire.ask([("LMOVE", taken, queue, "LEFT", "RIGHT") for _, taken, queue in claimed])
            claimed = [one for one, query in zip(claimed, moved, strict=True) if isinstance(query, bytes)]
            for name, _, _ in claimed:
                self._metrics.returned.inc()
                log.warning("scorer.query.returned", extra={"values": {"silent": name}})

    def stop(self, *, goodbye: bool = True) -> None:
        """End the heartbeats, and remove the process's name, unless its queries must still be returned."""
        super().stop(goodbye=goodbye)
        with suppress(*AWAY, redis.ResponseError):
            if not any(self._wire.one("LLEN", taken) for taken, _ in self._lists.pairs(self._name)):
                self._wire.one("ZREM", self._lists.answering, self._name)


log = logging.getLogger("windward.scorer")


class Refresher(BackgroundThread):
    """Refreshes ``latest`` when it is woken, each second at least, and not more often than every ``refresh_s``.

    ``prepare`` is called with each new snapshot before it becomes the latest. An exception of it is logged, and the
    snapshot is used nevertheless.
    """

    def __init__(
        self,
        loader: Loader,
        latest: Latest,
        prepare: Callable[[Snapshot], object],
        metrics: AnsweringMetrics,
        refresh_s: float,
        wake_ups: Callable[[threading.Event], WakeUps],
    ) -> None:
        super().__init__("refresher", loader.wire, loader.windows)
        self._wake_ups = wake_ups(self.stopping)
        self._loader = loader
        self._latest = latest
        self._prepare = prepare
        self._metrics = metrics
        self._refresh_s = refresh_s

    def look(self, woken: Iterable[int] | None = None) -> None:
        """Refresh once, the windows of these partitions or all; on failure the last snapshot stays the latest."""
        started = time.perf_counter()
        try:
            snapshot = self._loader.refresh(self._latest.ledger_machines, woken)
        except AWAY:
            self._metrics.refresh_failures.labels("redis").inc()
            return
        except Exception:
            self._metrics.refresh_failures.labels("internal").inc()
            log.exception("scorer.refresh.failed")
            return
        self._metrics.refresh_failures.labels("tables").inc(self._loader.refused)
        if snapshot is not None:
            try:
                self._prepare(snapshot)
            except Exception as error:
                self._metrics.refresh_failures.labels("rows").inc()
                said = f"{type(error).__name__}: {error}"
                log.warning("scorer.refresh.rows_failed", extra={"values": {"error": said}})
            self._latest.snapshot = snapshot
            self._latest.rules_version = self._loader.operator_version
            self._metrics.refresh_s.observe(time.perf_counter() - started)
            self._metrics.refreshed.set(time.time())
            self._metrics.machines.set(len(snapshot))
            if snapshot.machines_with_data:
                self._metrics.newest.set(snapshot.newest_at)

    def run(self) -> None:
        woken = None
        while not self.stopping.is_set():
            started = time.monotonic()
            self.look(woken)
            self.stopping.wait(max(0.001, self._refresh_s - (time.monotonic() - started)))
            woken = self._wake_ups.wait()
        self._wake_ups.close()


class Parts:
    """The parts of a process that answers queries; nothing connects before it runs.

    Each thread has connections of its own. The loop and its ledger share one where both are on one server.
    """

    rpc: Rpc

    def __init__(self, settings: AnsweringSettings, profiles: Profiles, metrics: AnsweringMetrics) -> None:
        self.settings = settings
        self.arguments, self.ledger_arguments = settings.redis_arguments(), settings.ledger_arguments()
        self.same_server = self.arguments == self.ledger_arguments
        self.wire, self.latest, self.clock = Wire(self.arguments), Latest(), ServerClock()
        """The connection of the loop; where the newest snapshot is taken from; the time of the queries' server."""
        own = self.wire if self.same_server else Wire(self.ledger_arguments)
        self.ledger = self.ledger_on(own, settings.acknowledged_by)
        self.rules = OperatorRules(self.wire, settings.names)
        self.current = Current(
            Follower(self.ledger), self.latest, profiles, metrics, self.same_server, self.clock, self.clock.on_ledger
        )
        loader = Loader(Wire(self.arguments), settings.names, windows_wire(settings), facts_s=FACTS_S)
        wake_ups = partial(WakeUps, self.arguments, settings.names)
        self.refresher = Refresher(loader, self.latest, self.current.prepare, metrics, settings.refresh_s, wake_ups)
        self._metrics = metrics
        self._background: list[BackgroundThread] = []
        """In the order in which they are started."""

    def ledger_on(self, wire: Wire, acknowledged_by: int = 0) -> Ledger:
        settings = self.settings
        return Ledger(wire, settings.names, acknowledged_by=acknowledged_by, **settings.ledger_bounds())

    def answer_by(self, service: "AnsweringService", background: Sequence[BackgroundThread] = ()) -> None:
        """Set the object that answers the queries, and the other threads."""
        self.rpc = Rpc(self.wire, service, self._metrics, self.settings, self.clock)
        self._background = [self.refresher, *background]

    def run(self, stop: Stop) -> None:
        self.refresher.look()
        self.current.begin()
        for thread in self._background:
            thread.start()
        self.rpc.run(stop)

    def close(self) -> None:
        for thread in reversed(self._background):
            thread.stop()
        self.wire.close()
        self.ledger.wire.close()

    def process(
        self, follow: Callable[[Profiles], object] = lambda _: None, close: Sequence[Callable[[], object]] = ()
    ) -> Process:
        """Return the process; ``follow``: takes reloaded profiles, or refuses them by an exception."""
        settings, current = self.settings, self.current

        def read_profiles() -> None:
            profiles = load_profiles(settings.profiles, settings.profile)
            follow(profiles)
            current.profiles = profiles

        def state() -> tuple[bool, dict[str, Any]]:
            known = {"degraded": current.degraded, "clock_ahead_s": round(self.clock.ahead_s, 3)}
            return current.ready, {"name": settings.holder, **known, "profiles": current.profiles.digest}

        beats = Wire(self.arguments)
        return Process(
            work=self.run, registry=self._metrics.registry, ready=state, name=settings.holder,
            read_again=read_profiles, first={"profile": settings.profile, "prefix": settings.names.prefix},
            presence=partial(Heartbeat, beats, self._metrics, settings, self.clock),
            close=(self.close, beats.close, *close),
        )  # fmt: skip
