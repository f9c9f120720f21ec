"""``windward extender``: answer kube-scheduler's questions until SIGTERM."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from schemas.process.pages import while_accepting
from schemas.process.run import Process, command
from schemas.process.settings import SettingsError
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.kubernetes.extender.binding import Binder
from scorer.kubernetes.extender.extender import profile_for
from scorer.kubernetes.extender.fleet import FollowedFleet, Holds
from scorer.kubernetes.extender.metrics import Metrics
from scorer.kubernetes.extender.server import serve
from scorer.kubernetes.extender.settings import ExtenderSettings
from scorer.kubernetes.extender.verbs import Verbs
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import profiles_of, refuse_modes
from scorer.live.loader import Loader
from scorer.ranking.profiles.profile import ProfileError
from scorer.wire import Wire

SETTINGS = ExtenderSettings
_SWITCH_INTERVAL_S = 0.0005
"""The longest time for which the fleet's thread may hold the interpreter while a verb waits."""
_FACTS_S = 1.0


def build(settings: ExtenderSettings, environ: Mapping[str, str]) -> Process:
    """Return the process of an extender; it listens, and has read the fleet."""
    try:
        profile = profile_for(profiles_of(settings).choose(), settings.mode)
    except ProfileError as error:
        raise SettingsError(f"profiles: {error}") from None
    how, context = settings.reading, settings.server_tls()

    def ledger() -> Ledger:
        return Ledger(Wire(settings.ledger_arguments()), settings.names, **settings.ledger_bounds())

    binder = Binder(settings.api(environ), ledger) if settings.mode == "bind" else None
    refuse_modes(settings)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    metrics = Metrics(product_version())
    loader = Loader(Wire(settings.redis_arguments()), settings.names, windows_wire(settings), facts_s=_FACTS_S)
    holds = Holds(Wire(settings.redis_arguments()), settings.names)
    fleet = FollowedFleet(ledger(), loader, profile, metrics, settings.refresh, holds)
    verbs = Verbs(fleet, settings.mode, how, metrics, settings.scored_max, settings.scheduler_names, binder)

    def state() -> tuple[bool, dict[str, Any]]:
        with fleet.lock:
            why = fleet.why_not() or ("stale" if fleet.is_stale() else "")
        details: dict[str, Any] = {"mode": settings.mode, "machines": fleet.machines()}
        return not why, details | ({"neutral": why} if why else {}) | (
            {"error": fleet.trouble} if fleet.trouble else {}
        )

    with ExitStack() as closing:
        closing.callback(fleet.stop)
        fleet.turn()
        fleet.start()
        server = serve(verbs, settings.listen_host, settings.listen_port, context, settings.client_names)
        closing.callback(server.stop)
        first = {"mode": settings.mode, "host": settings.listen_host, "port": server.port, "tls": context is not None}
        ready = while_accepting(server, state)
        return Process(work=Stop.wait, closing=closing.pop_all(), registry=metrics.registry, ready=ready, first=first)


main = command("extender", SETTINGS, build)
