"""The pictures of priority classes, computed by the product, and those drawn of docs/results. Shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ops.docs.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE
from ops.replay.report.comparison import compare
from ops.replay.report.results_file import read_results
from schemas.resources import CPU, PRIORITY_CLASSES
from scorer.commands.shared.fleet_file import read_fleet
from scorer.planning.drain.evicting import Advice, evicting
from scorer.ranking.class_sums import class_sums
from scorer.ranking.fleet_state import FleetState
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.profiles.profile_file import parse_profile
from tests.pictures.drawing import SOLID, Pictures, block, named

CORES, ASKED, PLACED = 32.0, 24.0, 9.0
"""Cores of the machine, asked for by prod, and allocated to batch."""

HELD = {"index": (4.0, "batch"), "report": (5.0, "batch"), "trial": (2.0, "free"), "sweep": (3.0, "free")}
"""The instances of the lower classes on the machine of the second picture: cores, class."""


def classes(axes: Any) -> None:
    """A day of one machine: usage of prod and the system, what is reclaimable for batch, and when batch exceeds it."""
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
    axes.set_xticks(range(0, 25, 6))
    named(axes, "hour of the day", "cores", CORES, legend="upper right", columns=2)


def evict(axes: Any) -> None:
    """Draw a machine at low and at high usage of prod, the instances that leave, and those that stay."""
    quiet, busy = 4.0, 9.0
    leaving = [one.instance.id for one in _advice(busy).evicted]
    steps = [("prod is quiet", quiet, []), ("prod comes back", busy, []), ("after the evictions", busy, leaving)]
    for place, (_, prod, gone) in enumerate(steps):
        label = "used by prod and the system" if place == 0 else None
        axes.bar(place, prod + 1, color=BLUE, alpha=0.5, width=0.7, label=label)
        top = prod + 1
        for name, (cores, of) in HELD.items():
            if name not in gone:
                colour = ORANGE if place == 1 and name in leaving else GREEN
                block(axes, place, top, cores, f"{name}: {of}, {cores:g} cores", colour, width=0.7)
                top += cores
    most = quiet + 1 + _room(quiet)
    axes.axhline(most, color=GREY, linestyle=":", linewidth=1)
    axes.text(2.45, most + 0.3, "capacity less the margin", ha="right", va="bottom", fontsize=7)
    axes.set_xticks(range(len(steps)), [name for name, *_ in steps])
    axes.set_xlim(-0.5, 2.5)
    for colour, label in ((GREEN, "promised to batch and free"), (ORANGE, "should leave")):
        axes.bar(0, 0, color=colour, alpha=SOLID, label=label)
    named(axes, "", "cores", 30, legend="upper center", columns=3)


def _advice(prod: float) -> Advice:
    """Return the evictions while prod uses ``prod`` cores."""
    others = [{"id": name, "machine": "m", "cpu": cores, "memory": "4G", "priority_class": of, "usage": {"cpu": 0.5}}
              for name, (cores, of) in HELD.items()]  # fmt: skip
    fleet = _fleet(prod, others)
    advice = evicting(fleet.inputs(_profile()))
    assert advice is not None
    return advice


def _fleet(prod: float, others: Sequence[Mapping[str, Any]] = ()) -> FleetState:
    there = {
        "name": "m",
        "capacity": {"cpu": CORES, "memory": "128G"},
        "usage": {"cpu": prod + 1.0 + 0.5 * len(others), "memory": "20G"},
        "system": {"cpu": 1.0},
    }
    own = {"id": "p", "machine": "m", "cpu": ASKED, "memory": "40G", "usage": {"cpu": prod, "memory": "20G"}}
    return read_fleet({"machines": [there], "instances": [own, *others]})


def _profile() -> Profile:
    return parse_profile('[[filters]]\nuse = "fits"\nclasses = {}', "classes")


def _room(prod: float) -> float:
    """Return what batch may have while prod uses so many cores."""
    fleet = _fleet(prod)
    sums = class_sums(fleet.inputs(_profile()))
    assert sums is not None
    return float(sums.most[PRIORITY_CLASSES.index("batch"), CPU, 0])


RESULTS = Path(__file__).parents[2] / "docs" / "results"
BASELINE, MOVED = "windward", " + 0.5 %/h"
WORLDS_MIN = 3
"""Of fewer no interval is drawn: it would say nothing but that they are few."""


def over_commit(axes: Any) -> None:
    """What is hosted against the hot minutes of machines with prod, both as ratios to no over-commit."""
    rows = {row.policy: row for row in compare(read_results(RESULTS / "over-commit.json"), BASELINE)}
    shares = sorted(name for name in rows if name.startswith("classes-") and name.replace(".", "")[8:].isdigit())
    groups = (
        (shares, BLUE, "o", "batch in what prod does not use, by share"),
        ([name for name in rows if name.endswith(MOVED)], GREEN, "s", "the same with moves, 0.5 % an hour"),
        ([name for name in rows if ", evict" in name], GREY, "^", "evicted as advised, every 5 minutes"),
    )
    hottest = [rows[name].ratios["hot90_prod"].ratio for names, *_ in groups for name in names]
    axes.axhline(1.05, color=ORANGE, linestyle=":", linewidth=1)
    axes.text(0.99, 1.05, "1.05", color=ORANGE, fontsize=7, ha="right", va="bottom",
              transform=axes.get_yaxis_transform())  # fmt: skip
    for names, colour, marker, label in groups:
        for name in names:
            hosted, hot = rows[name].ratios["hosted"].ratio, rows[name].ratios["hot90_prod"]
            if hot.low and hot.high and hot.worlds >= WORLDS_MIN:
                axes.plot([hosted] * 2, [hot.low, hot.high], color=colour, linewidth=0.7)
            axes.plot(hosted, hot.ratio, color=colour, marker=marker, markersize=4)
            shown = name.removeprefix("classes-").removesuffix(MOVED).partition(",")[0]
            axes.annotate(shown, (hosted, hot.ratio), (4, 3), textcoords="offset points", fontsize=7)
        axes.plot([], [], color=colour, marker=marker, markersize=4, linestyle="none", label=label)
    points = np.array([(rows[name].ratios["hosted"].ratio, rows[name].ratios["hot90_prod"].ratio) for name in shares])
    axes.plot(*points.T, color=BLUE, alpha=0.4, linewidth=1)
    axes.plot(1.0, 1.0, color=GREY, marker="D", markersize=4, linestyle="none", label="no over-commit")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylim(min(hottest) / 4, max(hottest) * 4)
    about = "hosted: cores asked for by what runs, ratio to no over-commit"
    named(axes, about, "hot minutes with prod, ratio", legend="upper left")


COMPARED = (
    ("windward", "windward", BLUE, "o"),
    ("with moves, 0.5 %/h", "windward" + MOVED, BLUE, "s"),
    ("trimaran", "trimaran", ORANGE, "^"),
    ("koordinator", "koordinator", PURPLE, "v"),
    ("kubernetes", "kubernetes", GREY, "D"),
    ("oracle", "oracle", GREEN, "P"),
)
"""What the picture shows: a label, the policy, a colour and a mark."""
OLD_DEFAULT = "variance-and-risk"
SHOWN = (
    ("common peaks", "harder-peaks", ""),
    ("all", "steady", ""),
    ("bitbrains", "steady", "bitbrains"),
    ("gcd2011", "steady", "gcd"),
    ("planetlab", "steady", "planetlab"),
    ("alibaba", "alibaba", "alibaba"),
)
"""Columns of the picture: their names, the file of results, the family or all."""
LEAST, MOST = 0.01, 16.0
"""Ratios that are drawn; ends of intervals beyond them are cut off."""


def which_profile(axes: Any) -> None:
    """The hot minutes of the default, the peers, moves and the oracle, by family; ratios to the old default."""
    for place, (_, file, family) in enumerate(SHOWN):
        found = compare(read_results(RESULTS / f"{file}.json"), OLD_DEFAULT, family=family)
        rows = {row.policy: row.ratios["hot90"] for row in found}
        for at, (_, name, colour, marker) in enumerate(COMPARED):
            if name not in rows:
                continue
            x, hot = place + 0.13 * (at - (len(COMPARED) - 1) / 2), rows[name]
            if hot.low and hot.high:
                axes.plot([x, x], np.clip([hot.low, hot.high], LEAST, MOST), color=colour, linewidth=0.7)
            axes.plot(x, max(hot.ratio, LEAST), color=colour, marker=marker, markersize=4)
    for label, _, colour, marker in COMPARED:
        axes.plot([], [], color=colour, marker=marker, markersize=4, linestyle="none", label=label)
    axes.axhline(1.0, color=GREY, linestyle=":", linewidth=1)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_yticks([0.01, 0.03, 0.1, 0.3, 1, 3, 10], minor=False)
    axes.set_yticks([], minor=True)
    axes.set_ylim(LEAST, 3 * MOST)
    axes.set_xticks(range(len(SHOWN)), [name for name, *_ in SHOWN])
    named(axes, "", "hot minutes, ratio to the old default", legend="upper left", columns=3)


PICTURES: Pictures = {
    "classes": (classes, 7.0, 3.0),
    "evict": (evict, 7.0, 3.0),
    "over-commit": (over_commit, 7.0, 3.6),
    "which-profile": (which_profile, 7.0, 3.6),
}
"""Each picture with its width and height."""
