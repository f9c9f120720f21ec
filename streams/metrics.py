"""What the stream app counts."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """The stream app's metrics, in a registry of their own."""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        of: Any = {"registry": self.registry}
        self.messages = Counter(
            "windward_stream_messages",
            "Messages read, by what became of them: accepted, duplicate, late, facts, rejected",
            ["outcome"],
            **of,
        )
        self.rejected = Counter("windward_stream_rejected", "Messages refused", ["reason"], **of)
        self.lag_s = Gauge("windward_stream_lag_seconds", "Age of the oldest message not folded", ["partition"], **of)
        self.lag = Gauge("windward_stream_lag_messages", "Messages not folded yet", ["partition"], **of)
        self.fold_s = Histogram("windward_stream_fold_duration_seconds", "Folding a batch", buckets=_SECONDS, **of)
        self.flush_s = Histogram("windward_stream_flush_duration_seconds", "Writing to Redis", buckets=_SECONDS, **of)
        self.flush_failures = Counter("windward_stream_flush_failures", "Writes that failed", ["reason"], **of)
        self.flushed = Gauge("windward_stream_last_flush_timestamp_seconds", "When Redis last took a write", **of)
        self.load_s = Histogram("windward_stream_load_duration_seconds", "Loading a partition", buckets=_SECONDS, **of)
        self.machines = Gauge("windward_stream_machines", "Machines held", ["state"], **of)
        self.skewed = Gauge("windward_stream_machines_skewed", "Machines whose clock is off by over a second", **of)
        self.dropped = Counter("windward_stream_machines_dropped", "Machines dropped after a day of silence", **of)
        self.rebalances = Counter("windward_stream_rebalances", "Times partitions were handed out", **of)
        self.seeks = Counter("windward_stream_seeks", "Times reading was moved to the state's own offset", **of)
        self.partitions = Gauge("windward_stream_partitions", "Partitions held", **of)
        self.ready = Gauge("windward_stream_ready", "1 while assigned, loaded and able to write", **of)
        Info("windward_stream_build", "Version of this worker", **of).info({"version": version})
