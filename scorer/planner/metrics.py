"""The planner's metrics."""

from schemas.process.metrics import counter, gauge
from scorer.metrics import AnsweringMetrics
from scorer.planning.balance.proposals import OUTCOMES
from scorer.planning.violations import WHY

RESULTS = ("planned", "waiting", "failed")


class Metrics(AnsweringMetrics):
    """The metrics of a planner: of its queries, and of its rounds of rebalancing."""

    PROCESS = "planner"

    rounds = counter("windward_planner_rounds", "Rounds of rebalancing, by result", result=RESULTS)
    proposals = counter("windward_planner_proposals", "Proposed moves, by outcome", outcome=OUTCOMES)
    open = gauge("windward_planner_open", "Proposed moves on each list", list=("waiting", "taken"))
    leads = gauge("windward_planner_leads", "1 while this process holds the lease of the rounds")
    overload = gauge("windward_planner_overload", "Expected load above the limit, in machines of mean size")
    broken = gauge("windward_fleet_rule_violations", "Broken rules by cause, told by the holder of the lease", why=WHY)
    planned_at = gauge("windward_planner_round_timestamp_seconds", "When it planned a round last")
