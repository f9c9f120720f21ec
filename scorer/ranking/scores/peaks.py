"""Peaks: Trimaran's Peaks, the placement that costs the least additional power."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schemas.resources import CPU
from scorer.ranking.plugin import Detail, Floats, Machines, Plugin, Request

SCALE = 1e15
"""The peer computes with whole numbers, and so multiplies by this first."""


def power_increase(before: Floats, after: Floats, k1: Floats, k2: Floats) -> Floats:
    """Return the additional power from utilizations in percent: ``k1 * (exp(k2 * after) - exp(k2 * before))``."""
    found: Floats = k1 * (np.exp(k2 * after) - np.exp(k2 * before))
    return found


def normalise_increase(raw: Floats, low: float, high: float, rounding: bool = False) -> Floats:
    """Return 100 for the least increase and 0 for the largest; all 0 stays 0, and all equal is 100.

    >>> normalise_increase(np.array([100.0, 100.0]), 100.0, 100.0).tolist()
    [100.0, 100.0]
    """
    if low == 0 and high == 0:
        return raw
    if low == high:
        return 100.0 - (raw - low)
    scaled = 100.0 * (raw - low) / (high - low)
    return 100.0 - (np.trunc(scaled) if rounding else scaled)


@dataclass(frozen=True)
class Peaks(Plugin):
    """Prefer machines whose power rises least.

    The increase is ``K1 * (exp(K2 * after) - exp(K2 * before))`` of CPU utilization in percent. The power model of a
    machine is an operator's fact (``power``). The increases are spread over the feasible machines so that the least
    scores 100. A machine without model or data, or filled beyond 100 %, scores 0. In the peer an unknown machine counts
    as no increase at all, and so wins. ``peer = true`` does that, rounds as the peer does, and adds the request in
    place of the expected usage.

    Reference: Trimaran, pkg/trimaran/peaks/peaks.go.
    """

    name = "peaks"
    scope = "fleet"

    peer: bool = False

    def __call__(self, request: Request, machines: Machines) -> Floats:
        raw = self.raw(machines)
        among = raw[machines.feasible & (np.isfinite(raw))]
        if not among.size:
            return np.zeros(len(machines))
        low, high = float(among.min()), float(among.max())
        score = normalise_increase(raw, low, high, self.peer)
        return np.clip(np.nan_to_num(score), 0.0, 100.0)

    def raw(self, machines: Machines) -> Floats:
        """Return [n]: the increase (times 1e15 and truncated for the peer); where unknown NaN (0 for the peer)."""
        _, k1, k2 = machines.rule("power")
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            before = 100.0 * machines.mean[CPU] / machines.capacity[CPU]
            added = machines.amounts[CPU] if self.peer else machines.expected[CPU]
            after = 100.0 * (machines.mean[CPU] + added) / machines.capacity[CPU]
            if not self.peer:
                return np.where((k1 != 0) & (after <= 100.0), power_increase(before, after, k1, k2), np.nan)
            after = np.where(machines.capacity[CPU] == 0, 0.0, after)
            increase = np.trunc(power_increase(before, after, k1, k2) * SCALE)
            return np.nan_to_num(np.where(after > 100.0, 0.0, increase))

    def detail(self, request: Request, machines: Machines, position: int) -> Detail:
        """Show the increase."""
        increase = float(self.raw(machines)[position])
        return {"power_increase": increase if np.isfinite(increase) else None}
