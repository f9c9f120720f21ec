"""``windward rebalancer``: propose moves until SIGTERM. SIGHUP reads the profiles again."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from schemas.process.run import Process, run
from schemas.process.signals import Stop
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

LEASE = "rebalance"

SETTINGS = RebalancerSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run a rebalancer."""
    return run("rebalancer", RebalancerSettings, build, argv, environ)


def read_profile(settings: RebalancerSettings) -> Profile:
    """Return the profile in force; raises SettingsError."""
    return balanced(chosen_profile(settings.profile, [str(path) for path in settings.profiles]), settings)


def build(settings: RebalancerSettings, _environ: Mapping[str, str]) -> Process:
    """Return the process of a rebalancer."""
    profile = read_profile(settings)
    refuse_modes(settings)
    metrics, fleet, queue_wire = Metrics(product_version()), LiveFleet.open(settings), Wire(settings.redis_arguments())
    lease = Lease(fleet.ledger, LEASE, settings.holder, settings.lease_s)
    daemon = Daemon(settings, lease, fleet, MovesQueue(queue_wire, settings.names), profile, metrics)
    clock = {"clock_ahead_s": 0.0}

    def work(stop: Stop) -> None:
        while not stop.wait(daemon.turn(time.time())):
            pass

    def read_again() -> None:
        daemon.profile = read_profile(settings)

    def state() -> tuple[bool, dict[str, Any]]:
        return daemon.well, {"name": settings.holder, "ledger_unsafe": daemon.server.unsafe, **clock}

    def tell_clock(ahead_s: float) -> None:
        clock["clock_ahead_s"] = ahead_s
        metrics.clock_ahead.set(ahead_s)

    found = Process(
        work=work, registry=metrics.registry, ready=state, name=settings.holder, read_again=read_again,
        tell_clock=tell_clock, first={"profile": profile.name},
    )  # fmt: skip
    for close in (queue_wire.close, fleet.close, daemon.stop):
        found.closing.callback(close)
    return found


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
