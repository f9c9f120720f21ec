"""``windward evictor``: evict pods that should move, until SIGTERM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.process.run import Process, command
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.client import Client
from scorer.kubernetes.api_calls import Calls
from scorer.kubernetes.evictor.eviction import Evictions
from scorer.kubernetes.evictor.evictor import Evictor, How, Proposals
from scorer.kubernetes.evictor.metrics import Metrics
from scorer.kubernetes.evictor.rules import Rates
from scorer.kubernetes.evictor.settings import EvictorSettings
from scorer.wire import Wire

SETTINGS = EvictorSettings


def build(settings: EvictorSettings, environ: Mapping[str, str]) -> Process:
    """Return the process of an evictor."""
    how = How(settings.reading, settings.apply, settings.hold, settings.backoff, settings.not_namespaces)
    evictions = Evictions(Calls(settings.api(environ)))
    metrics, wire = Metrics(product_version()), Wire(settings.redis_arguments())
    scorer = Client(prefix=settings.prefix, **settings.redis_arguments())
    rates = Rates(settings.hour_max, settings.at_once)
    evictor = Evictor(Proposals(wire, settings.names), scorer, evictions, rates, how, metrics)

    def work(stop: Stop) -> None:
        evictor.turn()
        while not stop.wait(settings.every):
            evictor.turn()

    def state() -> tuple[bool, dict[str, Any]]:
        seen = {"cluster": settings.kubernetes, "apply": settings.apply, "open": evictor.open}
        return not evictor.trouble, seen | ({"error": evictor.trouble} if evictor.trouble else {})

    first = {"cluster": settings.kubernetes, "apply": settings.apply}
    found = Process(work=work, registry=metrics.registry, ready=state, first=first)
    for close in (wire.close, scorer.close):
        found.closing.callback(close)
    return found


main = command("evictor", SETTINGS, build)
