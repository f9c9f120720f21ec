"""The metrics of the processes that answer queries, and those of the scorer alone."""

from collections.abc import Iterable
from functools import cache
from typing import get_args

from schemas.process.metrics import Table, counter, gauge, histogram
from schemas.rpc.envelope import Code
from schemas.tables.learned import Chances

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


class AnsweringMetrics(Table):
    """The metrics of a process that answers queries, in a registry of their own: a test may hold several.

    Counters of known labels (``methods``, codes, reasons) begin at 0: the increase of a counter that first appears with
    its first event would not show that event.
    """

    queries = counter("windward_{}_queries", "Queries answered", method=(), code=())
    duration = histogram("windward_{}_query_duration_seconds", "From taking a query to its answer", _SECONDS, method=())
    expired = counter("windward_{}_queries_expired", "Queries refused after their deadline")
    malformed = counter("windward_{}_queries_malformed", "Queries that could not be read far enough to be answered")
    refused = counter("windward_{}_queries_refused", "Queries refused because too many waited")
    returned = counter("windward_{}_queries_returned", "Queries taken back from a process that died")
    long = gauge("windward_{}_queries_long", "Queries that are being answered in steps")
    waiting = gauge("windward_{}_queue_length", "Queries waiting")
    instances = gauge("windward_{}_ledger_instances", "Instances reserved or confirmed")
    reloads = counter("windward_{}_ledger_reloads", "Times the whole ledger was read")
    torn = counter("windward_{}_ledger_torn", "Queries refused because the record of their instance cannot be read")
    lost = counter("windward_{}_ledger_lost_instances", "Instances that the ledger's server lost")
    unsafe = gauge("windward_{}_ledger_unsafe", "1 while the ledger's server appends to no file, or may evict")
    machines = gauge("windward_{}_machines", "Machines in the snapshot")
    refreshed = gauge("windward_{}_snapshot_timestamp_seconds", "When the snapshot was built")
    newest = gauge("windward_{}_newest_sample_timestamp_seconds", "Event time of the newest sample")
    refresh_s = histogram(
        "windward_{}_refresh_duration_seconds", "Reading the windows and building the snapshot", _SECONDS
    )
    refresh_failures = counter(
        "windward_{}_refresh_failures", "Refreshes that failed", reason=("redis", "internal", "rows", "tables")
    )
    clock_ahead = gauge(
        "windward_{}_clock_ahead_seconds", "How far this host's clock is ahead of Redis'; below 0: behind"
    )
    ready = gauge("windward_{}_ready", "1 while queries can be answered")
    degraded = gauge("windward_{}_degraded", "1 while no machine has fresh data")

    def __init__(self, version: str = "", methods: Iterable[str] = ()) -> None:
        super().__init__(version)
        for method in methods:
            self.duration.labels(method)
            for code in ("OK", *get_args(Code)):
                self.queries.labels(method, code)
        self._query_child = cache(self.queries.labels)
        self._duration_child = cache(self.duration.labels)

    def answered(self, method: str, code: str, seconds: float) -> None:
        """Count one answer; ``code`` is OK or the error's."""
        self._query_child(method, code).inc()
        self._duration_child(method).observe(seconds)


class Metrics(AnsweringMetrics):
    """The scorer's metrics."""

    PROCESS = "scorer"

    placements = counter("windward_scorer_placements", "Instances asked for", outcome=("placed", "missing"))
    conflicts = counter("windward_scorer_conflicts", "Candidates lost to another scorer")
    failed_starts = counter("windward_scorer_failed_starts", "Instances released because their start failed")
    expiries = counter("windward_scorer_reservations_expired", "Reservations that ran out")
    unaccepted = gauge("windward_scorer_ledger_unaccepted", "1 while an emptied ledger stops placing")
    differences = gauge(
        "windward_scorer_ledger_differences", "Machines, clusters and instances that the last check found wrong"
    )
    chance_stated = gauge(
        "windward_scorer_chance_stated_ratio",
        "Mean stated chance of overload before it is corrected, by bins of it",
        resource=(),
        bin=(),
    )
    chance_seen = gauge(
        "windward_scorer_chance_seen_ratio",
        "Mean part of the next half hour in which the overload came, in the same cases",
        resource=(),
        bin=(),
    )
    chance_cases = gauge(
        "windward_scorer_chance_cases", "Machines and half hours in the bin; older ones count less", resource=(), bin=()
    )

    def watched(self, chances: Chances | None) -> None:
        """Show how often stated chances came true; None: another scorer shows it."""
        chances_of = (self.chance_stated, self.chance_seen, self.chance_cases)
        for each in chances_of:
            each.clear()
        for resource, bins in (chances.bins if chances is not None else {}).items():
            for number, one in enumerate(bins):
                if one.cases >= 1:
                    shown = (one.stated / one.cases, one.observed / one.cases, one.cases)
                    for each, value in zip(chances_of, shown, strict=True):
                        each.labels(resource, f"{number:02}").set(value)
