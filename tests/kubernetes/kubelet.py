"""The kubelets of all nodes, as the API server sees them: bound pods run, and pods that are being deleted are gone."""

import http.client
import threading
from datetime import UTC, datetime
from typing import Any, Self

from tests.kubernetes.cluster import Cluster


class Kubelets(threading.Thread):
    """They work inside ``with``."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.bound: dict[str, set[str]] = {}
        """All nodes on which a pod was seen, by its uid, until it is gone."""
        self._cluster = cluster
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.is_set():
            self.bound.clear()
            try:
                for event in self._cluster.watch("/api/v1/pods"):
                    if self._stopping.is_set():
                        return
                    if event["type"] in ("ADDED", "MODIFIED"):
                        self._look(event["object"])
                    else:
                        self.bound.pop(event["object"]["metadata"]["uid"], None)
            except (OSError, http.client.HTTPException, AssertionError):
                self._stopping.wait(0.2)  # the API server is away

    def _look(self, pod: dict[str, Any]) -> None:
        about, node = pod["metadata"], pod["spec"].get("nodeName")
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        if node:
            self.bound.setdefault(about["uid"], set()).add(node)
        if "deletionTimestamp" in about:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": about["uid"]}}
            self._cluster.ask("DELETE", path, options)
        elif node and pod["status"]["phase"] == "Pending":
            started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            status = {"phase": "Running", "startTime": started, "conditions": [{"type": "Ready", "status": "True"}]}
            self._cluster.ask("PATCH", f"{path}/status", {"status": status})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
