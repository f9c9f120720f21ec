"""Balanced allocation: kube-scheduler's NodeResourcesBalancedAllocation, in the three forms it has had."""

from dataclasses import dataclass
from typing import Any, Literal

from scorer.ranking.formulas.allocation import Allocation
from scorer.ranking.plugin import Machines, Request


@dataclass(frozen=True, kw_only=True)
class BalancedAllocation(Allocation):
    """Prefer machines whose resources are allocated in equal shares.

    With ``f`` the allocated share of each resource after the placement:

    | form  | score                                                                                      |
    |-------|--------------------------------------------------------------------------------------------|
    | v1.21 | ``100 * (1 - abs(f_cpu - f_memory))``; three: 1 - variance; 0 if any is full or has no limit |
    | v1.22 | ``100 * (1 - std(f))``, f clipped at 1, a resource without allocatable left out              |
    | v1.36 | ``50 + (50 + v1.22 with the requested instance - v1.22 without) / 2``: 75 means no change              |

    A request that requests none of the resources skips the score. Weights only switch a resource on.
    Settings: `scorer.ranking.formulas.allocation.Allocation`.

    Reference: kubernetes, pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
    """

    name = "balanced_allocation"

    form: Literal["v1.21", "v1.22", "v1.36"] = "v1.22"

    def wanted(self, request: Request, machines: Machines) -> bool:
        return bool((self.added(machines)[self.rows(machines)] > 0).any())

    def derived(self) -> dict[str, Any]:
        return super().derived() | {"form": ("v1.21", "v1.22", "v1.36").index(self.form)}
