"""``windward scorer``: answer placement queries until SIGTERM. SIGHUP reads the profiles again."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from schemas.process.run import Process, run
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.background.checker import Checker
from scorer.background.drainer import Drainer
from scorer.background.heartbeat import Heartbeat
from scorer.background.learner import Learner
from scorer.background.refresher import Refresher
from scorer.background.sweeper import Sweeper
from scorer.background.thread import BackgroundThread
from scorer.cluster_wire import windows_wire
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import profiles_of, refuse_modes
from scorer.live.loader import Loader
from scorer.live.wake_ups import WakeUps
from scorer.metrics import Metrics
from scorer.ranking.profiles.catalogue import Profiles, load_profiles
from scorer.ranking.profiles.profile import Profile
from scorer.rpc.loop import Rpc
from scorer.rpc.methods.current import Current
from scorer.rpc.operators.operator_rules import OperatorRules
from scorer.rpc.service import METHODS, ScorerService
from scorer.server_clock import ServerClock
from scorer.settings import ScorerSettings
from scorer.snapshot.snapshot import Latest
from scorer.wire import Wire

FACTS_S = 1.0
"""Shortest time between two reads of the machines' facts (labels, capacity)."""
_SWITCH_INTERVAL_S = 0.0005
"""The longest time for which the refresher may hold the interpreter while a query waits."""


SETTINGS = ScorerSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run a scorer."""
    return run("scorer", ScorerSettings, process, argv, environ)


def process(settings: ScorerSettings, _environ: Mapping[str, str]) -> Process:
    """Return the process of a scorer."""
    profiles = profiles_of(settings)
    refuse_modes(settings)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    parts = build(settings, profiles)
    current, scorer = parts.current, settings.scorer

    def read_again() -> None:
        current.profiles = load_profiles(settings.profiles, settings.profile)

    def state() -> tuple[bool, dict[str, Any]]:
        ahead_s = round(parts.clock.ahead_s, 3)
        return current.ready, {"scorer": scorer, "degraded": current.degraded, "clock_ahead_s": ahead_s}

    found = Process(
        work=parts.run, registry=current.metrics.registry, ready=state, name=scorer, read_again=read_again,
        first={"profile": settings.profile, "prefix": settings.names.prefix},
    )  # fmt: skip
    found.closing.callback(parts.close)
    return found


@dataclass(frozen=True)
class Parts:
    """What a scorer consists of, not yet running."""

    wire: Wire
    """The connection of the loop."""
    rpc: Rpc
    current: Current
    refresher: Refresher
    clock: ServerClock
    background: tuple[BackgroundThread, ...]
    """In the order in which they are started; the first tells the server's time and starts before anything is read."""

    def run(self, stop: Stop) -> None:
        """Start the threads, answer queries until the event is set."""
        heartbeat, *others = self.background
        heartbeat.start()
        self.refresher.look()
        self.current.begin()
        for thread in others:
            thread.start()
        self.rpc.run(stop)

    def close(self) -> None:
        """End the threads, close the connection."""
        for thread in reversed(self.background):
            thread.stop()
        self.wire.close()


def build(settings: ScorerSettings, profiles: Profiles) -> Parts:
    """Build the parts of a scorer; nothing connects yet.

    Each thread has connections of its own. The loop and its ledger share one where both are on one server.
    """
    arguments, ledger_arguments = settings.redis_arguments(), settings.ledger_arguments()
    same_server = arguments == ledger_arguments

    def ledger_on(wire: Wire, acknowledged_by: int = 0) -> Ledger:
        return Ledger(wire, settings.names, acknowledged_by=acknowledged_by, **settings.ledger_bounds())

    wire, metrics, latest, clock = Wire(arguments), Metrics(product_version(), METHODS), Latest(), ServerClock()
    ledger = ledger_on(wire if same_server else Wire(ledger_arguments), settings.acknowledged_by)

    def in_force() -> Profile:
        return current.profiles.choose()

    current = Current(Follower(ledger), latest, profiles, metrics, same_server, clock, clock.on_ledger)
    loader = Loader(Wire(arguments), settings.names, windows_wire(settings), facts_s=FACTS_S)
    wake_ups = partial(WakeUps, arguments, settings.names)
    refresher = Refresher(loader, latest, current.prepare, metrics, settings.refresh_s, wake_ups)
    checker = Checker(ledger_on, ledger_arguments, metrics, settings)
    background: list[BackgroundThread] = [
        Heartbeat(Wire(arguments), metrics, settings, clock),
        refresher,
        Sweeper(ledger_on(Wire(ledger_arguments)), metrics, None if same_server else clock),
        checker,
    ]
    own = deque[bytes]()
    if settings.drain_s:
        drains = ledger_on(Wire(ledger_arguments))
        background.append(Drainer(drains, Wire(arguments), settings.names, settings.scorer, settings.drain_s, own))
    if settings.learn_s:
        learns = ledger_on(Wire(ledger_arguments))
        background.append(Learner(learns, Wire(arguments), lambda: latest.snapshot, in_force, metrics, settings))
    service = ScorerService(
        settings, current, ledger, OperatorRules(wire, settings.names), lambda: checker.found,
        lambda: clock.ahead_s, lambda: checker.server.unsafe,
    )  # fmt: skip
    return Parts(wire, Rpc(wire, service, metrics, settings, clock, own), current, refresher, clock, tuple(background))


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
