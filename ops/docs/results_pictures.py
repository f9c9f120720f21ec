"""The pictures of what the lab found, drawn of the files in docs/results. Shell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ops.docs.concept_pictures import BLUE, GREEN, ORANGE
from ops.docs.drawing import GREY, svg
from ops.replay.report.comparison import compare
from ops.replay.report.results_file import read_results

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "over-commit.json"
BASELINE, MOVED = "windward", " + 0.5 %/h"
WORLDS_MIN = 3
"""Of fewer no interval is drawn: it would say nothing but that they are few."""


def pictures() -> dict[str, str]:
    """Return each picture as SVG, by its name."""
    return {"over-commit": svg(over_commit, 7.0, 3.6)}


def over_commit(axes: Any) -> None:
    """What is hosted against the hot minutes of machines with prod, both as ratios to no over-commit."""
    rows = {row.policy: row for row in compare(read_results(RESULTS), BASELINE)}
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
    axes.set_xlabel("hosted: cores asked for by what runs, ratio to no over-commit")
    axes.set_ylabel("hot minutes with prod, ratio")
    axes.legend(frameon=False, fontsize=7, loc="upper left")
