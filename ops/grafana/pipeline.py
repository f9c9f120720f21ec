"""The pipeline: agents, broker, stream app, Redis, exporter, recorder; from a reading to where a decision sees it."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana import parts, record, stream
from ops.grafana.parts import RATE


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return parts.page(
        "windward-pipeline",
        "Windward / Pipeline",
        "Agents, broker, stream app, Redis, exporter and recorder: from a reading to where a decision sees it",
        [],
        [
            ("Now", _now()), ("Agents and broker", _agents()), ("Stream app", stream.panels()),
            ("Redis and exporter", _servers()), ("Recorder", record.panels()), ("Processes", _processes()),
        ],
    )  # fmt: skip


def _now() -> list[object]:
    return [
        parts.figures(
            "Processes that answer", "Pages that Prometheus can read, by job.",
            [('sum by (job) (up{job=~"windward-.*"})', "{{job}}")], "short", width=12, steps=parts.SOME_IS_GOOD,
        ),
        parts.figures(
            "Newest sample", "Age of the newest sample a scorer sees.", [("windward:sample_age_seconds:min", "age")],
            "s", width=3, decimals=1, steps=parts.AGE,
        ),
        parts.figures(
            "Lag", "Age of the oldest message not folded, of the worst partition.",
            [("max(windward_stream_lag_seconds)", "lag")], "s", width=3, decimals=1,
            steps=stream.LAG,
        ),
        parts.figures(
            "Since the last flush", "Of the worker that wrote to Redis longest ago.",
            [("max(time() - windward_stream_last_flush_timestamp_seconds)", "age")], "s", width=3, decimals=1,
            steps=parts.AGE,
        ),
        parts.figures(
            "Rejected", "Messages refused a second.", [("sum(rate(windward_stream_rejected_total[5m]))", "rejected")],
            "ops", width=3, decimals=2, steps=parts.NONE_IS_GOOD,
        ),
    ]  # fmt: skip


def _agents() -> list[object]:
    return [
        parts.lines(
            "Sample-to-answer age",
            "Age of samples where a decision sees them: the newest, the median and the oldest machine's.",
            [
                ("windward:sample_age_seconds:min", "newest, by the scorers"),
                ('time() - min(windward_fleet_last_sample_timestamp_seconds{quantile="0.5"})', "median machine"),
                ('time() - min(windward_fleet_last_sample_timestamp_seconds{quantile="0.0"})', "oldest machine"),
            ],
            "s", steps=parts.AGE,
        ),
        parts.lines(
            "Records by result", "What became of the agents' records; dropped gave way in a full backlog, refused the broker never takes.",
            [(f"sum by (result) (rate(windward_agent_records_total{RATE}))", "{{result}}"),
             (f"sum(rate(windward_agent_samples_total{RATE}))", "samples made")],
            "ops",
        ),
        parts.lines(
            "Backlog", "Records that wait for the broker, and that it has not acknowledged yet.",
            [("sum(windward_agent_backlog_records)", "waiting"), ("sum(windward_agent_in_flight_records)", "in flight")],
            "short", width=8,
        ),
        parts.lines(
            "Broker, as agents see it", "Rounds of sending that failed, and producers built anew.",
            [(f"sum(rate(windward_agent_send_failures_total{RATE}))", "failed sends"),
             (f"sum(rate(windward_agent_connections_total{RATE}))", "connections")],
            "ops", width=8, steps=parts.NONE_IS_GOOD,
        ),
        parts.lines(
            "Since the last delivery", "Of the agents: the one whose records the broker acknowledged longest ago, and latest.",
            [("max(time() - windward_agent_last_delivery_timestamp_seconds)", "longest"),
             ("min(time() - windward_agent_last_delivery_timestamp_seconds)", "latest")],
            "s", width=8, steps=parts.AGE,
        ),
        parts.lines(
            "Readings", "Taken a second, by resource, over all agents.",
            [(f"sum by (resource) (rate(windward_agent_readings_total{RATE}))", "{{resource}}")], "ops",
        ),
        parts.lines(
            "Readings that failed", "A second, by resource.",
            [(f"sum by (resource) (rate(windward_agent_collector_failures_total{RATE}))", "{{resource}}")], "ops",
            steps=parts.NONE_IS_GOOD,
        ),
        parts.lines(
            "Instances measured", "In the agents' last reports of what each instance used, over all agents.",
            [("sum(windward_agent_instances)", "instances")], "short", width=8,
        ),
        parts.lines(
            "Reports of instances", "Made a second, over all agents; mostly one a minute and machine with instances.",
            [(f"sum(rate(windward_agent_instance_reports_total{RATE}))", "reports")], "ops", width=8,
        ),
        parts.lines(
            "Instances not measured whole", "A second: vanished since the report before, counters that began anew, unreadable, too many.",
            [(f"sum by (kind) (rate(windward_agent_instance_troubles_total{RATE}))", "{{kind}}")], "ops", width=8,
        ),
    ]  # fmt: skip


def _servers() -> list[object]:
    return [
        parts.lines(
            "Redis memory", "Used of what the server may take (maxmemory, else its host's); when it is full it refuses writes.",
            [("windward:redis_memory_used:ratio", "{{server}}")], "percentunit", width=8,
            steps=((None, "green"), (0.7, "yellow"), (0.85, "red")), high=1,
        ),
        parts.lines(
            "Redis memory in bytes", "Used, and what the server may take.",
            [("max by (server) (windward_redis_memory_used_bytes)", "{{server}} used"),
             ("max by (server) (windward_redis_memory_limit_bytes)", "{{server}} limit")],
            "bytes", width=8,
        ),
        parts.lines(
            "Exporter", "What a page takes: reading Redis, making the text (compression and sending come after).",
            [("max by (step) (windward_exporter_page_duration_seconds)", "{{step}}"),
             ('max(scrape_duration_seconds{job="windward-exporter"})', "scrape")],
            "s", width=8,
        ),
        parts.figures(
            "Exporter reads Redis", "1 when the last page was made from Redis; else it shows no machine.",
            [("min(windward_exporter_up)", "exporter")], "short", width=4, height=6,
            words={"1": ("yes", "green"), "0": ("no", "red")}, graph=False,
        ),
        parts.figures(
            "Series of single machines", "Off above the exporter's setting machines_max, or by per_machine.",
            [("max(windward_exporter_shows_machines)", "exporter")], "short", width=4, height=6,
            words={"1": ("shown", "green"), "0": ("left out", "yellow")}, graph=False,
        ),
        parts.lines(
            "Pages", "Pages made a second, by outcome.",
            [(f"sum by (outcome) (rate(windward_exporter_pages_total{RATE}))", "{{outcome}}")], "ops", width=8, height=6,
        ),
        parts.rows(
            "Versions", "Version of each process.",
            [('count by (job, version) ({__name__=~"windward_(agent|stream|scorer|exporter|record|rebalancer)_build_info"})', "processes", "short")],
            by="job", width=8, height=6,
        ),
    ]  # fmt: skip


def _processes() -> list[object]:
    """Return what each process takes of its host, by job: the most of any, so that a thousand agents are one line."""
    return [
        parts.lines(
            "Memory of processes", "Resident memory of the largest process of each job.",
            [('max by (job) (process_resident_memory_bytes{job=~"windward-.*"})', "{{job}}")], "bytes", width=6,
        ),
        parts.lines(
            "CPU of processes", "Cores that the busiest process of each job takes.",
            [(f'max by (job) (rate(process_cpu_seconds_total{{job=~"windward-.*"}}{RATE}))', "{{job}}")], "short", width=6,
        ),
        parts.lines(
            "Open files", "Share of the files that a process may open, of the process of each job that is nearest to it.",
            [('max by (job) (process_open_fds{job=~"windward-.*"} / process_max_fds{job=~"windward-.*"})', "{{job}}")],
            "percentunit", width=6, steps=((None, "green"), (0.8, "red")), high=1,
        ),
        parts.lines(
            "Since the start", "Age of the youngest process of each job; a sawtooth shows one that is started again and again.",
            [('min by (job) (time() - process_start_time_seconds{job=~"windward-.*"})', "{{job}}")], "s", width=6,
        ),
    ]  # fmt: skip
