"""Most allocated: kube-scheduler's NodeResourcesFit with MostAllocated."""

from dataclasses import dataclass

from scorer.ranking.formulas.allocation import Allocation


@dataclass(frozen=True, kw_only=True)
class MostAllocated(Allocation):
    """Prefer machines with little left, so that others empty.

    The score is the weighted mean of ``min(allocated, allocatable) * 100 / allocatable``. ``allocated`` includes the
    instance; over the limit scores 100. A resource without allocatable is left out; one whose use is unknown scores 0.
    Settings: `scorer.ranking.formulas.allocation.Allocation`.

    Reference: kubernetes, pkg/scheduler/framework/plugins/noderesources/most_allocated.go.
    """

    name = "most_allocated"
