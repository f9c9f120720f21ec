"""The pipeline: agents, broker, stream app, Redis, exporter, recorder, load watcher, pods, extender, evictor; from a reading to where a decision sees it."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana.page import Row, page
from ops.grafana.panels import (
    AGE,
    NONE_IS_GOOD,
    RATE,
    SAMPLE_AGE,
    SOME_IS_GOOD,
    STALE,
    Figures,
    Lines,
    Panel,
    Rows,
    Steps,
    each,
    quantiles,
    rate,
    rates,
)

NO_BATCH = "no message came, or no stream worker answers"
LAG: Steps = ((None, "green"), (10, "yellow"), (30, "red"))


def dashboard() -> Dashboard:
    return page(
        "windward-pipeline",
        "Windward / Pipeline",
        "Agents, broker, stream app, Redis, exporter, recorder, load watcher, pods, extender and evictor: from a reading to where a decision sees it",
        [],
        [
            Row("What is wrong now", _now()),
            Row("Agents and broker", _agents(), collapsed=True),
            Row("Stream app", [*_messages(), *_folding(), *_state()], collapsed=True),
            Row("Redis and exporter", _servers(), collapsed=True),
            Row("Recorder", _recorder(), collapsed=True),
            Row("Load watcher", _load_watcher(), collapsed=True),
            Row("Pods of Kubernetes", _pods(), collapsed=True),
            Row("Extender of kube-scheduler", _extender(), collapsed=True),
            Row("Evictor of pods", _evictor(), collapsed=True),
            Row("Processes", _processes(), collapsed=True),
        ],
    )


def _now() -> list[Panel]:
    processes = '{__name__=~"windward_(%s)_build_info"}'
    every = processes % "agent|stream|scorer|exporter|record|planner|load_watcher|pods|extender|evictor"
    few = processes % "stream|scorer|exporter|record|planner|load_watcher|pods|extender|evictor"
    return [
        Rows(
            "Alerts that fire", "Of this fleet, as Prometheus has them; each has an entry in the runbook.",
            [('sum by (alertname, severity, instance) (ALERTS{alertstate="firing"})', "alerts", "short")], by="alertname",
            width=12, height=6, hidden=("Value",), empty="no alert fires",
        ),
        Figures(
            "Processes that answer",
            "Pages that Prometheus can read, by job; 0: one that answered within the last hour is gone.",
            [(f"count by (job) ({every}) or 0 * count by (job) (last_over_time({few}[1h]))", "{{job}}")], "short", width=12,
            height=6, steps=SOME_IS_GOOD,
        ),
        Figures(
            "Broker", "Whether it answers every stream worker.", [("min(windward_stream_broker_up)", "broker")], "short",
            width=3, words={"1": ("answers", "green"), "0": ("away", "red")}, graph=False, empty="no stream worker",
        ),
        Figures(
            "Exporter reads Redis", "1 when the last page was made from Redis; else it shows no machine.",
            [("min(windward_exporter_up)", "exporter")], "short", width=3,
            words={"1": ("yes", "green"), "0": ("no", "red")}, graph=False, empty="no exporter",
        ),
        Figures(
            "Stale machines", "Share of the machines with data whose data is too old to place by.",
            [("windward:fleet_stale:ratio", "stale")], "percentunit", width=3, decimals=1, steps=STALE,
        ),
        Figures(
            "Newest sample", "Age of the newest sample a scorer sees.",
            [(SAMPLE_AGE, "age")], "s", width=3, decimals=1, steps=AGE,
        ),
        Figures(
            "Lag", "Age of the oldest message not folded, of the worst partition.",
            [("max(windward_stream_lag_seconds)", "lag")], "s", width=3, decimals=1, steps=LAG,
        ),
        Figures(
            "Since the last flush", "Of the worker that wrote to Redis longest ago.",
            [("max(time() - windward_stream_last_flush_timestamp_seconds)", "age")], "s", width=3, decimals=1,
            steps=AGE,
        ),
        Figures(
            "Rejected", "Messages refused a second.",
            [("sum(rate(windward_stream_rejected_total[5m]))", "rejected")], "ops", width=3, decimals=2,
            steps=NONE_IS_GOOD,
        ),
        Figures(
            "Redis memory used", "Of what the fullest server may take.",
            [("max(windward:redis_memory_used:ratio)", "memory")], "percentunit", width=3, decimals=0,
            steps=((None, "green"), (0.7, "yellow"), (0.85, "red")),
        ),
    ]  # fmt: skip


def _agents() -> list[Panel]:
    return [
        Lines(
            "Sample-to-answer age", "Age of samples where a decision sees them: the newest, the median and the oldest machine's.",
            [(SAMPLE_AGE, "newest, by the scorers"),
             ('time() - min(windward_fleet_last_sample_timestamp_seconds{quantile="0.5"})', "median machine"),
             ('time() - min(windward_fleet_last_sample_timestamp_seconds{quantile="0.0"})', "oldest machine")], "s",
            steps=AGE, width=12,
        ),
        Lines(
            "Records by result", "What became of the agents' records; dropped gave way in a full backlog, refused the broker never takes.",
            [(rate("windward_agent_records_total", "result"), "{{result}}"),
             (rate("windward_agent_samples_total"), "samples made")], "ops", width=12,
        ),
        Lines(
            "Backlog", "Records that wait for the broker, and that it has not acknowledged yet.",
            [("sum(windward_agent_backlog_records)", "waiting"),
             ("sum(windward_agent_in_flight_records)", "in flight")], "short",
        ),
        Lines(
            "Broker, as agents see it", "Rounds of sending that failed, and producers built anew.",
            [(rate("windward_agent_send_failures_total"), "failed sends"),
             (rate("windward_agent_connections_total"), "connections")], "ops", steps=NONE_IS_GOOD,
        ),
        Lines(
            "Since the last delivery", "Of the agents: the one whose records the broker acknowledged longest ago, and latest.",
            [("max(time() - windward_agent_last_delivery_timestamp_seconds)", "longest"),
             ("min(time() - windward_agent_last_delivery_timestamp_seconds)", "latest")], "s", steps=AGE,
        ),
        Lines(
            "Readings", "Taken a second, by resource, over all agents.",
            rates("windward_agent_readings_total", "resource"), "ops", width=12,
        ),
        Lines(
            "Readings that failed", "A second, by resource; impossible: the elapsed time does not allow their rise.",
            [(rate("windward_agent_collector_failures_total", "resource"), "{{resource}}"),
             (rate("windward_agent_impossible_readings_total", "resource"), "{{resource}}, impossible")],
            "ops", steps=NONE_IS_GOOD, width=12,
        ),
        Lines(
            "Instances measured", "In the agents' last reports of what each instance used, over all agents.",
            [("sum(windward_agent_instances)", "instances"),
             (f"60 * {rate('windward_agent_instance_reports_total')}", "reports a minute")], "short",
        ),
        Lines(
            "Instances not measured whole", "A second: vanished since the report before, counters that began anew, unreadable, too many.",
            rates("windward_agent_instance_troubles_total", "kind"), "ops",
        ),
    ]  # fmt: skip


def _messages() -> list[Panel]:
    """Return the panels on what the stream app reads and refuses."""
    return [
        Lines(
            "Messages by outcome", "Read a second: folded, duplicate, later than the ring, facts of machines, refused.",
            rates("windward_stream_messages_total", "outcome"), "ops",
        ),
        Lines(
            "Refused messages",
            "A second, by reason; kept on the rejects topic, left out of a flood, or lost because the broker did not take them;"
            " batches that are damaged, or packed so that nobody unpacks them: the log names topic, partition and offset.",
            [*rates("windward_stream_rejected_total", "reason"), *rates("windward_stream_rejects_total", "outcome"),
             (rate("windward_stream_unreadable_batches_total"), "unreadable batches")], "ops", steps=NONE_IS_GOOD,
        ),
        Lines(
            "Broker, as workers see it", "1 while the broker answers the worker; at 0 the worker cannot know what it has not read.",
            each("windward_stream_broker_up", "instance", "min"), "short", steps=SOME_IS_GOOD, high=1,
        ),
        Lines(
            "Records ahead of the worker's clock",
            "Share of the records of about the last minute that were refused for a time ahead of it; over a half: this clock is behind.",
            each("windward_stream_records_ahead_ratio", "instance"), "percentunit",
            steps=((None, "green"), (0.1, "yellow"), (0.5, "red")), high=1,
        ),
    ]  # fmt: skip


def _folding() -> list[Panel]:
    """Return the panels on how current the windows are, and on the partitions and machines of each worker."""
    return [
        Lines(
            "Lag", "Age of the oldest message not folded, by partition; of the last one folded while the broker is away.",
            each("windward_stream_lag_seconds", "partition"), "s", steps=LAG,
        ),
        Lines(
            "Messages not folded", "Over all partitions.", [("sum(windward_stream_lag_messages)", "messages")], "short"
        ),
        Lines("Fold", "Folding a batch.", quantiles("windward_stream_fold_duration_seconds"), "s", empty=NO_BATCH),
        Lines("Flush", "Writing to Redis.", quantiles("windward_stream_flush_duration_seconds"), "s", empty=NO_BATCH),
        Lines(
            "Since the last flush", "By worker.",
            each("time() - windward_stream_last_flush_timestamp_seconds", "instance"), "s", steps=AGE,
        ),
        Lines(
            "Failed writes", "To Redis, a second; overtaken: another worker has the partition by now.",
            rates("windward_stream_flush_failures_total", "reason"), "ops", steps=NONE_IS_GOOD,
        ),
        Lines(
            "Partitions and readiness", "Partitions held by each worker; workers that are ready.",
            [("max by (instance) (windward_stream_partitions)", "{{instance}}"),
             ("sum(windward_stream_ready)", "ready")], "short",
        ),
        Lines(
            "Machines held", "By state: active or silent; and those whose clock is off by more than a second.",
            [("sum by (state) (windward_stream_machines)", "{{state}}"),
             ("sum(windward_stream_machines_skewed)", "skewed")], "short",
        ),
        Lines(
            "Changes", "Times partitions were handed out, reading was moved, and machines dropped after a day of silence.",
            [(f"sum(increase(windward_stream_rebalances_total{RATE}))", "rebalances"),
             (f"sum(increase(windward_stream_seeks_total{RATE}))", "seeks"),
             (f"sum(increase(windward_stream_machines_dropped_total{RATE}))", "machines dropped")], "short",
        ),
        Lines(
            "Machines over the bound",
            "Samples a second of machines that a full partition refused, and machines of few samples that were dropped for room.",
            [(f'sum(rate(windward_stream_rejected_total{{reason="machines"}}{RATE}))', "samples refused"),
             (rate("windward_stream_machines_evicted_total"), "machines dropped")], "ops", steps=NONE_IS_GOOD,
        ),
    ]  # fmt: skip


def _state() -> list[Panel]:
    """Return the panels on stored values that were lost or rebuilt, and on the usage by instance that is kept."""
    return [
        Lines(
            "Stored values lost",
            "Since the workers' start: damaged, by kind, found when a partition was loaded; rewritten, which left Redis while a"
            " worker held them; slots that Kafka no longer had. And the partitions that are read again from Kafka.",
            [*each("windward_stream_state_damaged_total", "kind", "sum"),
             ("sum(windward_stream_state_rewritten_total)", "rewritten"),
             ("sum(windward_stream_state_uncovered_total)", "slots uncovered"),
             ("sum(windward_stream_rebuilding_partitions)", "partitions rebuilt")], "short", steps=NONE_IS_GOOD,
        ),
        Lines(
            "Loading a partition", "Mean time that a load took, of all since the workers' start.",
            [("sum(windward_stream_load_duration_seconds_sum) / sum(windward_stream_load_duration_seconds_count)", "mean")],
            "s",
        ),
        Lines(
            "Instances with usage",
            "Pairs of machine and instance whose usage the workers hold, those that the ledger has, and machines whose reports"
            " stopped.",
            [("sum(windward_stream_instances)", "pairs"),
             ("max(windward_instances_measured)", "measured"),
             ("max(windward_fleet_machines_without_reports)", "machines without reports")], "short",
        ),
        Lines(
            "Usages of instances", "A second: applied; late, which are repeated or overtaken reports; evicted for want of room.",
            rates("windward_stream_instance_usages_total", "outcome"), "ops",
        ),
    ]  # fmt: skip


def _servers() -> list[Panel]:
    return [
        Lines(
            "Redis memory", "Used of what the server may take (maxmemory, else its host's); when it is full it refuses writes.",
            [("windward:redis_memory_used:ratio", "{{server}}")], "percentunit",
            steps=((None, "green"), (0.7, "yellow"), (0.85, "red")), high=1,
        ),
        Lines(
            "Redis memory in bytes", "Used, and what the server may take.",
            [("max by (server) (windward_redis_memory_used_bytes)", "{{server}} used"),
             ("max by (server) (windward_redis_memory_limit_bytes)", "{{server}} limit")], "bytes",
        ),
        Lines(
            "Exporter", "What a page takes: reading Redis, making the text (compression and sending come after).",
            [("max by (step) (windward_exporter_page_duration_seconds)", "{{step}}"),
             ("max(scrape_duration_seconds and on (job, instance) windward_exporter_up)", "scrape")], "s",
        ),
        Figures(
            "Series of single machines", "Off above the exporter's setting machines_max, or by per_machine.",
            [("max(windward_exporter_shows_machines)", "exporter")], "short", width=4, height=6,
            words={"1": ("shown", "green"), "0": ("left out", "yellow")}, graph=False,
        ),
        Lines(
            "Pages", "Pages made a second, by outcome.",
            rates("windward_exporter_pages_total", "outcome"), "ops", height=6,
        ),
        Rows(
            "Versions", "Version of each process.",
            [('count by (job, version) ({__name__=~"windward_(agent|stream|scorer|exporter|record|planner|load_watcher|pods|extender|evictor)_build_info"})', "processes", "short")],
            by="job", width=8, height=6,
        ),
    ]  # fmt: skip


def _recorder() -> list[Panel]:
    return [
        Figures(
            "Recorded since", "How far back the recording goes; the oldest files make room for new ones.",
            [("time() - max(windward_record_oldest_timestamp_seconds)", "age")], "s", width=4, height=6, graph=False,
        ),
        Figures(
            "Since the last entry", "One is written every minute (write_s).",
            [("time() - max(windward_record_last_entry_timestamp_seconds)", "age")], "s", width=4, height=6, decimals=0,
            steps=((None, "green"), (180, "yellow"), (600, "red")),
        ),
        Lines(
            "Size of the recording", "Bytes of all files, and what they may have (record_bytes).",
            [("max(windward_record_size_bytes)", "used"), ("max(windward_record_limit_bytes)", "limit")], "bytes",
            height=6,
        ),
        Lines(
            "Bytes recorded", "Written a second.",
            [(rate("windward_record_written_bytes_total"), "written")], "Bps", height=6,
        ),
        Lines(
            "Recorded", "A second: figures of machines (load) and instances (usage), changes of the ledger, decisions, entries.",
            [(rate("windward_record_figures_total", "kind"), "{{kind}}"),
             (rate("windward_record_changes_total"), "changes"),
             (rate("windward_record_decisions_total"), "decisions"),
             (rate("windward_record_entries_total"), "entries")], "ops", height=6,
        ),
        Lines(
            "Not recorded", "In five minutes: gaps by source, messages that Kafka had no longer, messages refused by reason.",
            [("sum by (source) (increase(windward_record_gaps_total[5m]))", "gap: {{source}}"),
             ("sum(increase(windward_record_lost_messages_total[5m]))", "lost messages"),
             ("sum by (reason) (increase(windward_record_messages_refused_total[5m]))", "refused: {{reason}}")],
            "short", height=6, steps=NONE_IS_GOOD,
        ),
        Lines(
            "Failed rounds of the recorder", "In five minutes, by part; and files removed to make room, which is no failure.",
            [("sum by (part) (increase(windward_record_failures_total[5m]))", "{{part}}"),
             ("sum(increase(windward_record_removed_files_total[5m]))", "removed files")], "short", height=6,
        ),
    ]  # fmt: skip


def up(process: str, title: str, about: str) -> Figures:
    """Return whether all processes of a kind are well."""
    asked = [(f"min(windward_{process}_up)", process.replace("_", " "))]
    yes = {"1": ("yes", "green"), "0": ("no", "red")}
    return Figures(title, about, asked, "short", width=4, height=6, words=yes, graph=False)


def _load_watcher() -> list[Panel]:
    return [
        up("load_watcher", "Load watcher reads Redis", "1 while the windows can be read; else it answers by the last known load."),
        Figures(
            "Age of the load", "Of the oldest node in the last answer; TargetLoadPacking adds what was placed since.",
            [("time() - min(windward_load_watcher_window_end_timestamp_seconds > 0)", "age")], "s", width=4, height=6,
            decimals=0, steps=AGE,
        ),
        Lines(
            "Nodes", "Of the last answer: listed, and left out without fresh data, which score 0.",
            [("max by (state) (windward_load_watcher_nodes)", "{{state}}")], "short", height=6,
        ),
        Lines(
            "Answers of the load watcher", "A second, by HTTP status; each plugin asks every 30 s. 503: no load is known.",
            rates("windward_load_watcher_answers_total", "status"), "ops", height=6,
        ),
    ]  # fmt: skip


def _pods() -> list[Panel]:
    return [
        up("pods", "Pods are followed", "1 while all who run it watch, or wait for the lease."),
        Figures(
            "API server heard", "Since it said something to the one that leads; a bookmark comes each minute.",
            [("time() - max(windward_pods_heard_timestamp_seconds > 0)", "ago")], "s", width=4, height=6,
            decimals=0, steps=((None, "green"), (150, "yellow"), (300, "red")),
        ),
        Figures(
            "Leading and refused", "How many hold the lease, one a cluster; running pods that cannot be in the ledger.",
            [("sum(windward_pods_leads)", "lead"), ("max(windward_pods_refused)", "refused")], "short", width=4, height=6,
            graph=False,
        ),
        Figures(
            "Nodes' facts", "Nodes whose labels, taints and room are in Redis; refused: what cannot be read; failed: writes in five minutes.",
            [("max(windward_pods_nodes)", "in Redis"), ("max(windward_pods_nodes_refused)", "refused"),
             ("sum(increase(windward_pods_nodes_failures_total[5m]))", "failed")], "short", width=4, height=6,
            decimals=0, graph=False,
        ),
        Lines(
            "Changes from pods", "A second: instances confirmed, corrected and released.",
            rates("windward_pods_changes_total", "change"), "ops", width=4, height=6,
        ),
        Lines(
            "Lists of pods", "A second, by result, and how long the last one took; each error is followed by a list.",
            [*rates("windward_pods_lists_total", "result"), ("max(windward_pods_list_seconds)", "seconds")], "short",
            width=4, height=6,
        ),
    ]  # fmt: skip


def _extender() -> list[Panel]:
    return [
        up("extender", "Extender reads Redis", "1 while all extenders read windows and ledger; else the scheduler decides alone."),
        Lines(
            "Answers to the scheduler", "A second, by verb.",
            rates("windward_extender_answers_total", "verb"), "ops", width=5, height=6,
        ),
        Lines(
            "Neutral answers", "A second, by reason: nothing is scored or refused, and the scheduler decides alone.",
            [(f'sum by (result) (rate(windward_extender_answers_total{{result!="answered"}}{RATE}))', "{{result}}")],
            "ops", width=5, height=6,
        ),
        Lines(
            "Time of a verb", "99th percentile and mean; after 200 ms the scheduler waits no longer.",
            [(f"histogram_quantile(0.99, {rate('windward_extender_seconds_bucket', 'verb, le')})", "{{verb}}"),
             (f"{rate('windward_extender_seconds_sum')} / {rate('windward_extender_seconds_count')}", "mean")], "s", width=5, height=6,
        ),
        Lines(
            "Unknown nodes, refused binds", "A second: nodes asked about that have no agent; pods that were not bound, by reason; and the pods that count before they are in the ledger.",
            [(rate("windward_extender_unknown_nodes_total"), "unknown nodes"),
             *rates("windward_extender_refused_binds_total", "reason"), ("sum(windward_extender_pending)", "pending")], "short", width=5, height=6,
        ),
    ]  # fmt: skip


def _processes() -> list[Panel]:
    """Return the panels on what processes use of their hosts: the maximum per job, one line for all agents."""
    return [
        Lines(
            "Memory of processes", "Resident memory of the largest process of each job.",
            [('max by (job) (process_resident_memory_bytes{job=~"windward-.*"})', "{{job}}")], "bytes", width=6,
        ),
        Lines(
            "CPU of processes", "Cores that the busiest process of each job takes.",
            [(f'max by (job) (rate(process_cpu_seconds_total{{job=~"windward-.*"}}{RATE}))', "{{job}}")], "short",
            width=6,
        ),
        Lines(
            "Open files", "Share of the files that a process may open, of the process of each job that is nearest to it.",
            [('max by (job) (process_open_fds{job=~"windward-.*"} / process_max_fds{job=~"windward-.*"})', "{{job}}")],
            "percentunit", width=6, steps=((None, "green"), (0.8, "red")), high=1,
        ),
        Lines(
            "Since the start", "Age of the youngest process of each job; a sawtooth shows one that is started again and again.",
            [('min by (job) (time() - process_start_time_seconds{job=~"windward-.*"})', "{{job}}")], "s", width=6,
        ),
    ]  # fmt: skip


def _evictor() -> list[Panel]:
    return [
        up("evictor", "Evictor well", "1 while all evictors can ask Redis, a scorer and the API server."),
        Lines(
            "Evictions", "A second: pods evicted, and dry runs where there is no --apply.",
            [(rate("windward_evictor_evicted_total"), "evicted"), (rate("windward_evictor_dry_runs_total"), "dry runs")], "ops", width=5, height=6,
        ),
        Lines(
            "Declined proposals", "A second, by reason; budget: a PodDisruptionBudget.",
            rates("windward_evictor_declined_total", "reason"), "ops", width=5, height=6,
        ),
        Lines(
            "Replacements", "A second: to the held target, elsewhere, or not seen while it was held; and how many pods got the held node from the extender.",
            [*rates("windward_evictor_replaced_total", "where"),
             (rate("windward_extender_steered_total"), "steered by the extender")], "ops", width=5, height=6,
        ),
        Lines(
            "Open and waiting", "Evicted pods whose replacement was not seen yet, and proposals that wait, by reason.",
            [("sum(windward_evictor_open)", "open"), ("sum by (reason) (windward_evictor_waiting)", "{{reason}}")],
            "short", width=5, height=6,
        ),
    ]  # fmt: skip
