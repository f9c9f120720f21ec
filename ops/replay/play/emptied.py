"""How many machines could be emptied at a moment: a measure of how packed a fleet is.

Machines are tried in ascending order of requests. Each instance, the largest first, goes to the fullest other machine
on which it fits, and which is not hot with it. The count ends at the first machine with an
instance that fits nowhere. So it is a lower bound, the same rule for every policy.
"""

from __future__ import annotations

import numpy as np

from ops.replay.play.fleet import HOT, Fleet
from schemas.resources import CPU
from scorer.snapshot.arrays import Bools, Floats


def emptied_share(fleet: Fleet, minute: int) -> float:
    """Return the share of the machines that could be emptied in this minute."""
    workload = fleet.workload
    capacity = np.nan_to_num(workload.capacity, nan=np.inf)
    free = capacity.copy()
    on: dict[int, list[int]] = {}
    for instance in fleet.running(minute).tolist():
        row = int(fleet.machine_of[instance])
        free[:, row] -= workload.asked[:, instance]
        on.setdefault(row, []).append(instance)
    at = int(np.flatnonzero(fleet.measured == CPU)[0])
    load = fleet.load[at][:, minute].copy()
    taken = workload.capacity[CPU] - free[CPU]
    open_rows = np.ones(len(workload.machines), np.bool_)
    emptied = 0
    for row in np.argsort(taken, kind="stable").tolist():
        open_rows[row] = False
        if not _empty(
            fleet, sorted(on.get(row, []), key=lambda k: -workload.asked[CPU, k]), minute, free, load, open_rows
        ):
            break
        emptied += 1
    return emptied / len(workload.machines)


def _empty(fleet: Fleet, instances: list[int], minute: int, free: Floats, load: Floats, open_rows: Bools) -> bool:
    """Move all of these instances to open machines, changing ``free`` [R, M] and ``load`` [M]; False if one is left."""
    workload = fleet.workload
    cores = workload.capacity[CPU]
    for instance in instances:
        asked = workload.asked[:, instance]
        usage = workload.usage.of(instance, CPU, minute, minute + 1)[0]
        fits = open_rows & (free >= asked[:, None]).all(axis=0) & (load + usage <= HOT * cores)
        if not fits.any():
            return False
        row = int(np.argmin(np.where(fits, free[CPU], np.inf)))
        free[:, row] -= asked
        load[row] += usage
    return True
