"""``windward evictor``: evict pods that should move, until SIGTERM."""

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
from scorer.client import Client
from scorer.kubernetes.api_calls import Calls
from scorer.kubernetes.evictor.eviction import Evictions
from scorer.kubernetes.evictor.evictor import Evictor, How
from scorer.kubernetes.evictor.metrics import Metrics
from scorer.kubernetes.evictor.proposals import Proposals
from scorer.kubernetes.evictor.rules import Rates
from scorer.kubernetes.evictor.settings import EvictorSettings
from scorer.wire import Wire

log = logging.getLogger("windward.evictor")

SETTINGS = EvictorSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run an evictor."""
    settings = load_settings(EvictorSettings, "evictor", argv, environ)
    how = How(settings.reading, settings.apply, settings.hold, settings.backoff, settings.not_namespaces)
    evictions = Evictions(Calls(settings.api(environ)))
    configure_logs(settings.log_level, settings.log_format)
    return run(settings, how, evictions)


def run(settings: EvictorSettings, how: How, evictions: Evictions) -> int:
    """Build the parts, take turns until a signal, close everything."""
    metrics, wire = Metrics(product_version()), Wire(settings.redis_arguments())
    scorer = Client(prefix=settings.prefix, **settings.redis_arguments())
    rates = Rates(settings.hour_max, settings.at_once)
    evictor = Evictor(Proposals(wire, settings.names), scorer, evictions, rates, how, metrics)

    def state() -> tuple[bool, dict[str, Any]]:
        seen = {"cluster": settings.kubernetes, "apply": settings.apply, "open": evictor.open}
        return not evictor.trouble, seen | ({"error": evictor.trouble} if evictor.trouble else {})

    stop = Stop()
    handle_signals(stop, lambda: None, lambda _: None)
    page = page_of(settings.metrics_host, settings.metrics_port)
    presence = Presence("evictor", settings.names, settings.redis_arguments(), page=page, ready=state)
    pages = None
    if settings.metrics_port:
        host, port = settings.metrics_host, settings.metrics_port
        pages = serve_pages(metrics.registry, host, port, state, fleet=settings.prefix)
    log.info("evictor.start", extra={"values": {"cluster": settings.kubernetes, "apply": settings.apply}})
    try:
        with presence, scorer:
            evictor.turn()
            while not stop.wait(settings.every):
                evictor.turn()
    finally:
        wire.close()
        if pages is not None:
            pages.stop()
    log.info("evictor.stop")
    return 0


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
