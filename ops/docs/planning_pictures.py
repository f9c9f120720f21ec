"""The pictures of the page on taking machines out of service, computed by the product. Shell."""

from __future__ import annotations

from typing import Any

from ops.docs.concept_pictures import BLUE, GREEN, ORANGE
from ops.docs.drawing import GREY, svg
from ops.docs.fleet import machine
from scorer.commands.fleet_file import read_fleet
from scorer.ranking.catalogue import load_profiles
from scorer.rebalance.drain import drain

MACHINES = {"a": 0.55, "b": 0.35, "c": 0.25, "d": 0.45, "e": 0.15}
"""Each one's load before, as a share of its 32 cores."""
LEAVING = {"web-1": 6.0, "web-2": 4.0, "db-1": 3.0, "cache-1": 2.0}
"""The cores of each instance of the machine that is drained."""


def pictures() -> dict[str, str]:
    """Return each picture as SVG, by its name."""
    return {"drain": svg(drained, 7.0, 2.8)}


def drained(axes: Any) -> None:
    """Cores in use before a drain of one machine, and the instances that come to each of the others."""
    machines = [machine(name, cpu=load) for name, load in MACHINES.items()]
    instances = [{"id": name, "machine": "a", "cpu": cpu, "memory": "4G"} for name, cpu in LEAVING.items()]
    fleet = read_fleet({"machines": machines, "instances": instances})
    found = drain(["a"], fleet.snapshot, fleet.ledger, load_profiles().choose(), fleet.now_s)
    names = list(MACHINES)
    rest = [32 * MACHINES[name] - (sum(LEAVING.values()) if name == "a" else 0) for name in names]
    axes.bar(names, rest, color=BLUE, alpha=0.6, label="stays")
    below = dict(zip(names, rest, strict=True))
    for number, name in enumerate(LEAVING):
        axes.bar("a", LEAVING[name], bottom=below["a"], color="none", edgecolor=GREY, linestyle="--",
                 label="left" if not number else None)  # fmt: skip
        axes.text("a", below["a"] + LEAVING[name] / 2, name, ha="center", va="center", fontsize=7)
        below["a"] += LEAVING[name]
    for number, one in enumerate(found.moves):
        cores, target = LEAVING[one.instance.id], str(one.target)
        axes.bar(
            target,
            cores,
            bottom=below[target],
            color=GREEN,
            alpha=0.6,
            edgecolor="white",
            label="came" if not number else None,
        )
        axes.text(target, below[target] + cores / 2, f"{number + 1}. {one.instance.id}", ha="center", va="center",
                  fontsize=7)  # fmt: skip
        below[target] += cores
    axes.axhline(0.9 * 32, color=ORANGE, linestyle=":", linewidth=1)
    axes.text(len(names) - 0.55, 0.9 * 32 + 0.4, "90 %", ha="right", fontsize=7)
    axes.set_ylim(0, 36)
    axes.set_ylabel("cores in use")
    axes.legend(frameon=False, fontsize=7, loc="upper center", ncols=3)
