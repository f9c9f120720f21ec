"""The demo's last part: a machine is overloaded, and a plan of ``windward rebalance`` reduces its load."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ops.demo.tables import split
from ops.stack.servers.process import LocalError
from ops.top.fleet_view import FleetView
from schemas.process.tables import Column, Screen, table
from schemas.resources import CPU
from scorer.client import Client
from scorer.commands.planning.rebalance_view import show
from scorer.commands.shared.show import ratio

HEAVY = 6
"""Number of the instances that overload a machine."""
HOT = 1.02
"""The part of its cores that they use together with its other load."""
PLAN_DEADLINE_S = 30.0
MACHINES = [Column("machine"), Column("cpu before"), Column("after"), Column("instances before"), Column("after")]
NAMES_ALONE = "kubernetes"
"""A profile that compares requests alone, by which a deployer overloads a machine that is busy already."""


class HotMachine(NamedTuple):
    """Overloads one machine, makes a plan of moves, carries it out."""

    client: Client
    redis_url: str
    prefix: str
    environ: Mapping[str, str]

    def run(self, view: FleetView, screen: Screen, say: Callable[[str], None]) -> None:
        """Show it; raises LocalError when the plan does not reduce the load."""
        machine, cores = hottest_to_be(view)
        for number in range(HEAVY):
            placed = self.client.place(
                id=f"heavy-{number}", machine=machine, cpu=cores, memory="1G", profile=NAMES_ALONE
            )
            if not placed.machine:
                raise LocalError(f"{machine} takes no instance: {placed.summary}")
            self.client.confirm(f"heavy-{number}")
        say(f"{HEAVY} instances of {cores:g} cores were sent to {machine}, which was busy already.")
        plan = self._plan()
        say(show(plan, screen))
        if not plan["moves"]:
            raise LocalError("the plan moves nothing")
        names = sorted({machine} | {one["target"] for one in plan["moves"]}, key=lambda name: name != machine)
        before = self._loads(names)
        for one in plan["moves"]:
            self.client.update(one["id"], machine=one["target"])
        after = self._loads(names)
        rows = [
            [name, ratio(before[name][0]), ratio(after[name][0]), str(before[name][1]), str(after[name][1])]
            for name in names
        ]
        say("")
        say(f"carried out, each by: windward update ID --machine NAME ({len(plan['moves'])} of them)")
        say(table(MACHINES, rows, screen))
        if not after[machine][0] < before[machine][0]:
            raise LocalError(f"the load of {machine} is not lower than before: {after[machine][0]:.0%}")

    def _plan(self) -> dict[str, Any]:
        """Return the plan of ``windward rebalance --json``; without a rest time, since the instances are new."""
        asking = ["--redis-url", self.redis_url, "--prefix", self.prefix]
        command = [sys.executable, "-P", "-m", "ops.cli.main", "rebalance", "--json", "--rest-s", "0", *asking]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PLAN_DEADLINE_S, check=False,
            env={**os.environ, **self.environ},
        )  # fmt: skip
        if done.returncode:
            raise LocalError(f"windward rebalance: {done.stderr.strip()}")
        plan: dict[str, Any] = json.loads(done.stdout)
        return plan

    def _loads(self, names: list[str]) -> dict[str, tuple[float, int]]:
        """Return the CPU load of machines as a decision sees it, as a share, and how many instances they have."""
        rows = self.client.machines(names=names).machines
        return {row.machine: (row.resources["cpu"]["utilization"] or 0.0, row.instances) for row in rows}


def hottest_to_be(view: FleetView) -> tuple[str, float]:
    """Return a busy machine, and the cores of each of `HEAVY` instances that would overload it."""
    simulated, _ = split(view)
    used, capacity = view.mean[-1, CPU, simulated], view.capacity[CPU, simulated]
    share = used / capacity
    middle = (capacity >= 16) & (share > 0.3) & (share < 0.75)
    chosen = int(np.argmax(np.where(middle, share, -1.0)))
    cores = round(float(HOT * capacity[chosen] - used[chosen]) / HEAVY, 1)
    return view.names[simulated[chosen]], cores
