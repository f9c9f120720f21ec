"""The metrics of `windward evictor`."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

from scorer.kubernetes.evictor.rules import DECLINED, WAITS

REPLACED = ("target", "elsewhere", "unseen")
"""Where the replacement came: to the held node; to another; none was seen while the node was held."""


class Metrics:
    """Its metrics, in a registry of their own; every known label begins at 0."""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        of: Any = {"registry": self.registry}
        self.evicted = Counter("windward_evictor_evicted", "Pods evicted", **of)
        self.would = Counter("windward_evictor_dry_runs", "Evictions that were tried alone, without --apply", **of)
        self.declined = Counter("windward_evictor_declined", "Proposals declined, by reason", ["reason"], **of)
        self.replaced = Counter(
            "windward_evictor_replaced", "Evicted pods by where their replacement came", ["where"], **of
        )
        self.waiting = Gauge("windward_evictor_waiting", "Proposals that wait, by reason", ["reason"], **of)
        self.open = Gauge("windward_evictor_open", "Evicted pods whose replacement was not seen yet", **of)
        self.up = Gauge("windward_evictor_up", "1 while the last turn could ask Redis, scorer and API server", **of)
        Info("windward_evictor_build", "Version of this process", **of).info({"version": version})
        for counter, labels in ((self.declined, DECLINED), (self.replaced, REPLACED), (self.waiting, WAITS)):
            for label in labels:
                counter.labels(label)
