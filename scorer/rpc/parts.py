"""The parts of a process that answers queries: connections, the newest fleet, the loop; of scorers and of planners."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from schemas.process.run import Process
from schemas.process.signals import Stop
from scorer.background.heartbeat import Heartbeat
from scorer.background.refresher import Refresher
from scorer.background.thread import BackgroundThread
from scorer.cluster_wire import windows_wire
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.live.loader import Loader, WakeUps
from scorer.metrics import AnsweringMetrics
from scorer.ranking.profiles.catalogue import Profiles, load_profiles
from scorer.rpc.loop import Rpc
from scorer.rpc.methods.current import Current
from scorer.rpc.operators.operator_rules import OperatorRules
from scorer.settings import AnsweringSettings
from scorer.snapshot.snapshot import Latest
from scorer.wire import ServerClock, Wire

if TYPE_CHECKING:
    from scorer.rpc.service import AnsweringService

FACTS_S = 1.0
"""Shortest time between two reads of the machines' facts (labels, capacity)."""


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
        self.ledger, self.rules = (
            self.ledger_on(own, settings.acknowledged_by),
            OperatorRules(self.wire, settings.names),
        )
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

    def process(self, follow: Callable[[Profiles], object] = lambda _: None) -> Process:
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
        found = Process(
            work=self.run, registry=self._metrics.registry, ready=state, name=settings.holder,
            read_again=read_profiles, first={"profile": settings.profile, "prefix": settings.names.prefix},
            presence=partial(Heartbeat, beats, self._metrics, settings, self.clock),
        )  # fmt: skip
        found.closing.callback(self.close)
        found.closing.callback(beats.close)
        return found
