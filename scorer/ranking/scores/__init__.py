"""Scores: how well a machine suits an instance, 0 to 100. Each has its own file, and an entry in `SCORES`."""

from typing import Any

from scorer.ranking.scores.apart import Apart
from scorer.ranking.scores.balanced_allocation import BalancedAllocation
from scorer.ranking.scores.data_locality import DataLocality
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.ranking.scores.expression import Expression
from scorer.ranking.scores.failed_starts import FailedStarts
from scorer.ranking.scores.global_variance import GlobalVariance
from scorer.ranking.scores.least_allocated import LeastAllocated
from scorer.ranking.scores.load_aware import LoadAware
from scorer.ranking.scores.load_variation_risk import LoadVariationRisk
from scorer.ranking.scores.low_risk_overcommitment import LowRiskOvercommitment
from scorer.ranking.scores.machine_preference import MachinePreference
from scorer.ranking.scores.most_allocated import MostAllocated
from scorer.ranking.scores.peaks import Peaks
from scorer.ranking.scores.requested_to_capacity_ratio import RequestedToCapacityRatio
from scorer.ranking.scores.spread import Spread
from scorer.ranking.scores.taint_preference import TaintPreference
from scorer.ranking.scores.target_load_packing import TargetLoadPacking

SCORES: tuple[type[Any], ...] = (
    GlobalVariance,
    ExpectedOverload,
    LoadVariationRisk,
    TargetLoadPacking,
    LowRiskOvercommitment,
    Peaks,
    LoadAware,
    LeastAllocated,
    MostAllocated,
    BalancedAllocation,
    RequestedToCapacityRatio,
    MachinePreference,
    TaintPreference,
    DataLocality,
    Spread,
    Apart,
    FailedStarts,
    Expression,
)
