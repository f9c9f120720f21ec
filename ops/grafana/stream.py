"""The stream app's panels: messages read, folded and written, lag, and state lost and rebuilt."""

from __future__ import annotations

from ops.grafana import parts
from ops.grafana.parts import RATE

LAG: parts.Steps = ((None, "green"), (10, "yellow"), (30, "red"))


def panels() -> list[object]:
    """Return the panels of the row."""
    return [
        parts.lines(
            "Messages by outcome", "Read a second: folded, duplicate, later than the ring, facts of machines, refused.",
            [(f"sum by (outcome) (rate(windward_stream_messages_total{RATE}))", "{{outcome}}")], "ops", width=8,
        ),
        parts.lines(
            "Rejects by reason", "Messages refused a second; they are kept on the rejects topic with the reason.",
            [(f"sum by (reason) (rate(windward_stream_rejected_total{RATE}))", "{{reason}}")], "ops", width=8,
            steps=parts.NONE_IS_GOOD,
        ),
        parts.lines(
            "Refused messages by what became of them",
            "A second: kept on the rejects topic, left out of a flood, or lost because the broker did not take them.",
            [(f"sum by (outcome) (rate(windward_stream_rejects_total{RATE}))", "{{outcome}}")], "ops", width=8,
            steps=parts.NONE_IS_GOOD,
        ),
        parts.lines(
            "Broker, as workers see it", "1 while the broker answers the worker; at 0 the worker cannot know what it has not read.",
            [("min by (instance) (windward_stream_broker_up)", "{{instance}}")], "short", width=8, steps=parts.SOME_IS_GOOD, high=1,
        ),
        parts.lines(
            "Records ahead of the worker's clock",
            "Share of the records of about the last minute that were refused for a time ahead of it; over a half: this clock is behind.",
            [("max by (instance) (windward_stream_records_ahead_ratio)", "{{instance}}")], "percentunit", width=8,
            steps=((None, "green"), (0.1, "yellow"), (0.5, "red")), high=1,
        ),
        parts.lines(
            "Lag", "Age of the oldest message not folded, by partition; of the last one folded while the broker is away.",
            [("max by (partition) (windward_stream_lag_seconds)", "{{partition}}")], "s", width=8,
            steps=LAG,
        ),
        parts.lines(
            "Messages not folded", "Over all partitions.", [("sum(windward_stream_lag_messages)", "messages")], "short",
            width=8,
        ),
        parts.lines("Fold", "Folding a batch.", parts.quantiles("windward_stream_fold_duration_seconds"), "s", width=8),
        parts.lines("Flush", "Writing to Redis.", parts.quantiles("windward_stream_flush_duration_seconds"), "s", width=8),
        parts.lines(
            "Since the last flush", "By worker.",
            [("max by (instance) (time() - windward_stream_last_flush_timestamp_seconds)", "{{instance}}")], "s", width=8,
            steps=parts.AGE,
        ),
        parts.lines(
            "Failed writes", "To Redis, a second; overtaken: another worker has the partition by now.",
            [(f"sum by (reason) (rate(windward_stream_flush_failures_total{RATE}))", "{{reason}}")], "ops", width=8,
            steps=parts.NONE_IS_GOOD,
        ),
        parts.lines(
            "Partitions and readiness", "Partitions held by each worker; workers that are ready.",
            [("max by (instance) (windward_stream_partitions)", "{{instance}}"), ("sum(windward_stream_ready)", "ready")],
            "short", width=8,
        ),
        parts.lines(
            "Machines held", "By state: active or silent; and those whose clock is off by more than a second.",
            [("sum by (state) (windward_stream_machines)", "{{state}}"), ("sum(windward_stream_machines_skewed)", "skewed")],
            "short", width=8,
        ),
        parts.lines(
            "Changes", "Times partitions were handed out, reading was moved, and machines dropped after a day of silence.",
            [
                (f"sum(increase(windward_stream_rebalances_total{RATE}))", "rebalances"),
                (f"sum(increase(windward_stream_seeks_total{RATE}))", "seeks"),
                (f"sum(increase(windward_stream_machines_dropped_total{RATE}))", "machines dropped"),
            ],
            "short", width=8,
        ),
        parts.lines(
            "Machines over the bound",
            "Samples a second of machines that a full partition refused, and machines of few samples that were dropped for room.",
            [
                (f'sum(rate(windward_stream_rejected_total{{reason="machines"}}{RATE}))', "samples refused"),
                (f"sum(rate(windward_stream_machines_evicted_total{RATE}))", "machines dropped"),
            ],
            "ops", width=8, steps=parts.NONE_IS_GOOD,
        ),
        parts.lines(
            "Stored values damaged", "Since the workers' start, by kind: lost or changed in Redis, found when a partition was loaded.",
            [("sum by (kind) (windward_stream_state_damaged_total)", "{{kind}}")], "short", width=8,
            steps=parts.NONE_IS_GOOD,
        ),
        parts.lines(
            "Stored values rewritten", "Since the workers' start: left Redis while a worker held them; lost slots that Kafka no longer had.",
            [
                ("sum(windward_stream_state_rewritten_total)", "rewritten"),
                ("sum(windward_stream_state_uncovered_total)", "slots uncovered"),
            ],
            "short", width=8, steps=parts.NONE_IS_GOOD,
        ),
        parts.lines(
            "Partitions that are rebuilt", "Read again from Kafka because stored values were lost, by worker.",
            [("max by (instance) (windward_stream_rebuilding_partitions)", "{{instance}}")], "short", width=8,
        ),
        parts.lines(
            "Loading a partition", "Mean time that a load took, of all since the workers' start.",
            [("sum(windward_stream_load_duration_seconds_sum) / sum(windward_stream_load_duration_seconds_count)", "mean")],
            "s", width=8,
        ),
        parts.lines(
            "Instances with usage",
            "Pairs of machine and instance whose usage the workers hold, those that the ledger has, and machines whose reports"
            " stopped.",
            [
                ("sum(windward_stream_instances)", "pairs"),
                ("max(windward_instances_measured)", "measured"),
                ("max(windward_fleet_machines_without_reports)", "machines without reports"),
            ],
            "short", width=8,
        ),
        parts.lines(
            "Usages of instances", "A second: applied; late, which are repeated or overtaken reports; evicted for want of room.",
            [(f"sum by (outcome) (rate(windward_stream_instance_usages_total{RATE}))", "{{outcome}}")], "ops", width=8,
        ),
    ]  # fmt: skip
