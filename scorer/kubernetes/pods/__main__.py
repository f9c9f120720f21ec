"""``windward pods``: keep the ledger equal to the pods of a Kubernetes cluster until SIGTERM."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from schemas.process.logs import configure_logs
from schemas.process.pages import serve_pages
from schemas.process.presence import Presence, page_of
from schemas.process.settings import load_settings
from schemas.process.signals import Stop, handle_signals
from schemas.process.version import product_version
from scorer.kubernetes.pods.metrics import Metrics
from scorer.kubernetes.pods.nodes import NodeFacts
from scorer.kubernetes.pods.settings import PodsSettings
from scorer.kubernetes.pods.watcher import PodsWatcher
from scorer.kubernetes.pods_api import ApiServer
from scorer.kubernetes.pods_request import Reading
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import refuse_mode
from scorer.wire import Wire

log = logging.getLogger("windward.pods")

SETTINGS = PodsSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Follow the pods of a cluster."""
    settings = load_settings(PodsSettings, "pods", argv, environ)
    how, api = settings.reading, settings.api(environ)
    configure_logs(settings.log_level, settings.log_format)
    return run(settings, how, api)


def run(settings: PodsSettings, how: Reading, api: ApiServer) -> int:
    """Build the parts, list and watch until a signal, close everything."""
    refuse_mode("ledger_url" if settings.ledger_url else "redis_url", settings.ledger_arguments())
    metrics, wire = Metrics(product_version()), Wire(settings.ledger_arguments())
    ledger = Ledger(wire, settings.names, **settings.ledger_bounds())
    nodes = NodeFacts(Wire(settings.redis_arguments()), settings.names, how.cluster, metrics)
    watcher = PodsWatcher(ledger, settings.holder, settings.lease_s, api, how, metrics, nodes)

    def state() -> tuple[bool, dict[str, Any]]:
        seen = {"cluster": settings.kubernetes, "leads": watcher.leads}
        return (watcher.watches or not watcher.leads) and not watcher.trouble, seen | (
            {"error": watcher.trouble} if watcher.trouble else {}
        )

    stop = Stop()
    handle_signals(stop, lambda: None, lambda _: None)
    presence = Presence(
        "pods", settings.names, settings.redis_arguments(), name=settings.holder,
        page=page_of(settings.metrics_host, settings.metrics_port), ready=state,
    )  # fmt: skip
    pages = None
    if settings.metrics_port:
        host, port = settings.metrics_host, settings.metrics_port
        pages = serve_pages(metrics.registry, host, port, state, fleet=settings.prefix)
    log.info("pods.start", extra={"values": {"name": settings.holder, "cluster": settings.kubernetes}})
    try:
        with presence:
            while not stop.wait(watcher.turn(stop)):
                pass
    finally:
        watcher.stop()
        wire.close()
        nodes.close()
        if pages is not None:
            pages.stop()
    log.info("pods.stop", extra={"values": {"name": settings.holder}})
    return 0


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
