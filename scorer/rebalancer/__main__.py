"""``windward rebalancer``: propose moves until SIGTERM. SIGHUP reads the profiles again."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

from schemas.process.logs import configure_logs
from schemas.process.pages import serve_pages
from schemas.process.presence import Presence, page_of
from schemas.process.settings import load_settings
from schemas.process.signals import Stop, handle_signals
from schemas.process.version import product_version
from scorer.commands.planning.balance_settings import balanced
from scorer.commands.shared.whole_fleet import chosen_profile
from scorer.ledger.store.lease import Lease
from scorer.live.live_fleet import LiveFleet, refuse_modes
from scorer.ranking.profiles.profile import Profile
from scorer.rebalancer.daemon import Daemon
from scorer.rebalancer.metrics import Metrics
from scorer.rebalancer.moves_queue import MovesQueue
from scorer.rebalancer.settings import RebalancerSettings
from scorer.wire import Wire

log = logging.getLogger("windward.rebalancer")

LEASE = "rebalance"

SETTINGS = RebalancerSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run a rebalancer."""
    settings = load_settings(RebalancerSettings, "rebalancer", argv, environ)
    configure_logs(settings.log_level, settings.log_format)
    return run(settings, read_profile(settings))


def read_profile(settings: RebalancerSettings) -> Profile:
    """Return the profile in force; raises SettingsError."""
    return balanced(chosen_profile(settings.profile, [str(path) for path in settings.profiles]), settings)


def run(settings: RebalancerSettings, profile: Profile) -> int:
    """Build the parts, run turns until a signal, close everything."""
    refuse_modes(settings)
    metrics, fleet, queue_wire = Metrics(product_version()), LiveFleet.open(settings), Wire(settings.redis_arguments())
    lease = Lease(fleet.ledger, LEASE, settings.holder, settings.lease_s)
    daemon = Daemon(settings, lease, fleet, MovesQueue(queue_wire, settings.names), profile, metrics)
    stop = Stop()

    def read_again() -> None:
        daemon.profile = read_profile(settings)
        log.info("rebalancer.profile.reloaded")

    def refused(error: Exception) -> None:
        log.warning("rebalancer.profile.refused", extra={"values": {"error": str(error)}})

    def state() -> tuple[bool, dict[str, Any]]:
        seen = {"name": settings.holder, "ledger_unsafe": daemon.server.unsafe, "clock_ahead_s": presence.ahead_s}
        return daemon.well, seen

    presence = Presence(
        "rebalancer", settings.names, settings.redis_arguments(), name=settings.holder,
        page=page_of(settings.metrics_host, settings.metrics_port), ready=state, tell_clock=metrics.clock_ahead.set,
    )  # fmt: skip
    handle_signals(stop, read_again, refused)
    pages = None
    if settings.metrics_port:
        pages = serve_pages(
            metrics.registry, settings.metrics_host, settings.metrics_port, state, fleet=settings.prefix
        )
    log.info("rebalancer.start", extra={"values": {"name": settings.holder, "profile": profile.name}})
    try:
        with presence:
            while not stop.wait(daemon.turn(time.time())):
                pass
    finally:
        daemon.stop()
        fleet.close()
        queue_wire.close()
        if pages is not None:
            pages.stop()
    log.info("rebalancer.stop", extra={"values": {"name": settings.holder}})
    return 0


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
