"""Plot: the source and target machines of a plan, before and after it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from schemas.values.numbers import counted

NAMES_LEVEL_MAX = 6
"""Up to so many names are written horizontally."""
DRAWN_MAX = 60
"""At most so many machines are drawn, the first of the plan."""

_BEFORE, _AFTER, _FAINT = "#f28e2b", "#4878a8", "#666666"


def save_plot(answer: Mapping[str, Any], path: str | Path) -> None:
    """Draw two bars for each machine that gives or takes, before and after, one panel a resource, into a PNG file.

    Bars are mean utilization as a share of allocatable. The title says what the fleet gains.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found, resources = answer["concerned"][:DRAWN_MAX], list(answer["std"])
    figure = Figure(figsize=(max(7.0, 0.4 * len(found) + 3.0), 2.0 + 1.9 * len(resources)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(resources), 1, sharex=True, squeeze=False)[:, 0]
    at = np.arange(len(found))
    for resource, panel in zip(resources, panels, strict=True):
        pairs = 100 * np.array([one["utilization"][resource] for one in found]).reshape(-1, 2)
        panel.bar(at - 0.2, pairs[:, 0], 0.38, color=_BEFORE, label="before")
        panel.bar(at + 0.2, pairs[:, 1], 0.38, color=_AFTER, label="after")
        panel.axhline(100.0, color="#b22222", linewidth=0.8)
        panel.set_ylabel(f"{resource}, % of allocatable", fontsize=8)
        panel.set_ylim(0.0, max(105.0, float(pairs.max(initial=0.0)) * 1.05))
        panel.grid(axis="y", color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        if not found:
            panel.text(0.5, 0.5, "nothing moves", ha="center", va="center", transform=panel.transAxes, color=_FAINT)
    names = [f"{one['machine']}  -{one['gives']} +{one['takes']}" for one in found]
    panels[-1].set_xticks(at, names, rotation=90 if len(found) > NAMES_LEVEL_MAX else 0, fontsize=8)
    if found:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    before, after = answer["totals"]["overload"]
    drawn = f" · the first {len(found)} drawn" if len(found) < len(answer["concerned"]) else ""
    figure.suptitle(
        f"{counted(len(answer['moves']), 'move')} · {answer['profile']} · "
        f"expected overload {before:.3f} -> {after:.3f}{drawn}",
        fontsize=9,
    )
    figure.savefig(path, format="png", dpi=120)
