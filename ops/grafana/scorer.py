"""The dashboard of scorers and ledger: answers by code, latency, conflicts, reservations, the state decided on."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana.page import Row, page
from ops.grafana.panels import (
    AGE,
    NO_MACHINE,
    NO_SAMPLE,
    NONE_IS_GOOD,
    RATE,
    SOME_IS_GOOD,
    STALE,
    Figures,
    Lines,
    Panel,
    Steps,
    each,
    quantiles,
    rate,
    rates,
    some,
)

SLOW: Steps = ((None, "green"), (0.05, "yellow"), (0.1, "red"))
QUEUE: Steps = ((None, "green"), (100, "yellow"), (1000, "red"))
FEW: Steps = ((None, "green"), (0.01, "yellow"), (0.05, "red"))
"""For a share that is small while all is well."""
NO_CHANCES = "nothing stated was watched for half an hour yet"
NOT_ASKED = "nothing was asked, or no scorer answers"
PLANNER_NOT_ASKED = "nothing was asked, or no planner runs"


def dashboard() -> Dashboard:
    return page(
        "windward-scorer",
        "Windward / Scorer and ledger",
        "Answers by code, latency, conflicts, refusals, reservations, and the state decisions are made on",
        [],
        [
            Row("Now", _now()),
            Row("Answers", _answers()),
            Row("Placing", _placing()),
            Row("What decisions are made on", _state()),
            Row("Chances of overload", _chances(), collapsed=True),
            Row("Rebalancing", _rebalancing(), collapsed=True),
        ],
    )


def _now() -> list[Panel]:
    return [
        Figures(
            "Scorers ready", "That can answer queries.",
            [("sum(windward_scorer_ready)", "ready")], "short", width=4, steps=SOME_IS_GOOD,
        ),
        Figures(
            "Answers", "A second.", [("sum(windward:scorer_queries:rate5m)", "answers")], "ops", width=4, decimals=2
        ),
        Figures(
            "Errors", "Share of the answers whose code says that Windward failed, not the query.",
            [("windward:scorer_errors:ratio_rate5m", "errors")], "percentunit", width=4, decimals=2, steps=FEW,
        ),
        Figures(
            "Place, 99 %", "From taking a query to its answer.",
            [('windward:scorer_query_duration_seconds:p99_rate5m{method="place"} >= 0', "place")], "s", width=4, steps=SLOW,
            empty="none asked for",
        ),
        Figures(
            "Queue", "Queries waiting.", [("max(windward_scorer_queue_length)", "queue")], "short", width=4, steps=QUEUE
        ),
        Figures(
            "Stale share", "Machines whose data is too old, of all that ever had any.",
            [("windward:fleet_stale:ratio >= 0", "stale")], "percentunit", width=4, decimals=1, steps=STALE,
            empty=NO_MACHINE,
        ),
    ]  # fmt: skip


def _answers() -> list[Panel]:
    return [
        Lines(
            "Answers by code", "A second; gRPC's names of codes.",
            some(each("windward:scorer_queries:rate5m", "code", "sum")), "ops", empty=NOT_ASKED,
        ),
        Lines(
            "Answers by method", "A second.", some(each("windward:scorer_queries:rate5m", "method", "sum")), "ops",
            empty=NOT_ASKED,
        ),
        Lines(
            "Latency", "From taking a query to its answer, all methods.",
            quantiles("windward_scorer_query_duration_seconds", (0.5, 0.95, 0.99)), "s", steps=SLOW,
            empty=NOT_ASKED,
        ),
        Lines(
            "99 % by method", "From taking a query to its answer.",
            [("windward:scorer_query_duration_seconds:p99_rate5m >= 0", "{{method}}")], "s", steps=SLOW,
            empty=NOT_ASKED,
        ),
        Lines(
            "Queue", "Queries waiting, as each scorer and planner last saw it.",
            [*each("windward_scorer_queue_length", "instance"), *each("windward_planner_queue_length", "instance")],
            "short", steps=QUEUE,
        ),
        Lines(
            "Answers of planners", "A second, of what scorers leave to them.",
            some(rates("windward_planner_queries_total", "method")), "ops", empty=PLANNER_NOT_ASKED,
        ),
        Lines(
            "Latency of planners", "From taking a query to its answer, all methods.",
            quantiles("windward_planner_query_duration_seconds"), "s", empty=PLANNER_NOT_ASKED,
        ),
        Lines(
            "Batches in steps", "Batches that each scorer has at hand; other queries are answered between the steps.",
            each("windward_scorer_queries_long", "instance"), "short",
        ),
        Lines(
            "Queries not done", "A second: past their deadline, unreadable, refused in a full queue, taken back from a dead scorer.",
            [(rate("windward_scorer_queries_expired_total"), "expired"),
             (rate("windward_scorer_queries_malformed_total"), "malformed"),
             (rate("windward_scorer_queries_refused_total"), "refused"),
             (rate("windward_scorer_queries_returned_total"), "taken back")], "ops", steps=NONE_IS_GOOD,
        ),
    ]  # fmt: skip


def _placing() -> list[Panel]:
    return [
        Lines(
            "Instances asked for", "A second, by outcome; missing: no machine fitted.",
            rates("windward_scorer_placements_total", "outcome"), "ops",
        ),
        Lines(
            "Conflicts", "Candidates lost to another scorer, for each instance placed.",
            [("windward:scorer_conflicts:ratio_rate5m", "conflicts")], "percentunit",
            steps=((None, "green"), (0.5, "yellow")), empty="nothing placed",
        ),
        Lines(
            "Ledger by state", "Instances that hold their amounts.",
            each("windward_fleet_instances", "state"), "short", stacked=True,
        ),
        Lines(
            "Reservations that ran out", "A second: they were not confirmed in time, or their start failed.",
            [(rate("windward_scorer_reservations_expired_total"), "expired"),
             (rate("windward_scorer_failed_starts_total"), "failed")], "ops",
        ),
        Lines(
            "Ledger, as scorers see it", "Instances in each scorer's copy; they differ for milliseconds only.",
            each("windward_scorer_ledger_instances", "instance"), "short",
        ),
    ]  # fmt: skip


def _rebalancing() -> list[Panel]:
    return [
        Lines(
            "Proposed moves", "A minute, by what became of them; none without a planner.",
            [(f"60 * sum by (outcome) (rate(windward_planner_proposals_total{RATE}))", "{{outcome}}")], "short",
        ),
        Lines(
            "Open moves", "Proposed and not done: waiting for a program that moves instances, or taken by one.",
            each("windward_planner_open and on (instance) (windward_planner_leads == 1)", "list"), "short",
        ),
        Lines(
            "Expected overload", "Load above the limit in the mean, in machines of mean size, as the last round found it.",
            [("max(windward_planner_overload and on (instance) (windward_planner_leads == 1))", "overload")],
            "short",
        ),
        Lines(
            "Rounds", "A minute: planned, waiting for the lease, failed.",
            [(f"60 * sum by (result) (rate(windward_planner_rounds_total{RATE}))", "{{result}}")], "short",
        ),
        Lines(
            "Age of the last plan", "Of the planner that leads.",
            [("time() - max(windward_planner_round_timestamp_seconds > 0)", "age")], "s",
        ),
    ]  # fmt: skip


def _state() -> list[Panel]:
    return [
        Lines(
            "Age of the newest sample", "In each scorer's snapshot.",
            each("time() - (windward_scorer_newest_sample_timestamp_seconds > 0)", "instance"), "s", steps=AGE,
            empty=NO_SAMPLE,
        ),
        Lines(
            "Age of the snapshot", "Since each scorer last built one; it does when windows change.",
            each("time() - windward_scorer_snapshot_timestamp_seconds", "instance"), "s", steps=AGE,
        ),
        Lines(
            "Building a snapshot", "Reading what changed and joining it.",
            quantiles("windward_scorer_refresh_duration_seconds"), "s",
            steps=((None, "green"), (0.05, "yellow"), (0.2, "red")),
        ),
        Lines("Machines in the snapshot", "By scorer.", each("windward_scorer_machines", "instance"), "short"),
        Lines(
            "Degraded", "1 while no machine in a scorer's snapshot has fresh data.",
            each("windward_scorer_degraded", "instance"), "short", steps=NONE_IS_GOOD, high=1,
        ),
        Lines(
            "Failed refreshes", "A second, by reason.",
            rates("windward_scorer_refresh_failures_total", "reason"), "ops", steps=NONE_IS_GOOD,
        ),
        Lines(
            "Ledger read whole", "Times, over all scorers: at a start, after a lost connection or too far behind.",
            [(f"sum(increase(windward_scorer_ledger_reloads_total{RATE}))", "reloads")], "short",
        ),
        Lines(
            "Ledger faults",
            "0 while all is well. Machines and clusters whose sums were wrong at the last check; instances lost to a failover"
            " or an emptied server, and queries about torn records, since the start of a scorer; 1 while a scorer refuses an"
            " emptied ledger, or its server appends to no file or may evict.",
            [("max(windward_scorer_ledger_differences)", "differences"),
             ("max(windward_scorer_ledger_lost_instances_total)", "lost instances"),
             ("max(windward_scorer_ledger_torn_total)", "torn records"),
             ("max(windward_scorer_ledger_unaccepted)", "not accepted"),
             ("max(windward_scorer_ledger_unsafe or windward_planner_ledger_unsafe)", "not safe")],
            "short", steps=NONE_IS_GOOD, high=1,
        ),
        Lines(
            "Clock",
            "How far the host of each scorer, stream worker and planner is ahead of Redis. Deadlines are by the clock of Redis.",
            [one for kind in ("scorer", "stream", "planner") for one in each(f"windward_{kind}_clock_ahead_seconds", "instance")],
            "s",
        ),
    ]  # fmt: skip


def _chances() -> list[Panel]:
    """Return the panels that compare stated chances of overload with its frequency, known half an hour later."""
    return [
        Lines(
            "Chances of overload, stated", "Mean by bin, before the correction; compare with what was seen.",
            each("windward_scorer_chance_stated_ratio{resource=\"cpu\"}", "bin"), "percentunit", empty=NO_CHANCES,
        ),
        Lines(
            "Chances of overload, seen", "In the same cases, the part of the next half hour with overload. Answers state this.",
            each("windward_scorer_chance_seen_ratio{resource=\"cpu\"}", "bin"), "percentunit", empty=NO_CHANCES,
        ),
        Lines(
            "Chances of overload, cases", "A machine and half an hour each; older ones count less.",
            each("windward_scorer_chance_cases{resource=\"cpu\"}", "bin"), "short", empty=NO_CHANCES,
        ),
    ]  # fmt: skip
