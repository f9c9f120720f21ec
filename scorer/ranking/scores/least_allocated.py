"""Least allocated: kube-scheduler's NodeResourcesFit with LeastAllocated."""

from dataclasses import dataclass

from scorer.ranking.formulas.allocation import Allocation


@dataclass(frozen=True, kw_only=True)
class LeastAllocated(Allocation):
    """Prefer machines with much unallocated: the weighted mean of ``(allocatable - allocated) * 100 / allocatable``.

    ``allocated`` includes the instance. A resource over its limit scores 0; one without allocatable is left out; one
    whose use is unknown scores 0. Settings: `scorer.ranking.formulas.allocation.Allocation`.

    Reference: kubernetes, pkg/scheduler/framework/plugins/noderesources/least_allocated.go.
    """

    name = "least_allocated"
