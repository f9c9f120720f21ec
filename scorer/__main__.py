"""``windward scorer``: answer placement queries until SIGTERM. SIGHUP reads the profiles again."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from schemas.process.logs import configure_logs
from schemas.process.pages import serve_pages
from schemas.process.presence import Presence, page_of
from schemas.process.settings import SettingsError, load_settings
from schemas.process.signals import Stop, handle_signals
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
from scorer.live.live_fleet import refuse_modes
from scorer.live.loader import Loader
from scorer.live.wake_ups import WakeUps
from scorer.metrics import Metrics
from scorer.ranking.profiles.catalogue import Profiles, load_profiles
from scorer.ranking.profiles.profile import Profile, ProfileError
from scorer.rpc.loop import Rpc
from scorer.rpc.methods.current import Current
from scorer.rpc.operators.operator_rules import OperatorRules
from scorer.rpc.service import METHODS, ScorerService
from scorer.server_clock import ServerClock
from scorer.settings import ScorerSettings
from scorer.snapshot.latest import Latest
from scorer.wire import Wire

log = logging.getLogger("windward.scorer")

FACTS_S = 1.0
"""Shortest time between two reads of the machines' facts (labels, capacity)."""
_SWITCH_INTERVAL_S = 0.0005
"""The longest time for which the refresher may hold the interpreter while a query waits."""


SETTINGS = ScorerSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run a scorer."""
    settings = load_settings(ScorerSettings, "scorer", argv, environ)
    configure_logs(settings.log_level, settings.log_format)
    try:
        profiles = load_profiles(settings.profiles, settings.profile)
    except ProfileError as error:
        raise SettingsError(f"profiles: {error}") from None
    return run(settings, profiles)


def run(settings: ScorerSettings, profiles: Profiles) -> int:
    """Run the loop until a signal; close everything."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    refuse_modes(settings)
    parts = build(settings, profiles)
    stop, current, scorer = Stop(), parts.current, settings.scorer

    def ahead_s() -> float:
        return round(parts.clock.ahead_s, 3)

    def read_again() -> None:
        current.profiles = load_profiles(settings.profiles, settings.profile)
        log.info("scorer.profiles.reloaded")

    def refused(error: Exception) -> None:
        log.warning("scorer.profiles.refused", extra={"values": {"error": str(error)}})

    def state() -> tuple[bool, dict[str, Any]]:
        return current.ready, {"scorer": scorer, "degraded": current.degraded, "clock_ahead_s": ahead_s()}

    handle_signals(stop, read_again, refused)
    pages = None
    if settings.metrics_port:
        pages = serve_pages(
            current.metrics.registry,
            settings.metrics_host,
            settings.metrics_port,
            state,
            fleet=settings.prefix,
        )
    values = {"scorer": scorer, "profile": settings.profile, "prefix": settings.names.prefix}
    log.info("scorer.start", extra={"values": values})
    page = page_of(settings.metrics_host, settings.metrics_port)
    presence = Presence("scorer", settings.names, settings.redis_arguments(), name=scorer, page=page, ready=state)
    try:
        with presence:
            heartbeat, *others = parts.background
            heartbeat.start()
            parts.refresher.look()
            current.begin()
            for thread in others:
                thread.start()
            parts.rpc.run(stop)
    finally:
        for thread in reversed(parts.background):
            thread.stop()
        parts.wire.close()
        if pages is not None:
            pages.stop()
    log.info("scorer.stop", extra={"values": {"scorer": scorer}})
    return 0


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
    refresher = Refresher(loader, latest, current.warm, metrics, settings.refresh_s, wake_ups)
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
