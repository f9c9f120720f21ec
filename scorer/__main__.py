"""``windward scorer``: answer placement queries until SIGTERM. SIGHUP reads the profiles again."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from schemas.process.logs import configure_logs
from schemas.process.pages import serve_pages
from schemas.process.settings import SettingsError, load_settings
from schemas.process.signals import handle_signals
from scorer.background.checker import Checker, PacedWire
from scorer.background.heartbeat import Heartbeat
from scorer.background.learner import Learner
from scorer.background.refresher import Refresher
from scorer.background.sweeper import Sweeper
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import refuse_modes
from scorer.live.loader import Loader
from scorer.metrics import Metrics
from scorer.ranking.profiles.catalogue import Profiles, load_profiles
from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.rank import warm
from scorer.rpc.loop import Rpc
from scorer.rpc.service import METHODS, ScorerService
from scorer.settings import ScorerSettings
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
    """Build the parts, run the loop until a signal, close everything."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    names, scorer, metrics = settings.names, settings.scorer, Metrics(own_version(), METHODS)
    arguments, ledger_arguments = settings.redis_arguments(), settings.ledger_arguments()
    wire = Wire(arguments)
    same_server = arguments == ledger_arguments
    refuse_modes(settings)

    def ledger(on: Wire) -> Ledger:
        return Ledger(on, names, **settings.ledger_bounds())

    own_ledger = ledger(wire if same_server else Wire(ledger_arguments))
    follower = Follower(own_ledger)
    refresh_wire = Wire(arguments)
    refresher = Refresher(Loader(refresh_wire, names, facts_s=FACTS_S), refresh_wire, metrics, settings.refresh_s)
    service = ScorerService(
        names=names, scorer=scorer, version=own_version(), follower=follower, ledger=own_ledger,
        source=refresher, profiles=profiles, metrics=metrics, same_server=same_server,
        attempts_max=settings.attempts_max, decisions_length=settings.decisions_length,
        decisions_bytes=settings.decisions_bytes,
    )  # fmt: skip
    refresher.warm = lambda snapshot: warm(snapshot, service.inputs.profiles.choose(), time.time(), service.inputs.kept)
    rpc = Rpc(
        wire, names, scorer, service, metrics,
        queue_length_max=settings.queue_length_max, drain_max=settings.drain_max,
    )  # fmt: skip
    heartbeat = Heartbeat(
        Wire(arguments), names, scorer, metrics, heartbeat_s=settings.heartbeat_s, silent_s=settings.silent_s
    )
    sweeper = Sweeper(ledger(Wire(ledger_arguments)), metrics)
    checker = Checker(
        ledger(Wire(ledger_arguments)), ledger(PacedWire(ledger_arguments)), scorer, metrics, settings.ledger_check_s
    )
    checker.tell = lambda found: setattr(service, "checked", found)
    learner = Learner(
        ledger(Wire(ledger_arguments)), Wire(arguments), names, scorer, lambda: refresher.latest,
        settings.learn_s or 1.0,
    )  # fmt: skip
    stop = threading.Event()

    def read_again() -> None:
        service.inputs.profiles = load_profiles(settings.profiles, settings.profile)
        log.info("scorer.profiles.reloaded")

    def refused(error: Exception) -> None:
        log.warning("scorer.profiles.refused", extra={"values": {"error": str(error)}})

    handle_signals(stop, read_again, refused)
    pages = None
    if settings.metrics_port:
        pages = serve_pages(
            metrics.registry,
            settings.metrics_host,
            settings.metrics_port,
            lambda: (service.inputs.ready, {"scorer": scorer, "degraded": service.inputs.degraded}),
        )
    log.info("scorer.start", extra={"values": {"scorer": scorer, "profile": settings.profile, "prefix": names.prefix}})
    try:
        refresher.look()
        for thread in (heartbeat, refresher, sweeper, checker):
            thread.start()
        if settings.learn_s:
            learner.start()
        rpc.run(stop)
    finally:
        for part in (learner, checker, refresher, sweeper, heartbeat):
            part.stop()
        wire.close()
        if pages is not None:
            pages.stop()
    log.info("scorer.stop", extra={"values": {"scorer": scorer}})
    return 0


def own_version() -> str:
    """Return this package's version."""
    try:
        return version("windward")
    except PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
