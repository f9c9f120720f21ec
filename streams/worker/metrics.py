"""The stream app's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from streams.fold.admission import REASONS
from streams.fold.fold import active, skew_s
from streams.state.partition import Partition
from streams.state.resume import KINDS

OUTCOMES = ("accepted", "duplicate", "late", "facts", "rejected")
USAGE_OUTCOMES = ("applied", "late", "evicted")
KEPT = ("kept", "left-out", "lost")
FLUSH_FAILURES = ("redis", "overtaken")
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics:
    """The stream app's metrics, in a registry of their own."""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        of: Any = {"registry": self.registry}
        self.messages = Counter(
            "windward_stream_messages",
            f"Messages read, by what became of them: {', '.join(OUTCOMES)}",
            ["outcome"],
            **of,
        )
        self.rejected = Counter("windward_stream_rejected", "Messages refused", ["reason"], **of)
        self.rejects = Counter(
            "windward_stream_rejects",
            "Refused messages, by what became of them: kept on the rejects topic, left-out of a flood, lost",
            ["outcome"],
            **of,
        )
        self.ahead = Gauge(
            "windward_stream_records_ahead_ratio",
            "Share of records refused for a time ahead of this worker's clock; over a half: this clock is behind",
            **of,
        )
        self.clock_ahead = Gauge(
            "windward_stream_clock_ahead_seconds", "How far this host's clock is ahead of Redis'; below 0: behind", **of
        )
        self.lag_s = Gauge(
            "windward_stream_lag_seconds",
            "Age of the oldest message not folded; of the last one folded, while the broker is away",
            ["partition"],
            **of,
        )
        self.lag = Gauge("windward_stream_lag_messages", "Messages not folded yet", ["partition"], **of)
        self.measured: set[str] = set()
        """Partitions whose lag is exported."""
        self.fold_s = Histogram("windward_stream_fold_duration_seconds", "Folding a batch", buckets=_SECONDS, **of)
        self.flush_s = Histogram("windward_stream_flush_duration_seconds", "Writing to Redis", buckets=_SECONDS, **of)
        self.flush_failures = Counter("windward_stream_flush_failures", "Writes that failed", ["reason"], **of)
        self.flushed = Gauge("windward_stream_last_flush_timestamp_seconds", "When Redis last took a write", **of)
        self.load_s = Histogram("windward_stream_load_duration_seconds", "Loading a partition", buckets=_SECONDS, **of)
        self.damaged = Counter(
            "windward_stream_state_damaged",
            "Stored values lost or changed since they were written, found when a partition was loaded, by kind",
            ["kind"],
            **of,
        )
        self.uncovered = Counter(
            "windward_stream_state_uncovered",
            "Lost slot values of which Kafka no longer had the samples: no window counts them as covered",
            **of,
        )
        self.rewritten = Counter(
            "windward_stream_state_rewritten",
            "Stored values that left Redis while a worker held them, and were written again",
            **of,
        )
        self.rebuilding = Gauge(
            "windward_stream_rebuilding_partitions", "Partitions read again because stored values were lost", **of
        )
        self.machines = Gauge("windward_stream_machines", "Machines held", ["state"], **of)
        self.skewed = Gauge("windward_stream_machines_skewed", "Machines whose clock is off by over a second", **of)
        self.dropped = Counter("windward_stream_machines_dropped", "Machines dropped after a day of silence", **of)
        self.evicted = Counter(
            "windward_stream_machines_evicted", "Machines of few samples dropped because a partition was full", **of
        )
        self.broker_up = Gauge(
            "windward_stream_broker_up", "1 while the broker answers this worker, 0 while it is blind", **of
        )
        self.usage = Counter(
            "windward_stream_instance_usages",
            "Usages of instances reported: applied, late (repeated or overtaken); and those evicted beyond the bound",
            ["outcome"],
            **of,
        )
        self.instances = Gauge("windward_stream_instances", "Pairs of machine and instance whose usage is held", **of)
        self.rebalances = Counter("windward_stream_rebalances", "Times partitions were handed out", **of)
        self.seeks = Counter("windward_stream_seeks", "Times reading was moved to the state's own offset", **of)
        self.partitions = Gauge("windward_stream_partitions", "Partitions held", **of)
        self.ready = Gauge("windward_stream_ready", "1 while assigned, loaded and able to write", **of)
        for family, labels in (
            (self.messages, OUTCOMES), (self.rejected, REASONS), (self.rejects, KEPT), (self.damaged, KINDS),
            (self.flush_failures, FLUSH_FAILURES), (self.usage, USAGE_OUTCOMES),
        ):  # fmt: skip
            for label in labels:  # the increase of a counter that begins with its first event would not show it
                family.labels(label)
        Info("windward_stream_build", "Version of this worker", **of).info({"version": version})


def measure(metrics: Metrics, behind: Mapping[Partition, int], now_s: float, *, broker_up: bool) -> None:
    """Set the gauges of the held partitions; ``behind`` has the number of messages of each not taken yet.

    The lag of a partition that is no longer held is removed: its worker exports it. Without a broker the number of
    messages is unknown: the lag in seconds is then the age of the last message folded.
    """
    metrics.broker_up.set(broker_up)
    held = {str(partition.number) for partition in behind}
    for lost in metrics.measured - held:
        metrics.lag.remove(lost)
        metrics.lag_s.remove(lost)
    metrics.measured = held
    for partition, messages in behind.items():
        metrics.lag.labels(str(partition.number)).set(messages)
        blind = messages or not broker_up
        age_s = now_s - partition.recorded_at if blind and partition.recorded_at else 0.0
        metrics.lag_s.labels(str(partition.number)).set(max(0.0, age_s))
    metrics.instances.set(sum(partition.usage.instances for partition in behind))
    rings = [partition.ring for partition in behind]
    lively = sum(active(ring, now_s) for ring in rings)
    metrics.machines.labels("active").set(lively)
    metrics.machines.labels("silent").set(sum(map(len, rings)) - lively)
    learned = sum(int((np.abs(skew_s(ring, np.arange(len(ring)))) > 1).sum()) for ring in rings)
    metrics.skewed.set(learned + sum(len(partition.clocks.off(now_s)) for partition in behind))
