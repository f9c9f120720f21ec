"""``windward pods``: keep the ledger equal to the pods of a Kubernetes cluster until SIGTERM."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.run import Process, command
from schemas.process.settings import setting
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.kubernetes.kubernetes_settings import KubernetesSettings, Name
from scorer.kubernetes.pods.watcher import Metrics, NodeFacts, PodsWatcher
from scorer.ledger.store.scripts import Lease, Ledger
from scorer.live.live_fleet import refuse_mode
from scorer.wire import Wire


@dataclass(frozen=True, kw_only=True)
class PodsSettings(KubernetesSettings):
    """Keep the ledger equal to the pods of a Kubernetes cluster: each bound pod is a confirmed instance on its node.

    Operators' rules override the cluster's facts of its nodes (labels, taints, cordons, capacity).
    In a pod it reaches the API server by its service account; elsewhere by ``--api-url``. Two may run: one holds the
    lease, the other waits. It reads pods and nodes, and writes nothing in Kubernetes.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward pods --kubernetes east --redis-url redis://server:6379/0 --metrics-port 9468",
        "windward pods --kubernetes east --api-url http://127.0.0.1:8001",
    )

    name: Name = setting("", "name of this process; default: host and process id")
    lease_s: Annotated[float, Meta(ge=0.5, le=3600)] = setting(
        15.0, "how long the lease holds unless renewed; after a kill another process takes over when this time is over"
    )
    metrics_host: str = setting("127.0.0.1", "address of the metrics and health pages")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(0, "their port; 0: none")

    @property
    def holder(self) -> str:
        """The name under which the lease is held; two processes never share one."""
        return self.name or f"{socket.gethostname()}-{os.getpid()}"


SETTINGS = PodsSettings


def build(settings: PodsSettings, environ: Mapping[str, str]) -> Process:
    how, api = settings.reading, settings.api(environ)
    refuse_mode("ledger_url" if settings.ledger_url else "redis_url", settings.ledger_arguments())
    metrics, wire = Metrics(product_version()), Wire(settings.ledger_arguments())
    ledger = Ledger(wire, settings.names, **settings.ledger_bounds())
    nodes = NodeFacts(Wire(settings.redis_arguments()), settings.names, how.cluster, metrics)
    lease = Lease(ledger, f"pods {how.cluster}", settings.holder, settings.lease_s)
    watcher = PodsWatcher(lease, api, how, metrics, nodes)

    def work(stop: Stop) -> None:
        while not stop.wait(watcher.turn(stop)):
            pass

    def state() -> tuple[bool, dict[str, Any]]:
        seen = {"cluster": settings.kubernetes, "leads": watcher.leads}
        return (watcher.watches or not watcher.leads) and not watcher.trouble, seen | (
            {"error": watcher.trouble} if watcher.trouble else {}
        )

    first = {"cluster": settings.kubernetes}
    name, close = settings.holder, (nodes.close, wire.close, watcher.stop)
    return Process(work=work, registry=metrics.registry, ready=state, name=name, first=first, close=close)


main = command("pods", SETTINGS, build)
