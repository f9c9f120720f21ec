"""``windward pods``: keep the ledger equal to the pods of a Kubernetes cluster until SIGTERM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.process.run import Process, command
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.kubernetes.pods.metrics import Metrics
from scorer.kubernetes.pods.nodes import NodeFacts
from scorer.kubernetes.pods.settings import PodsSettings
from scorer.kubernetes.pods.watcher import PodsWatcher
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import refuse_mode
from scorer.wire import Wire

SETTINGS = PodsSettings


def build(settings: PodsSettings, environ: Mapping[str, str]) -> Process:
    """Return the process that follows the pods of a cluster."""
    how, api = settings.reading, settings.api(environ)
    refuse_mode("ledger_url" if settings.ledger_url else "redis_url", settings.ledger_arguments())
    metrics, wire = Metrics(product_version()), Wire(settings.ledger_arguments())
    ledger = Ledger(wire, settings.names, **settings.ledger_bounds())
    nodes = NodeFacts(Wire(settings.redis_arguments()), settings.names, how.cluster, metrics)
    watcher = PodsWatcher(ledger, settings.holder, settings.lease_s, api, how, metrics, nodes)

    def work(stop: Stop) -> None:
        while not stop.wait(watcher.turn(stop)):
            pass

    def state() -> tuple[bool, dict[str, Any]]:
        seen = {"cluster": settings.kubernetes, "leads": watcher.leads}
        return (watcher.watches or not watcher.leads) and not watcher.trouble, seen | (
            {"error": watcher.trouble} if watcher.trouble else {}
        )

    first = {"cluster": settings.kubernetes}
    found = Process(work=work, registry=metrics.registry, ready=state, name=settings.holder, first=first)
    for close in (nodes.close, wire.close, watcher.stop):
        found.closing.callback(close)
    return found


main = command("pods", SETTINGS, build)
