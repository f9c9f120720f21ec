"""``windward extender``: answer kube-scheduler's questions until SIGTERM."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from schemas.process.logs import configure_logs
from schemas.process.pages import serve_pages
from schemas.process.presence import Presence, page_of
from schemas.process.settings import SettingsError, load_settings
from schemas.process.signals import Stop, handle_signals
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.kubernetes.extender.binding import Binder
from scorer.kubernetes.extender.extender import profile_for
from scorer.kubernetes.extender.fleet import FollowedFleet
from scorer.kubernetes.extender.metrics import Metrics
from scorer.kubernetes.extender.server import serve
from scorer.kubernetes.extender.settings import ExtenderSettings
from scorer.kubernetes.extender.verbs import Verbs
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import refuse_modes
from scorer.live.loader import Loader
from scorer.ranking.profiles.catalogue import load_profiles
from scorer.ranking.profiles.profile import Profile, ProfileError
from scorer.wire import Wire

log = logging.getLogger("windward.extender")

SETTINGS = ExtenderSettings
_SWITCH_INTERVAL_S = 0.0005
"""The longest time for which the fleet's thread may hold the interpreter while a verb waits."""
_FACTS_S = 1.0


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run an extender."""
    settings = load_settings(ExtenderSettings, "extender", argv, environ)
    configure_logs(settings.log_level, settings.log_format)
    try:
        profile = profile_for(load_profiles(settings.profiles, settings.profile).choose(), settings.mode)
    except ProfileError as error:
        raise SettingsError(f"profiles: {error}") from None
    return run(settings, profile, environ)


def run(settings: ExtenderSettings, profile: Profile, environ: Mapping[str, str]) -> int:
    """Build the parts, answer until a signal, close everything."""
    how, context = settings.reading, settings.server_tls()

    def ledger() -> Ledger:
        return Ledger(Wire(settings.ledger_arguments()), settings.names, **settings.ledger_bounds())

    binder = Binder(settings.api(environ), ledger) if settings.mode == "bind" else None
    refuse_modes(settings)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    metrics = Metrics(product_version())
    loader = Loader(Wire(settings.redis_arguments()), settings.names, windows_wire(settings), facts_s=_FACTS_S)
    fleet = FollowedFleet(ledger(), loader, profile, metrics, settings.refresh)
    verbs = Verbs(fleet, settings.mode, how, metrics, settings.scored_max, settings.scheduler_names, binder)
    fleet.changed = verbs.prepare

    def state() -> tuple[bool, dict[str, Any]]:
        with fleet.lock:
            why = fleet.why_not() or ("stale" if fleet.is_stale() else "")
        details: dict[str, Any] = {"mode": settings.mode, "machines": fleet.machines()}
        return not why, details | ({"neutral": why} if why else {}) | (
            {"error": fleet.trouble} if fleet.trouble else {}
        )

    stop = Stop()
    handle_signals(stop, lambda: None, lambda _: None)
    page = page_of(settings.metrics_host, settings.metrics_port)
    presence = Presence("extender", settings.names, settings.redis_arguments(), page=page, ready=state)
    pages = server = None
    try:
        fleet.turn()
        fleet.start()
        server = serve(verbs, settings.listen_host, settings.listen_port, context, settings.client_names)
        if settings.metrics_port:
            host, port = settings.metrics_host, settings.metrics_port
            pages = serve_pages(metrics.registry, host, port, state, fleet=settings.prefix)
        values = {"mode": settings.mode, "host": settings.listen_host, "port": server.port, "tls": context is not None}
        log.info("extender.start", extra={"values": values})
        with presence:
            stop.wait()
    finally:
        for each in (server, pages, fleet):
            if each is not None:
                each.stop()
    log.info("extender.stop")
    return 0


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
