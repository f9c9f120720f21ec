"""The demo's burst: many placements, one query each, compared with simpler ways to choose."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ops.demo.tables import ratio3, spread_cells
from ops.stack.servers.process import LocalError
from ops.top.fleet_view import FleetView, at_random, least_used, spread
from schemas.resources import CPU
from scorer.client import Client


def burst(client: Client, view: FleetView, request: Mapping[str, Any], count: int) -> tuple[list[list[str]], str]:
    """Place ``count`` instances; return the rows of a table (`ops.demo.tables.SPREAD`), and a line about it.

    Raises LocalError unless all of them found a machine.
    """
    cores = float(request["cpu"])
    row_of = {name: row for row, name in enumerate(view.names)}
    started = time.monotonic()
    answers = [client.place(**request, id=f"demo-{n}", ttl_s=120) for n in range(count)]
    took_s = time.monotonic() - started
    placed = [one.machine for answer in answers for one in answer.placed]
    if len(placed) < count:
        raise LocalError(f"only {len(placed)} of {count} were placed: {answers[-1].summary}")
    used, capacity = view.mean[-1, CPU], view.capacity[CPU]
    fits = np.flatnonzero(used + cores <= capacity)
    rows = [["before", "", "", "", ratio3(spread(used, capacity, cores, []).std)]]
    for name, chosen in (
        ("Windward", [row_of[machine] for machine in placed]),
        ("chance", [int(fits[row]) for row in at_random(len(fits), count)]),
        ("lowest measured CPU", least_used(used, capacity, count)),
    ):
        rows.append([name, *spread_cells(spread(used, capacity, cores, chosen))])
    took = f"{took_s * 1000:.0f} ms, {count / took_s:.0f}/s through one client"
    return rows, f"{len(placed)} of {count} reserved in {took}; {answers[-1].summary}"
