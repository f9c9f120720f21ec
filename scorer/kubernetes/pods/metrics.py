"""The metrics of `windward pods`."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

CHANGES = ("confirmed", "corrected", "released")
LISTS = ("done", "failed")


class Metrics:
    """Its metrics, in a registry of their own; every known label begins at 0."""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        of: Any = {"registry": self.registry}
        self.changes = Counter("windward_pods_changes", "Instances written to the ledger, by change", ["change"], **of)
        self.lists = Counter("windward_pods_lists", "Lists of all pods, by result", ["result"], **of)
        self.list_s = Gauge("windward_pods_list_seconds", "How long the last list took, until it was written", **of)
        self.refused = Gauge("windward_pods_refused", "Running pods that cannot be in the ledger", **of)
        self.leads = Gauge("windward_pods_leads", "1 while this process holds the lease", **of)
        self.up = Gauge("windward_pods_up", "1 while it watches, or waits for the lease", **of)
        self.heard = Gauge(
            "windward_pods_heard_timestamp_seconds",
            "When the API server said something last to the one that leads",
            **of,
        )
        self.nodes = Gauge("windward_pods_nodes", "Nodes whose facts are in Redis", **of)
        self.nodes_refused = Gauge("windward_pods_nodes_refused", "Nodes whose facts cannot be read", **of)
        self.nodes_failed = Counter("windward_pods_nodes_failures", "Tries to write nodes' facts that failed", **of)
        Info("windward_pods_build", "Version of this process", **of).info({"version": version})
        for change in CHANGES:
            self.changes.labels(change)
        for result in LISTS:
            self.lists.labels(result)
