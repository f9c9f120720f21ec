"""The stream app's metrics."""

from collections.abc import Mapping

import numpy as np

from schemas.process.metrics import Table, counter, gauge, histogram
from streams.fold.admission import REASONS
from streams.fold.fold import active, skew_s
from streams.state.partition import Partition
from streams.state.resume import KINDS

OUTCOMES = ("accepted", "duplicate", "late", "facts", "rejected")
USAGE_OUTCOMES = ("applied", "late", "excess", "evicted")
KEPT = ("kept", "left-out", "lost")
FLUSH_FAILURES = ("redis", "overtaken")
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class Metrics(Table):
    """The stream app's metrics, in a registry of their own."""

    PROCESS = "stream"

    messages = counter(
        "windward_stream_messages", f"Messages read, by what became of them: {', '.join(OUTCOMES)}", outcome=OUTCOMES
    )
    rejected = counter("windward_stream_rejected", "Messages refused", reason=REASONS)
    rejects = counter(
        "windward_stream_rejects",
        "Refused messages, by what became of them: kept on the rejects topic, left-out of a flood, lost",
        outcome=KEPT,
    )
    unreadable = counter(
        "windward_stream_unreadable_batches", "Batches of messages passed over: damaged, or packed as nobody unpacks"
    )
    ahead = gauge(
        "windward_stream_records_ahead_ratio",
        "Share of records refused for a time ahead of this worker's clock; over a half: this clock is behind",
    )
    clock_ahead = gauge(
        "windward_stream_clock_ahead_seconds", "How far this host's clock is ahead of Redis'; below 0: behind"
    )
    lag_s = gauge(
        "windward_stream_lag_seconds",
        "Age of the oldest message not folded; of the last one folded, while the broker is away",
        partition=(),
    )
    lag = gauge("windward_stream_lag_messages", "Messages not folded yet", partition=())
    fold_s = histogram("windward_stream_fold_duration_seconds", "Folding a batch", _SECONDS)
    flush_s = histogram("windward_stream_flush_duration_seconds", "Writing to Redis", _SECONDS)
    flush_failures = counter("windward_stream_flush_failures", "Writes that failed", reason=FLUSH_FAILURES)
    flushed = gauge("windward_stream_last_flush_timestamp_seconds", "When Redis last took a write")
    load_s = histogram("windward_stream_load_duration_seconds", "Loading a partition", _SECONDS)
    damaged = counter(
        "windward_stream_state_damaged",
        "Stored values lost or changed since they were written, found when a partition was loaded, by kind",
        kind=KINDS,
    )
    uncovered = counter(
        "windward_stream_state_uncovered",
        "Lost slot values of which Kafka no longer had the samples: no window counts them as covered",
    )
    rewritten = counter(
        "windward_stream_state_rewritten",
        "Stored values that left Redis while a worker held them, and were written again",
    )
    rebuilding = gauge("windward_stream_rebuilding_partitions", "Partitions read again because stored values were lost")
    machines = gauge("windward_stream_machines", "Machines held", state=())
    skewed = gauge("windward_stream_machines_skewed", "Machines whose clock is off by over a second")
    dropped = counter("windward_stream_machines_dropped", "Machines dropped after a day of silence")
    evicted = counter(
        "windward_stream_machines_evicted", "Machines of few samples dropped because a partition was full"
    )
    broker_up = gauge("windward_stream_broker_up", "1 while the broker answers this worker, 0 while it is blind")
    usage = counter(
        "windward_stream_instance_usages",
        "Usages by instance: applied, late (or repeated), excess (more than the machine has), evicted beyond the bound",
        outcome=USAGE_OUTCOMES,
    )
    instances = gauge("windward_stream_instances", "Pairs of machine and instance whose usage is held")
    rebalances = counter("windward_stream_rebalances", "Times partitions were handed out")
    seeks = counter("windward_stream_seeks", "Times reading was moved to the state's own offset")
    partitions = gauge("windward_stream_partitions", "Partitions held")
    ready = gauge("windward_stream_ready", "1 while assigned, loaded and able to write")

    def __init__(self, version: str = "") -> None:
        super().__init__(version)
        self.measured: set[str] = set()
        """Partitions whose lag is exported."""


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
