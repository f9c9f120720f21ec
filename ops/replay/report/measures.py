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
| emptied        | share of the machines that could be emptied (`emptied_share`), mean over some moments   |
| mean           | mean of u; on machines of one size the same for all policies that place all instances at once |
| moves          | instances moved, as a share of the live ones an hour                                         |
| exchanges      | exchanges of roles, as a share of the live instances an hour                                 |
| copying        | share of the machine-time in which a machine's network is full of the memory of moves        |
| decision_ms    | mean time of a decision over the whole run; it depends on the computer                       |

Worlds whose machines and instances have memory: with v(m, t) the memory demand over the capacity,

| figure         | what it is                                                                                   |
|----------------|----------------------------------------------------------------------------------------------|
| mem_std        | standard deviation of min(v, 1) over the machines, mean over time                            |
| mem90          | share of the machine-minutes with v > 0.9                                                    |
| mem100         | the same with v > 1: the kernel would have killed a process                                  |

Worlds with a network have nic_std, nic90 and nic100 likewise: above 100 % of the line, packets wait or are dropped.

Worlds with instances of class batch or free (here: batch): with p(m, t) the u of prod alone, and H the core-minutes of
the fleet,

| figure         | what it is                                                                                   |
|----------------|----------------------------------------------------------------------------------------------|
| hosted         | core-minutes that instances asked for while they ran, over H                                 |
| hosted_prod    | the same of prod and mid                                                                     |
| hosted_batch   | the same of batch                                                                            |
| kept_batch     | the same, less what evictions of batch lost: all that an evicted instance had run            |
| running_batch  | batch instances that run, a machine, in the mean                                             |
| used_batch     | core-minutes that batch demands, over H                                                      |
| hot90_prod     | share of the machine-minutes with u > 0.9 on machines that hold an instance of prod          |
| on_hot_prod    | share of prod's instance-minutes that were spent on machines with u > 0.9                    |
| hot90_alone    | share of the machine-minutes with p > 0.9: prod is hot by itself, whatever batch does        |
| lost_prod      | prod's demand that is not served, as a share of it, if a hot machine gives all the same part |
| lost_yielding  | the same, if batch gets what prod leaves (a cgroup weight that is next to nothing)           |
| waits_batch    | minutes from the first request of batch to its last placement, or to the end; the mean       |
| evictions      | evictions of batch for each hour that a batch instance runs                                  |
| refused_prod   | share of prod's instances that were refused at their first try                               |
"""

from collections.abc import Mapping

import numpy as np

from ops.replay.simulator.simulation import Outcome
from ops.replay.simulator.true_fleet import HOT, Fleet
from schemas.resources import CPU, MEMORY, NIC
from scorer.snapshot.arrays import Floats, Integers

EMPTIED_EVERY_MINUTES = 360
FURTHER = {"mem": MEMORY, "nic": NIC}
"""Resources beside cores, by the word in their figures' names."""


def utilization(outcome: Outcome) -> Floats:
    """Return [M, T]: CPU demand over capacity."""
    fleet = outcome.fleet
    found: Floats = fleet.load[fleet.cpu] / fleet.capacity[fleet.cpu][:, None]
    return found


def measure(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Return the figures of the ``fill`` (where there is one) and of the ``steady`` rest."""
    workload = outcome.workload
    stages = {"fill": (0, workload.fill_minutes), "steady": (workload.fill_minutes, workload.minutes)}
    return {name: _figures(outcome, first, last) for name, (first, last) in stages.items() if last > first}


def _figures(outcome: Outcome, first: int, last: int) -> dict[str, float]:
    demand, workload = utilization(outcome)[:, first:last], outcome.workload
    delivered = np.minimum(demand, 1.0)
    cores = outcome.fleet.workload.capacity[CPU][:, None]
    count = outcome.fleet.count[:, first:last]
    hot = demand > HOT
    asking = (workload.start >= first) & (workload.start < last) & (outcome.tries > 0)
    asked = max(int(asking.sum()), 1)
    moves = [move for minute, move in outcome.moves if first <= minute < last]
    exchanges = sum(first <= minute < last for minute in outcome.exchanges)
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
        "decision_ms": float(np.mean(outcome.decision_s) * 1e3) if outcome.decision_s else 0.0,
        **({"exchanges": exchanges / max(float(count.sum()) / 60, 1.0)} if workload.roles else {}),
        **further_figures(outcome, first, last),
        **class_figures(outcome, first, last),
    }


def further_figures(outcome: Outcome, first: int, last: int) -> Mapping[str, float]:
    """Return the figures of memory and network in the minutes [first, last), where these are measured."""
    fleet, found = outcome.fleet, {}
    for name, resource in FURTHER.items():
        for at in np.flatnonzero(fleet.measured == resource):
            demand = fleet.load[at, :, first:last] / fleet.capacity[at][:, None]
            found[f"{name}_std"] = float(np.minimum(demand, 1.0).std(axis=0).mean())
            found[f"{name}90"] = float((demand > 0.9).mean())
            found[f"{name}100"] = float((demand > 1.0).mean())
    return found


def class_figures(outcome: Outcome, first: int, last: int) -> Mapping[str, float]:
    """Return the figures by class in the minutes [first, last); none where all instances are prod."""
    workload, fleet = outcome.workload, outcome.fleet
    if not workload.lower.any():
        return {}
    at = fleet.cpu
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
    asking = (workload.start >= first) & (workload.start < last) & (outcome.tries > 0)
    waits = np.where(outcome.placed >= 0, outcome.placed, workload.minutes) - workload.start
    prods_asking, batch = asking & ~workload.lower, asking & workload.lower
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
        "waits_batch": float(waits[batch].sum() / max(int(batch.sum()), 1)),
        "refused_prod": float((outcome.refused[prods_asking] > 0).sum() / max(int(prods_asking.sum()), 1)),
    }


def stays(outcome: Outcome, first: int, last: int) -> Integers:
    """Return [K]: the minutes of this stretch in which each instance ran, including runs that an eviction ended."""
    found: Integers = np.where(outcome.placed >= 0, overlap(outcome.placed, outcome.fleet.end, first, last), 0)
    for one in outcome.evicted:
        found[one.instance] += overlap(one.first, one.last, first, last)
    return found


def overlap(begin: Integers | int, end: Integers | int, first: int, last: int) -> Integers:
    """Return the length of the overlap of two stretches, in minutes."""
    found: Integers = np.maximum(np.minimum(end, last) - np.maximum(begin, first), 0)
    return found


def emptied_share(fleet: Fleet, minute: int) -> float:
    """Return the share of the machines that could be emptied in this minute: a measure of how packed a fleet is.

    Machines are tried in ascending order of requests. Each instance, the largest first, goes to the fullest other
    machine on which it fits, and which is not hot with it. The count ends at the first machine with an instance that
    fits nowhere. So it is a lower bound, the same rule for every policy.
    """
    workload = fleet.workload
    free: Floats = np.nan_to_num(workload.capacity, nan=np.inf)
    """[R, M] The capacity less the requests."""
    load, cores = fleet.load[fleet.cpu][:, minute].copy(), workload.capacity[CPU]
    on: dict[int, list[int]] = {}
    for instance in fleet.running(minute).tolist():
        row = int(fleet.machine_of[instance])
        free[:, row] -= workload.asked[:, instance]
        on.setdefault(row, []).append(instance)
    closed = np.zeros(len(workload.machines), np.bool_)
    for emptied, row in enumerate(np.argsort(cores - free[CPU], kind="stable").tolist()):
        closed[row] = True
        for instance in sorted(on.get(row, []), key=lambda k: -workload.asked[CPU, k]):
            asked = workload.asked[:, instance]
            usage = workload.usage.of(instance, CPU, minute, minute + 1)[0]
            fits = ~closed & (free >= asked[:, None]).all(axis=0) & (load + usage <= HOT * cores)
            if not fits.any():
                return emptied / len(closed)
            target = int(np.argmin(np.where(fits, free[CPU], np.inf)))
            free[:, target] -= asked
            load[target] += usage
    return 1.0
