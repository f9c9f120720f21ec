"""The dashboard of scorers and ledger: answers by code, latency, conflicts, reservations, the state decided on."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana import parts
from ops.grafana.parts import RATE

SLOW: parts.Steps = ((None, "green"), (0.05, "yellow"), (0.1, "red"))
QUEUE: parts.Steps = ((None, "green"), (100, "yellow"), (1000, "red"))
FEW: parts.Steps = ((None, "green"), (0.01, "yellow"), (0.05, "red"))
"""Of a share that is small while all is well."""


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return parts.page(
        "windward-scorer",
        "Windward / Scorer and ledger",
        "Answers by code, latency, conflicts, refusals, reservations, and the state decisions are made on",
        [],
        [
            ("Now", _now()),
            ("Answers", _answers()),
            ("Placing", _placing()),
            ("What decisions are made on", _state()),
            ("Rebalancing", _rebalancing()),
        ],
    )


def _now() -> list[parts.Panel]:
    return [
        parts.Figures(
            "Scorers ready", "That can answer queries.", [("sum(windward_scorer_ready)", "ready")], "short", width=4,
            steps=parts.SOME_IS_GOOD,
        ),
        parts.Figures(
            "Answers", "A second.", [("sum(windward:scorer_queries:rate5m)", "answers")], "ops", width=4, decimals=2,
        ),
        parts.Figures(
            "Errors", "Share of the answers whose code says that Windward failed, not the query.",
            [("windward:scorer_errors:ratio_rate5m", "errors")], "percentunit", width=4, decimals=2,
            steps=FEW,
        ),
        parts.Figures(
            "p99 of place", "From taking a query to its answer.",
            [('windward:scorer_query_duration_seconds:p99_rate5m{method="place"}', "place")], "s", width=4, steps=SLOW,
        ),
        parts.Figures(
            "Queue", "Queries waiting.", [("max(windward_scorer_queue_length)", "queue")], "short", width=4,
            steps=QUEUE,
        ),
        parts.Figures(
            "Stale share", "Machines whose data is too old, of all that ever had any.",
            [("windward:fleet_stale:ratio", "stale")], "percentunit", width=4, decimals=1,
            steps=FEW,
        ),
    ]  # fmt: skip


def _answers() -> list[parts.Panel]:
    return [
        parts.Lines(
            "Answers by code", "A second; gRPC's names of codes.",
            [("sum by (code) (windward:scorer_queries:rate5m)", "{{code}}")], "ops", width=8,
        ),
        parts.Lines(
            "Answers by method", "A second.", [("sum by (method) (windward:scorer_queries:rate5m)", "{{method}}")], "ops",
            width=8,
        ),
        parts.Lines(
            "Latency", "From taking a query to its answer, all methods.",
            parts.quantiles("windward_scorer_query_duration_seconds", (0.5, 0.95, 0.99)),
            "s", width=8, steps=SLOW,
        ),
        parts.Lines(
            "p99 by method", "From taking a query to its answer.",
            [("windward:scorer_query_duration_seconds:p99_rate5m >= 0", "{{method}}")], "s", width=8, steps=SLOW,
        ),
        parts.Lines(
            "Queue", "Queries waiting, as each scorer last saw it.",
            [("max by (instance) (windward_scorer_queue_length)", "{{instance}}")], "short", width=8,
            steps=QUEUE,
        ),
        parts.Lines(
            "Queries answered in steps", "Long ones that each scorer has at hand; short ones are answered between the steps.",
            [("max by (instance) (windward_scorer_queries_long)", "{{instance}}")], "short", width=8,
        ),
        parts.Lines(
            "Queries not answered", "A second: past their deadline, unreadable, refused in a full queue, taken back from a dead scorer.",
            [
                (f"sum(rate(windward_scorer_queries_expired_total{RATE}))", "expired"),
                (f"sum(rate(windward_scorer_queries_malformed_total{RATE}))", "malformed"),
                (f"sum(rate(windward_scorer_queries_refused_total{RATE}))", "refused"),
                (f"sum(rate(windward_scorer_queries_returned_total{RATE}))", "taken back"),
            ],
            "ops", width=8, steps=parts.NONE_IS_GOOD,
        ),
    ]  # fmt: skip


def _placing() -> list[parts.Panel]:
    return [
        parts.Lines(
            "Instances asked for", "A second, by outcome; missing: no machine fitted.",
            [(f"sum by (outcome) (rate(windward_scorer_placements_total{RATE}))", "{{outcome}}")], "ops", width=8,
        ),
        parts.Lines(
            "Conflicts", "Candidates lost to another scorer, for each instance placed.",
            [("windward:scorer_conflicts:ratio_rate5m", "conflicts")], "percentunit", width=8,
            steps=((None, "green"), (0.5, "yellow")),
        ),
        parts.Lines(
            "Refusals by filter", "Machines that refuse the exporter's probe request, by the first filter that does.",
            [("max by (profile, filter) (windward_fleet_probe_refusals)", "{{filter}}")], "short", width=8,
        ),
        parts.Lines(
            "Ledger by state", "Instances that hold their amounts.",
            [("max by (state) (windward_fleet_instances)", "{{state}}")], "short", width=8, stacked=True,
        ),
        parts.Lines(
            "Reuse", "Rankings and plans a second, by whether the one that was kept served.",
            [(f"sum by (result) (rate(windward_scorer_ranking_reuse_total{RATE}))", "{{result}}")], "ops", width=8,
            stacked=True,
        ),
        parts.Lines(
            "Reuse by reason", "Why the kept ranking served, or a new one was made (`scorer/placement/choosing/reasons.py`).",
            [(f"sum by (reason) (rate(windward_scorer_ranking_reuse_total{RATE})) > 0", "{{reason}}")], "ops", width=8,
        ),
        parts.Lines(
            "Reservations that ran out", "A second: they were not confirmed in time.",
            [(f"sum(rate(windward_scorer_reservations_expired_total{RATE}))", "expired")], "ops", width=8,
        ),
        parts.Lines(
            "Ledger, as scorers see it", "Instances in each scorer's copy; they differ for milliseconds only.",
            [("max by (instance) (windward_scorer_ledger_instances)", "{{instance}}")], "short", width=8,
        ),
        parts.Lines(
            "Ledger differences", "Machines and clusters whose sums were wrong at the last check, which a scorer makes when it starts.",
            [("max(windward_scorer_ledger_differences)", "differences")], "short", width=8, steps=parts.NONE_IS_GOOD,
        ),
        parts.Lines(
            "Instances that the ledger lost", "By scorer, since its start: a failover or an emptied server took what a scorer had seen.",
            [("max by (instance) (windward_scorer_ledger_lost_instances_total)", "{{instance}}")], "short", width=8,
            steps=parts.NONE_IS_GOOD,
        ),
        parts.Lines(
            "Ledger not accepted", "1 while a scorer refuses to place because the ledger was emptied.",
            [("max by (instance) (windward_scorer_ledger_unaccepted)", "{{instance}}")], "short", width=8,
            steps=parts.NONE_IS_GOOD, high=1,
        ),
    ]  # fmt: skip


def _rebalancing() -> list[parts.Panel]:
    return [
        parts.Lines(
            "Proposed moves", "A minute, by what became of them; none without a rebalancer.",
            [(f"60 * sum by (outcome) (rate(windward_rebalancer_proposals_total{RATE})) > 0", "{{outcome}}")], "short",
            width=8,
        ),
        parts.Lines(
            "Open moves", "Proposed and not done: waiting for a program that moves instances, or taken by one.",
            [("max by (list) (windward_rebalancer_open and on (instance) (windward_rebalancer_leads == 1))", "{{list}}")],
            "short", width=8,
        ),
        parts.Lines(
            "Expected overload", "Load above the limit in the mean, in machines of mean size, as the last round found it.",
            [("max(windward_rebalancer_overload and on (instance) (windward_rebalancer_leads == 1))", "overload")],
            "short", width=8,
        ),
        parts.Lines(
            "Rounds", "A minute: planned, waiting for the lease, failed.",
            [(f"60 * sum by (result) (rate(windward_rebalancer_rounds_total{RATE}))", "{{result}}")], "short", width=8,
        ),
        parts.Lines(
            "Age of the last plan", "Of the rebalancer that leads.",
            [("time() - max(windward_rebalancer_round_timestamp_seconds > 0)", "age")], "s", width=8,
        ),
    ]  # fmt: skip


def _state() -> list[parts.Panel]:
    return [
        parts.Lines(
            "Age of the newest sample", "In each scorer's snapshot.",
            [("max by (instance) (time() - windward_scorer_newest_sample_timestamp_seconds)", "{{instance}}")], "s",
            width=8, steps=parts.AGE,
        ),
        parts.Lines(
            "Age of the snapshot", "Since each scorer last built one; it does when windows change.",
            [("max by (instance) (time() - windward_scorer_snapshot_timestamp_seconds)", "{{instance}}")], "s", width=8,
            steps=parts.AGE,
        ),
        parts.Lines(
            "Building a snapshot", "Reading what changed and joining it.",
            parts.quantiles("windward_scorer_refresh_duration_seconds"),
            "s", width=8, steps=((None, "green"), (0.05, "yellow"), (0.2, "red")),
        ),
        parts.Lines(
            "Machines in the snapshot", "By scorer.",
            [("max by (instance) (windward_scorer_machines)", "{{instance}}")], "short", width=8,
        ),
        parts.Lines(
            "Degraded", "1 while at least 90 % of the machines in a scorer's snapshot have stale data, or none has any.",
            [("max by (instance) (windward_scorer_degraded)", "{{instance}}")], "short", width=8,
            steps=parts.NONE_IS_GOOD, high=1,
        ),
        parts.Lines(
            "Failed refreshes", "A second, by reason.",
            [(f"sum by (reason) (rate(windward_scorer_refresh_failures_total{RATE}))", "{{reason}}")], "ops", width=8,
            steps=parts.NONE_IS_GOOD,
        ),
        parts.Lines(
            "Ledger read whole", "Times, over all scorers: at a start, after a lost connection or too far behind.",
            [(f"sum(increase(windward_scorer_ledger_reloads_total{RATE}))", "reloads")], "short", width=8,
        ),
    ]  # fmt: skip
