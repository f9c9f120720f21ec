"""The rebalancer's metrics."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

from scorer.planning.balance.proposals import OUTCOMES

RESULTS = ("planned", "waiting", "failed")


class Metrics:
    """The rebalancer's metrics, in a registry of their own; every known label begins at 0."""

    def __init__(self, version: str = "") -> None:
        self.registry = CollectorRegistry()
        of: Any = {"registry": self.registry}
        self.rounds = Counter("windward_rebalancer_rounds", "Rounds, by result", ["result"], **of)
        self.proposals = Counter("windward_rebalancer_proposals", "Proposed moves, by outcome", ["outcome"], **of)
        self.open = Gauge("windward_rebalancer_open", "Proposed moves on each list", ["list"], **of)
        self.leads = Gauge("windward_rebalancer_leads", "1 while this process holds the lease", **of)
        self.overload = Gauge(
            "windward_rebalancer_overload", "Expected load above the limit, in machines of mean size", **of
        )
        self.unsafe = Gauge(
            "windward_rebalancer_ledger_unsafe", "1 while the ledger's server appends to no file, or may evict", **of
        )
        self.clock_ahead = Gauge(
            "windward_rebalancer_clock_ahead_seconds", "How far this host's clock is ahead of Redis'", **of
        )
        self.planned_at = Gauge("windward_rebalancer_round_timestamp_seconds", "When it planned last", **of)
        Info("windward_rebalancer_build", "Version of this process", **of).info({"version": version})
        for result in RESULTS:
            self.rounds.labels(result)
        for outcome in OUTCOMES:
            self.proposals.labels(outcome)
        for name in ("waiting", "taken"):
            self.open.labels(name)
