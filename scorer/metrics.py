"""The scorer's metrics."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from schemas.rpc.envelope import Code
from schemas.tables.learned import Chances

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class Metrics:
    """The scorer's metrics, in a registry of their own, so that a process or a test may hold several.

    Counters of known labels (``methods``, codes, reasons) begin at 0: the increase of a counter that first appears with
    its first event would not show that event.
    """

    def __init__(self, version: str = "", methods: Iterable[str] = ()) -> None:
        self.registry = CollectorRegistry()
        of: Any = {"registry": self.registry}
        self.queries = Counter("windward_scorer_queries", "Queries answered", ["method", "code"], **of)
        self.duration = Histogram(
            "windward_scorer_query_duration_seconds", "From taking a query to its answer", ["method"],
            buckets=_SECONDS, **of,
        )  # fmt: skip
        self.expired = Counter("windward_scorer_queries_expired", "Queries refused after their deadline", **of)
        self.malformed = Counter(
            "windward_scorer_queries_malformed", "Queries that could not be read far enough to be answered", **of
        )
        self.refused = Counter("windward_scorer_queries_refused", "Queries refused because too many waited", **of)
        self.returned = Counter("windward_scorer_queries_returned", "Queries taken back from a dead scorer", **of)
        self.waiting = Gauge("windward_scorer_queue_length", "Queries waiting", **of)
        self.long = Gauge("windward_scorer_queries_long", "Queries that are being answered in steps", **of)
        self.placements = Counter("windward_scorer_placements", "Instances asked for", ["outcome"], **of)
        self.conflicts = Counter("windward_scorer_conflicts", "Candidates lost to another scorer", **of)
        self.reuse = Counter(
            "windward_scorer_ranking_reuse", "Rankings and plans, by whether the one that was kept served, and why",
            ["result", "reason"], **of,
        )  # fmt: skip
        self.expiries = Counter("windward_scorer_reservations_expired", "Reservations that ran out", **of)
        self.instances = Gauge("windward_scorer_ledger_instances", "Instances reserved or confirmed", **of)
        self.reloads = Counter("windward_scorer_ledger_reloads", "Times the whole ledger was read", **of)
        self.differences = Gauge(
            "windward_scorer_ledger_differences",
            "Machines, clusters and instances that the last check found wrong",
            **of,
        )
        self.lost = Counter("windward_scorer_ledger_lost_instances", "Instances that the ledger's server lost", **of)
        self.unaccepted = Gauge("windward_scorer_ledger_unaccepted", "1 while an emptied ledger stops placing", **of)
        self.unsafe = Gauge(
            "windward_scorer_ledger_unsafe", "1 while the ledger's server appends to no file, or may evict", **of
        )
        self.chances = {
            what: Gauge(f"windward_scorer_chance_{what}", told, ["resource", "bin"], **of)
            for what, told in (
                ("stated_ratio", "Mean stated chance of overload before it is corrected, by bins of it"),
                ("seen_ratio", "Mean part of the next half hour in which the overload came, in the same cases"),
                ("cases", "Machines and half hours in the bin; older ones count less"),
            )
        }
        self.machines = Gauge("windward_scorer_machines", "Machines in the snapshot", **of)
        self.refreshed = Gauge("windward_scorer_snapshot_timestamp_seconds", "When the snapshot was built", **of)
        self.newest = Gauge("windward_scorer_newest_sample_timestamp_seconds", "Event time of the newest sample", **of)
        self.refresh_s = Histogram(
            "windward_scorer_refresh_duration_seconds", "Reading the windows and building the snapshot",
            buckets=_SECONDS, **of,
        )  # fmt: skip
        self.refresh_failures = Counter("windward_scorer_refresh_failures", "Refreshes that failed", ["reason"], **of)
        self.clock_ahead = Gauge(
            "windward_scorer_clock_ahead_seconds", "How far this host's clock is ahead of Redis'; below 0: behind", **of
        )
        self.ready = Gauge("windward_scorer_ready", "1 while queries can be answered", **of)
        self.degraded = Gauge(
            "windward_scorer_degraded", "1 while at least 90 % of the machines have stale data, or none has any", **of
        )
        Info("windward_scorer_build", "Version of this scorer", **of).info({"version": version})
        for method in methods:
            self.duration.labels(method)
            for code in ("OK", *get_args(Code)):
                self.queries.labels(method, code)
        for outcome in ("placed", "missing"):
            self.placements.labels(outcome)
        for reason in ("redis", "internal", "warming"):
            self.refresh_failures.labels(reason)
        self._query_child = cache(self.queries.labels)
        self._duration_child = cache(self.duration.labels)

    def watched(self, chances: Chances | None) -> None:
        """Show what became of stated chances; None: another scorer shows it."""
        for gauge in self.chances.values():
            gauge.clear()
        for resource, bins in (chances.bins if chances is not None else {}).items():
            for number, one in enumerate(bins):
                if one.cases >= 1:
                    shown = (one.stated / one.cases, one.observed / one.cases, one.cases)
                    for gauge, value in zip(self.chances.values(), shown, strict=True):
                        gauge.labels(resource, f"{number:02}").set(value)

    def answered(self, method: str, code: str, seconds: float) -> None:
        """Count one answer; ``code`` is OK or the error's."""
        self._query_child(method, code).inc()
        self._duration_child(method).observe(seconds)
