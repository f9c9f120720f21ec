"""Figures by class, of worlds with instances of class batch or free (here: batch).

With u(m, t) the CPU demand of machine m in minute t over its capacity, p(m, t) that of prod alone, and H the
core-minutes of the fleet:

| figure          | what it is                                                                                       |
|-----------------|--------------------------------------------------------------------------------------------------|
| hosted          | core-minutes that instances asked for while they ran, over H                                     |
| hosted_prod     | the same of prod and mid                                                                         |
| hosted_batch    | the same of batch                                                                                |
| kept_batch      | the same, less what evictions of batch lost: all that an evicted instance had run                |
| running_batch   | batch instances that run, a machine, in the mean                                                 |
| used_batch      | core-minutes that batch demands, over H                                                          |
| hot90_prod      | share of the machine-minutes with u > 0.9 on machines that hold an instance of prod              |
| on_hot_prod     | share of prod's instance-minutes that were spent on machines with u > 0.9                        |
| hot90_alone     | share of the machine-minutes with p > 0.9: prod is hot by itself, whatever batch does            |
| lost_prod       | prod's demand that is not served, as a share of it, if a hot machine gives all the same part     |
| lost_yielding   | the same, if batch gets what prod leaves (a cgroup weight that is next to nothing)               |
| evictions       | evictions of batch for each hour that a batch instance runs                                      |
| refused_prod    | share of prod's instances that were refused at their first try                                   |
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ops.replay.play.fleet import HOT
from ops.replay.play.simulation import Outcome
from schemas.resources import CPU
from scorer.snapshot.arrays import Integers


def class_figures(outcome: Outcome, first: int, last: int) -> Mapping[str, float]:
    """Return the figures of the minutes from ``first`` until before ``last``; none where all instances are prod."""
    workload, fleet = outcome.workload, outcome.fleet
    if not workload.lower.any():
        return {}
    at = int(np.flatnonzero(fleet.measured == CPU)[0])
    cores = fleet.capacity[at][:, None]
    load, lower = fleet.load[at, :, first:last], fleet.lower[at, :, first:last]
    prod, hot = load - lower, load > HOT * cores
    prods = fleet.count[:, first:last] - fleet.lower_count[:, first:last]
    whole = float(cores.sum()) * (last - first)
    asked, minutes = workload.asked[CPU], stays(outcome, first, last)
    left = [one for one in outcome.evicted if workload.lower[one.instance]]
    gone = sum(asked[one.instance] * overlap(one.first, one.last, first, last) for one in left)
    ran = float((asked * minutes)[workload.lower].sum())
    kept = float((asked * minutes)[~workload.lower].sum())
    part = np.minimum(cores / np.maximum(load, 1e-12), 1.0)
    evicted = sum(first <= one.last < last for one in left)
    demand = max(float(prod.sum()), 1e-12)
    asking = ~workload.lower & (workload.start >= first) & (workload.start < last) & (outcome.tries > 0)
    return {
        "hosted": (ran + kept) / whole,
        "hosted_prod": kept / whole,
        "hosted_batch": ran / whole,
        "kept_batch": max(ran - gone, 0.0) / whole,
        "running_batch": float(fleet.lower_count[:, first:last].mean()),
        "used_batch": float(lower.sum()) / whole,
        "hot90_prod": float((hot & (prods > 0)).mean()),
        "on_hot_prod": float(prods[hot].sum() / max(prods.sum(), 1)),
        "hot90_alone": float((prod > HOT * cores).mean()),
        "lost_prod": float((prod * (1.0 - part)).sum()) / demand,
        "lost_yielding": float(np.maximum(prod - cores, 0.0).sum()) / demand,
        "evictions": evicted / max(float(minutes[workload.lower].sum()) / 60, 1.0),
        "refused_prod": float((outcome.refused[asking] > 0).sum() / max(int(asking.sum()), 1)),
    }


def stays(outcome: Outcome, first: int, last: int) -> Integers:
    """Return [K]: the minutes of this stretch in which each instance ran, what evictions ended too."""
    found = np.where(outcome.placed >= 0, overlap(outcome.placed, outcome.fleet.end, first, last), 0)
    for one in outcome.evicted:
        found[one.instance] += overlap(one.first, one.last, first, last)
    minutes: Integers = found
    return minutes


def overlap(begin: Integers | int, end: Integers | int, first: int, last: int) -> Integers:
    """Return how many minutes two stretches have in common."""
    found: Integers = np.maximum(np.minimum(end, last) - np.maximum(begin, first), 0)
    return found
