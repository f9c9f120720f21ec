"""The rebalancer's metrics."""

from __future__ import annotations

from schemas.process.metrics import Table, counter, gauge
from scorer.planning.balance.proposals import OUTCOMES

RESULTS = ("planned", "waiting", "failed")


class Metrics(Table):
    """The rebalancer's metrics, in a registry of their own; every known label begins at 0."""

    PROCESS = "rebalancer"

    rounds = counter("windward_rebalancer_rounds", "Rounds, by result", result=RESULTS)
    proposals = counter("windward_rebalancer_proposals", "Proposed moves, by outcome", outcome=OUTCOMES)
    open = gauge("windward_rebalancer_open", "Proposed moves on each list", list=("waiting", "taken"))
    leads = gauge("windward_rebalancer_leads", "1 while this process holds the lease")
    overload = gauge("windward_rebalancer_overload", "Expected load above the limit, in machines of mean size")
    unsafe = gauge("windward_rebalancer_ledger_unsafe", "1 while the ledger's server appends to no file, or may evict")
    clock_ahead = gauge("windward_rebalancer_clock_ahead_seconds", "How far this host's clock is ahead of Redis'")
    planned_at = gauge("windward_rebalancer_round_timestamp_seconds", "When it planned last")
