"""The tables of the demo: machines with their load, and how evenly placements are spread."""

from typing import Any

import numpy as np

from ops.top.fleet_view import FleetView, Spread
from schemas.process.tables import Column, Screen, table
from schemas.resources import CPU, MEMORY, NIC
from schemas.values.numbers import finite
from scorer.client import Candidate
from scorer.commands.shared.show import number, ratio, size

SIMULATED = "sim-"
MACHINES = [
    Column("machine"), Column("cpu, 5 min"), Column("mean", 2), Column("std", 3), Column("cores", 2),
    Column("memory", 1), Column("of", 4), Column("nic", 5), Column("1 h covered", 1),
]  # fmt: skip
RANKED = [
    Column("machine"), Column("score"), Column("risk", 1),
    *(Column(title, 2 + at) for at, title in enumerate(("cpu mean", "std", "request", "of"))),
    *(Column(title, 2 + at) for at, title in enumerate(("memory mean", "std", "request", "of"))),
]  # fmt: skip
SPREAD = [
    Column("placed by"), Column("machines", 1), Column("most on one"), Column("fullest CPU"),
    Column("CPU std, fleet", 2),
]  # fmt: skip


def machines_table(view: FleetView, screen: Screen) -> str:
    """Return this machine and the simulated ones of the highest, middle and lowest CPU utilization."""
    rows = []
    simulated, own = split(view)
    if view.windows_s and len(view.names):
        order = simulated[np.argsort(view.utilization[0, CPU, simulated])]
        shown = order[[-1, -2, len(order) // 2, 1, 0]] if len(order) >= 5 else order
        for row in (*own, *shown):
            name = view.names[row] + (" (real)" if row in own else "")
            rows.append([name, *_machine_cells(view, int(row))])
    return table(MACHINES, rows, screen)


def _machine_cells(view: FleetView, row: int) -> list[str]:
    mean, std, capacity = view.mean[0, :, row], view.std[0, :, row], view.capacity[:, row]
    share = view.utilization[0, :, row]
    return [
        ratio(finite(share[CPU])),
        number(finite(mean[CPU])),
        number(finite(std[CPU])),
        number(finite(capacity[CPU]), 0),
        size(finite(mean[MEMORY])),
        size(finite(capacity[MEMORY])),
        ratio(finite(share[NIC])),
        ratio(finite(view.coverage[-1, CPU, row])),
    ]


def ranked_cells(one: Candidate) -> list[str]:
    cpu, memory = one.resources["cpu"], one.resources["memory"]
    return [
        *(one.machine, number(one.score), number(one.risk, 3)),
        *(number(cpu[name]) for name in ("mean", "std", "request")),
        number(cpu["allocatable"], 0),
        *(size(memory[name]) for name in ("mean", "std", "request", "allocatable")),
    ]


def spread_cells(found: Spread) -> list[str]:
    return [str(found.machines), str(found.most), ratio(found.highest), number(found.std, 3)]


def split(view: FleetView) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the rows of the simulated machines and of the real one."""
    simulated = np.array([name.startswith(SIMULATED) for name in view.names], dtype=np.bool_)
    return np.flatnonzero(simulated), np.flatnonzero(~simulated)
