"""The tables of the demo: machines with their load, and how evenly placements are spread."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from ops.fleet_view import FleetView, Spread
from schemas.numbers import finite
from schemas.resources import CPU, MEMORY, NIC
from scorer.commands.show import number, ratio, size

NAME_WIDTH = 24
"""A longer machine id would squeeze the numbers beside it."""

SIMULATED = "sim-"


def machines_table(view: FleetView) -> Table:
    """Return this machine and the simulated ones of the highest, middle and lowest CPU utilization."""
    table = new_table("machine", "cpu, 5 min", "mean", "std", "cores", "memory", "of", "nic", "1 h covered")
    simulated, own = split(view)
    if view.windows_s and len(view.names):
        order = simulated[np.argsort(view.utilization[0, CPU, simulated])]
        shown = order[[-1, -2, len(order) // 2, 1, 0]] if len(order) >= 5 else order
        for row in (*own, *shown):
            name = view.names[row] if len(view.names[row]) <= NAME_WIDTH else view.names[row][: NAME_WIDTH - 1] + "…"
            name += " (real)" if row in own else ""
            table.add_row(name, *machine_cells(view, int(row)), style="bold" if row in own else "")
    return table


def machine_cells(view: FleetView, row: int) -> list[str]:
    """Return one machine's cells: the shortest window's means, and how much of the longest is covered."""
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


def spread_cells(found: Spread) -> list[str]:
    """Return one spread's cells."""
    return [str(found.machines), str(found.most), ratio(found.highest), ratio3(found.std)]


def split(view: FleetView) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the rows of the simulated machines and of the real one."""
    simulated = np.array([name.startswith(SIMULATED) for name in view.names], dtype=np.bool_)
    return np.flatnonzero(simulated), np.flatnonzero(~simulated)


def new_table(first: str, *titles: str) -> Table:
    """Return an empty table: the first column to the left, the others to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def ratio3(value: float) -> str:
    """Return a small ratio."""
    return f"{value:.3f}"
