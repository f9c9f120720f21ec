"""The load watcher's metrics."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

STATUSES = ("200", "404", "503")


class Metrics:
    """The load watcher's metrics, in a registry of their own; every known label begins at 0."""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        of: Any = {"registry": self.registry}
        self.answers = Counter("windward_load_watcher_answers", "Answers, by HTTP status", ["status"], **of)
        self.nodes = Gauge("windward_load_watcher_nodes", "Nodes of the last answer made, by state", ["state"], **of)
        self.end = Gauge(
            "windward_load_watcher_window_end_timestamp_seconds", "Oldest window end of the last answer made", **of
        )
        self.up = Gauge("windward_load_watcher_up", "1 while the windows can be read", **of)
        Info("windward_load_watcher_build", "Version of this process", **of).info({"version": version})
        for status in STATUSES:
            self.answers.labels(status)
        for state in ("listed", "left_out"):
            self.nodes.labels(state)
