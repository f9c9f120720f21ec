"""``windward evictor``: evict pods that should move, until SIGTERM."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.run import Process, command
from schemas.process.settings import setting
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.client import Client
from scorer.kubernetes.evictor.evictor import Evictor, How, Metrics, Proposals, Rates
from scorer.kubernetes.kubernetes_settings import ClusterSettings
from scorer.wire import Wire


@dataclass(frozen=True, kw_only=True)
class EvictorSettings(ClusterSettings):
    """Carry out proposed moves of pods: evict each one, and hold the target for its replacement.

    Without ``--apply`` each eviction is a dry run of the API server, and proposals stay where they are. Evictions keep
    to PodDisruptionBudgets. The replacement goes to the target where `windward extender` scores for its scheduler.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward evictor --kubernetes east --redis-url redis://server:6379/0",
        "windward evictor --kubernetes east --apply --hour-max 30 --metrics-port 9470",
    )

    apply: bool = setting(False, "evict; else say what would be evicted")
    hour_max: Annotated[int, Meta(ge=1, le=100_000)] = setting(60, "evictions in an hour at most")
    at_once: Annotated[int, Meta(ge=1, le=1_000)] = setting(5, "evicted pods at once that are not replaced yet")
    hold: Annotated[float, Meta(ge=5, le=3600)] = setting(
        120.0, "how long the target is held for the replacement", duration=True
    )
    backoff: Annotated[float, Meta(ge=1, le=3600)] = setting(
        30.0,
        "how long a kind is left alone after a refused eviction, unless the API server says how long",
        duration=True,
    )
    not_namespaces: tuple[str, ...] = setting(
        ("kube-system",), "namespaces whose pods are left alone", metavar="NAMESPACE"
    )
    every: Annotated[float, Meta(ge=0.1, le=60)] = setting(1.0, "time between two looks at the list", duration=True)
    metrics_host: str = setting("127.0.0.1", "address of the metrics and health pages")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(0, "their port; 0: none")


SETTINGS = EvictorSettings


def build(settings: EvictorSettings, environ: Mapping[str, str]) -> Process:
    how = How(settings.reading, settings.apply, settings.hold, settings.backoff, settings.not_namespaces)
    metrics, wire = Metrics(product_version()), Wire(settings.redis_arguments())
    scorer = Client(prefix=settings.prefix, **settings.redis_arguments())
    rates = Rates(settings.hour_max, settings.at_once)
    evictor = Evictor(Proposals(wire, settings.names), scorer, settings.api(environ), rates, how, metrics)

    def work(stop: Stop) -> None:
        evictor.turn()
        while not stop.wait(settings.every):
            evictor.turn()

    def state() -> tuple[bool, dict[str, Any]]:
        seen = {"cluster": settings.kubernetes, "apply": settings.apply, "open": evictor.open}
        return not evictor.trouble, seen | ({"error": evictor.trouble} if evictor.trouble else {})

    first = {"cluster": settings.kubernetes, "apply": settings.apply}
    close = (wire.close, scorer.close)
    return Process(work=work, registry=metrics.registry, ready=state, first=first, close=close)


main = command("evictor", SETTINGS, build)
