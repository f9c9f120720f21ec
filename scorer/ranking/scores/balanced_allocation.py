"""Balanced allocation: kube-scheduler's NodeResourcesBalancedAllocation, in the three forms it has had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from scorer.ranking.formulas.allocation import Allocation, counted, share_of
from scorer.ranking.plugin import Bools, Floats, Machines, Request


def legacy_balance(fractions: Floats) -> Floats:
    """Return [n] in 0-100 from [resources, n], as up to v1.21.

    Two: ``1 - |a - b|``; more: 1 - their population variance; 0 as soon as one is 1 or more.
    """
    spread = np.abs(fractions[0] - fractions[1]) if len(fractions) == 2 else fractions.var(axis=0)
    balance: Floats = np.where((fractions >= 1.0).any(axis=0), 0.0, (1.0 - spread) * 100.0)
    return balance


def balance(fractions: Floats, counts: Bools) -> Floats:
    """Return [n] in 0-100: ``(1 - std) * 100`` over the fractions that count, as since v1.22.

    Fractions are clipped at 1. The std of two is computed as half their distance, exactly, since truncation would show
    a difference in the last bit. That of one, or none, is 0.
    """
    clipped = np.where(counts, np.minimum(fractions, 1.0), 0.0)
    n = np.maximum(counts.sum(axis=0), 1)
    mean = clipped.sum(axis=0) / n
    std = np.sqrt((np.where(counts, clipped - mean, 0.0) ** 2).sum(axis=0) / n)
    largest = np.where(counts, clipped, -np.inf).max(axis=0, initial=-np.inf)
    least = np.where(counts, clipped, np.inf).min(axis=0, initial=np.inf)
    found: Floats = (1.0 - np.where(n == 2, (largest - least) / 2.0, std)) * 100.0
    return found


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
    scope = "machine"

    form: Literal["v1.21", "v1.22", "v1.36"] = "v1.22"

    def wanted(self, request: Request, machines: Machines) -> bool:
        """Skip a request that requests none of the resources."""
        return any(self.added(machines)[row] > 0 for row in self.rows(machines))

    def __call__(self, request: Request, machines: Machines) -> Floats:
        rows = self.rows(machines)
        after = share_of(*self.after(machines, rows))
        counts: Bools = machines.allocatable[rows] > 0
        if self.form == "v1.21":
            score = legacy_balance(np.where(counts, after, 1.0)) if len(rows) > 1 else np.full(len(machines), 100.0)
        else:
            score = self._cut(balance(after, counts))
            if self.form == "v1.36":
                there = counted(self.before(machines)[rows], machines.allocatable[rows], rows, self.rounding)
                change = (50.0 + score - self._cut(balance(share_of(*there), counts))) / 2.0
                score = 50.0 + (np.trunc(change) if self.rounding else change)
        score = np.where((counts & np.isnan(after)).any(axis=0), 0.0, self._cut(score))
        found: Floats = np.clip(np.nan_to_num(score), 0.0, 100.0)
        return found

    def _cut(self, score: Floats) -> Floats:
        return np.trunc(score) if self.rounding else score
