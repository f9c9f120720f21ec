"""The picture of the page on priority classes, computed by the product. Shell."""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.docs.concept_pictures import BLUE, GREEN, ORANGE
from ops.docs.drawing import GREY, svg
from schemas.resources import CPU, PRIORITY_CLASSES
from scorer.commands.fleet_file import read_fleet
from scorer.ranking.class_sums import class_sums
from scorer.ranking.profile_file import parse_profile

CORES, ASKED, PLACED = 32.0, 24.0, 9.0
"""Of the machine; what prod asks for; what batch was promised."""


def pictures() -> dict[str, str]:
    """Return each picture as SVG, by its name."""
    return {"classes": svg(classes, 7.0, 3.0)}


def classes(axes: Any) -> None:
    """A day of one machine: what prod and the system use, what is then there for batch, and when batch is too much."""
    hours = np.arange(0.0, 24.5, 0.5)
    prod = 8.0 + 6.0 * np.sin((hours - 9.0) / 24.0 * 2 * np.pi)
    room = np.array([_room(float(used)) for used in prod])
    axes.fill_between(hours, 0, prod + 1, color=BLUE, alpha=0.5, label="used by prod and the system")
    axes.fill_between(hours, prod + 1, prod + 1 + room, color=GREEN, alpha=0.3, label="reclaimable for batch")
    axes.fill_between(hours, prod + 1 + room, CORES, color=GREY, alpha=0.15, label="margin")
    axes.plot(hours, prod + 1 + PLACED, color=GREEN, linewidth=1, label=f"{PLACED:g} cores promised to batch")
    over = room < PLACED
    axes.fill_between(hours, prod + 1 + room, prod + 1 + PLACED, where=over, color=ORANGE, alpha=0.7,
                      label="batch that no longer fits")  # fmt: skip
    axes.axhline(ASKED, color=BLUE, linestyle=":", linewidth=1)
    axes.text(0.2, ASKED + 0.4, "what prod asked for", fontsize=7)
    axes.set_xlim(0, 24)
    axes.set_ylim(0, CORES)
    axes.set_xticks(range(0, 25, 6))
    axes.set_xlabel("hour of the day")
    axes.set_ylabel("cores")
    axes.legend(frameon=False, fontsize=7, loc="upper right", ncols=2)


def _room(prod: float) -> float:
    """Return what batch may have while prod uses so many cores."""
    there = {
        "name": "m",
        "capacity": {"cpu": CORES, "memory": "128G"},
        "usage": {"cpu": prod + 1.0, "memory": "20G"},
        "system": {"cpu": 1.0},
    }
    instances = [{"id": "p", "machine": "m", "cpu": ASKED, "memory": "40G", "usage": {"cpu": prod, "memory": "20G"}}]
    fleet = read_fleet({"machines": [there], "instances": instances})
    profile = parse_profile('[[filters]]\nuse = "fits"\nclasses = {}', "classes")
    sums = class_sums(fleet.snapshot, fleet.ledger, profile, fleet.now_s)
    assert sums is not None
    return float(sums.most[PRIORITY_CLASSES.index("batch"), CPU, 0])
