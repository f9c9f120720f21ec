"""Settings of `windward pods`."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.process.settings import setting
from scorer.kubernetes.kubernetes_settings import KubernetesSettings, Name


@dataclass(frozen=True, kw_only=True)
class PodsSettings(KubernetesSettings):
    """Keep the ledger equal to the pods of a Kubernetes cluster: each bound pod is a confirmed instance on its node.

    What the cluster says of its nodes (labels, taints, cordons, room) stands below operators' rules.
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
