"""Figures of one simulation, for the fill and for the time after it (steady).

With u(m, t) the CPU demand of machine m in minute t over its capacity:

| figure         | what it is                                                                                   |
|----------------|----------------------------------------------------------------------------------------------|
| std            | standard deviation of min(u, 1) over the machines, mean over time                            |
| p99            | 99th percentile of min(u, 1) over machines and minutes                                       |
| hot80, hot90   | share of the machine-minutes with u > 0.8, u > 0.9                                           |
| hot100         | the same with u > 1: processes had to wait                                                   |
| lost           | demand above capacity, as a share of all demand                                              |
| on_hot         | share of the instance-minutes that were spent on machines with u > 0.9                       |
| refused_first  | share of the instances that were refused at their first try; with evictions, at any try      |
| refusals       | refusals for each instance that asked, repeated ones too                                     |
| emptied        | share of the machines that could be emptied (`ops.replay.play.emptied`), mean over some moments   |
| mean           | mean of u; on machines of one size the same for all policies that place all instances at once |
| moves          | instances moved, as a share of the live ones an hour                                         |
| copying        | share of the machine-time in which a machine's network is full of the memory of moves        |
| decision_ms    | mean time of a decision over the whole run; it depends on the computer                       |

Worlds with batch have more figures, by class (`ops.replay.report.class_measures`), worlds with memory of that
(`ops.replay.report.memory_measures`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ops.replay.play.emptied import emptied_share
from ops.replay.play.fleet import HOT
from ops.replay.play.simulation import Outcome
from ops.replay.report.class_measures import class_figures
from ops.replay.report.memory_measures import memory_figures
from schemas.resources import CPU
from scorer.snapshot.arrays import Floats

EMPTIED_EVERY_MINUTES = 360

Figures = Mapping[str, float]


def utilization(outcome: Outcome) -> Floats:
    """Return [M, T]: CPU demand over capacity."""
    fleet = outcome.fleet
    at = int(np.flatnonzero(fleet.measured == CPU)[0])
    found: Floats = fleet.load[at] / fleet.capacity[at][:, None]
    return found


def measure(outcome: Outcome) -> dict[str, Figures]:
    """Return the figures of the ``fill`` (where there is one) and of the ``steady`` rest."""
    workload = outcome.workload
    stages = {"fill": (0, workload.fill_minutes), "steady": (workload.fill_minutes, workload.minutes)}
    return {name: _figures(outcome, first, last) for name, (first, last) in stages.items() if last > first}


def _figures(outcome: Outcome, first: int, last: int) -> Figures:
    demand, workload = utilization(outcome)[:, first:last], outcome.workload
    delivered = np.minimum(demand, 1.0)
    cores = outcome.fleet.workload.capacity[CPU][:, None]
    count = outcome.fleet.count[:, first:last]
    hot = demand > HOT
    asking = (workload.start >= first) & (workload.start < last) & (outcome.tries > 0)
    asked = max(int(asking.sum()), 1)
    moves = [move for minute, move in outcome.moves if first <= minute < last]
    moments = range(first + min(EMPTIED_EVERY_MINUTES, last - first) // 2, last, EMPTIED_EVERY_MINUTES)
    return {
        "std": float(delivered.std(axis=0).mean()),
        "p99": float(np.quantile(delivered, 0.99)),
        "hot80": float((demand > 0.8).mean()),
        "hot90": float(hot.mean()),
        "hot100": float((demand > 1.0).mean()),
        "lost": float((np.maximum(demand - 1.0, 0.0) * cores).sum() / max((demand * cores).sum(), 1e-12)),
        "on_hot": float(count[hot].sum() / max(count.sum(), 1)),
        "refused_first": float((outcome.refused[asking] > 0).sum() / asked),
        "refusals": float(outcome.refused[asking].sum() / asked),
        "emptied": float(np.mean([emptied_share(outcome.fleet, minute) for minute in moments])),
        "mean": float(demand.mean()),
        "moves": len(moves) / max(float(count.sum()) / 60, 1.0),
        "copying": 2 * sum(move.copy_minutes for move in moves) / demand.size,
        "decision_ms": float(outcome.decision_s.mean() * 1e3) if outcome.decision_s.size else 0.0,
        **memory_figures(outcome, first, last),
        **class_figures(outcome, first, last),
    }
