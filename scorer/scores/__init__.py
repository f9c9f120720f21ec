"""Scores: how good a place a machine is, 0 to 100. One a file, all of them in `SCORES`."""

from __future__ import annotations

from typing import Any

from scorer.scores.balanced_allocation import BalancedAllocation
from scorer.scores.data_locality import DataLocality
from scorer.scores.global_variance import GlobalVariance
from scorer.scores.least_allocated import LeastAllocated
from scorer.scores.load_aware import LoadAware
from scorer.scores.load_variation_risk import LoadVariationRisk
from scorer.scores.low_risk_overcommitment import LowRiskOvercommitment
from scorer.scores.machine_preference import MachinePreference
from scorer.scores.most_allocated import MostAllocated
from scorer.scores.peaks import Peaks
from scorer.scores.requested_to_capacity_ratio import RequestedToCapacityRatio
from scorer.scores.spread import Spread
from scorer.scores.taint_preference import TaintPreference
from scorer.scores.target_load_packing import TargetLoadPacking

SCORES: tuple[type[Any], ...] = (
    GlobalVariance,
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
)
