"""Plot: the candidates of a ranking as a picture: how full each is, how much it varies, where the newcomer would go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from schemas.resources import RESOURCES
from scorer.rank import Ranking

CANDIDATES_MAX = 40
_BAR, _CREDIT, _NEWCOMER, _CHOSEN = "#4878a8", "#9ecae1", "#f28e2b", "#2c7a3f"


def save_plot(ranking: Ranking, path: str | Path, candidates_max: int = CANDIDATES_MAX) -> None:
    """Draw the best candidates, best first, one panel a resource, into a PNG file.

    A bar is the measured mean as a share of allocatable, on it the credits, on top what the newcomer is expected to
    use; the whisker is one standard deviation each way. The chosen machine's name is bold and its bars are framed.
    Refused machines are not drawn; the title says how many there are and why.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = ranking.best(candidates_max)
    figure = Figure(figsize=(max(6.0, 0.32 * len(rows) + 3.0), 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(RESOURCES), 1, sharex=True)
    for resource, panel in enumerate(panels):
        _draw(ranking, rows, resource, panel)
    panels[-1].set_xticks(range(len(rows)), [ranking.machines.name(int(row)) for row in rows], rotation=90, fontsize=7)
    if len(rows):
        panels[-1].get_xticklabels()[0].set(fontweight="bold", color=_CHOSEN)
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(f"{ranking.chosen or 'no machine'} · {ranking.summary}", fontsize=9, wrap=True)
    figure.savefig(path, format="png", dpi=120)


def _draw(ranking: Ranking, rows: Any, resource: int, panel: Any) -> None:
    """Draw one resource of the candidates."""
    machines = ranking.machines.take(rows)
    inverse = np.nan_to_num(machines.inverse_allocatable[resource])
    measured = np.nan_to_num(machines.measured_mean[resource]) * inverse
    credit = machines.credit[resource] * inverse
    newcomer = machines.expected[resource] * inverse
    deviation = np.nan_to_num(machines.std[resource]) * inverse
    at = np.arange(len(rows))
    panel.bar(at, measured, color=_BAR, label="measured mean")
    panel.bar(at, credit, bottom=measured, color=_CREDIT, label="credit of placed instances")
    panel.bar(at, newcomer, bottom=measured + credit, color=_NEWCOMER, label="newcomer")
    if len(rows):
        panel.errorbar(
            at, measured, yerr=deviation, fmt="none", ecolor="#333333", elinewidth=0.8, capsize=2, label="std"
        )
        top = float(measured[0] + credit[0] + newcomer[0])
        panel.bar([0], [top], fill=False, edgecolor=_CHOSEN, linewidth=2.0)
    panel.axhline(1.0, color="#b22222", linewidth=0.8)
    panel.set_ylim(0.0, max(1.05, float((measured + credit + newcomer + deviation).max(initial=0.0)) * 1.05))
    panel.set_ylabel(f"{RESOURCES[resource]}\nshare of allocatable", fontsize=8)
