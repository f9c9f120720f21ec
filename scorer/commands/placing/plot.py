"""Plot: the candidates of an answer as a picture: load, its deviation, and the load with the instance."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schemas.resources import RESOURCES
from scorer.client import RankResult
from scorer.commands.shared.in_words import chance, chances

NAMES_LEVEL_MAX = 6
"""Up to so many names are written horizontally."""

_BAR, _CREDIT, _REQUESTED, _CHOSEN, _FAINT = "#4878a8", "#9ecae1", "#f28e2b", "#2c7a3f", "#666666"


def save_plot(answer: RankResult, path: str | Path) -> None:
    """Draw the candidates of an answer, best first, one panel a resource, into a PNG file.

    A bar has the measured mean less the debits, the credits, and the expected usage of the instance, as shares of
    allocatable. The whisker is one standard deviation each way. Above it is the chance of a load above the limit with
    the instance, when a score gives one. Below it are name and score; the chosen machine's name is bold and its bars
    are framed. A resource that a machine does not report is marked unknown. Refused machines are not drawn; the title
    says how many there are and why.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = answer.candidates
    figure = Figure(figsize=(max(7.0, 0.32 * len(found) + 3.0), 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(RESOURCES), 1, sharex=True)
    for resource, panel in zip(RESOURCES, panels, strict=True):
        told = [chances(each) for each in found]
        limit = told[0][0] if told else ""
        likely = [of.get(resource) for _, of in told]
        _draw([each.resources[resource] for each in found], answer.expected[resource], likely, limit, panel)
        panel.set_ylabel(f"{resource}, % of allocatable", fontsize=8)
    names = [f"{each.machine}  {each.score:.1f}" for each in found]
    panels[-1].set_xticks(range(len(found)), names, rotation=90 if len(found) > NAMES_LEVEL_MAX else 0, fontsize=8)
    if found:
        panels[-1].get_xticklabels()[0].set(fontweight="bold", color=_CHOSEN)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    figure.suptitle(_title(answer), fontsize=9, wrap=True)
    figure.savefig(path, format="png", dpi=120)


def _title(answer: RankResult) -> str:
    drawn = len(answer.candidates)
    title = f"{answer.machine or 'no machine fits'} · {answer.profile} · {answer.summary}"
    return title if drawn == answer.feasible else f"{title} · the best {drawn} drawn"


def _draw(
    terms: Sequence[Mapping[str, Any]], expected: float, likely: Sequence[float | None], limit: str, panel: Any
) -> None:
    """Draw one resource of the candidates."""
    mean, std, credit, whole = (
        np.array([each[name] for each in terms], np.float64) for name in ("mean", "std", "credit", "allocatable")
    )
    percent = 100.0 / np.where(whole > 0, whole, np.nan)
    unknown = np.isnan(mean * percent)
    debit = np.array([each.get("debit") or 0.0 for each in terms], np.float64)
    measured, deviation, credit, added = (
        np.where(unknown, 0.0, np.nan_to_num(part * percent)) for part in (mean - debit, std, credit, expected)
    )
    at = np.arange(len(terms))
    panel.bar(at, measured, color=_BAR, label="measured mean, less debits")
    panel.bar(at, credit, bottom=measured, color=_CREDIT, label="credit of placed instances")
    panel.bar(at, added, bottom=measured + credit, color=_REQUESTED, label="requested instance")
    if terms:
        panel.errorbar(
            at, measured, yerr=deviation, fmt="none", ecolor="#333333", elinewidth=0.8, capsize=2, label="std"
        )
        top = float(measured[0] + credit[0] + added[0])
        panel.bar([0], [top], fill=False, edgecolor=_CHOSEN, linewidth=2.0, label="chosen")
        for place in np.flatnonzero(unknown):
            panel.text(place, 3.0, "unknown", ha="center", va="bottom", rotation=90, fontsize=8, color=_FAINT)
    else:
        panel.text(0.5, 0.5, "no candidates", ha="center", va="center", transform=panel.transAxes, color=_FAINT)
    for here, value in enumerate(likely):
        if value is not None and not unknown[here]:
            where = max(measured[here] + deviation[here], measured[here] + credit[here] + added[here])
            panel.text(here, where + 1.5, chance(value), ha="center", va="bottom", fontsize=7, color=_FAINT,
                       rotation=90 if len(terms) > NAMES_LEVEL_MAX else 0)  # fmt: skip
    if limit and any(value is not None for value in likely):
        panel.set_title(f"above the bars: chance of more than {limit}", fontsize=7, loc="right", color=_FAINT)
    panel.axhline(100.0, color="#b22222", linewidth=0.8)
    panel.set_xlim(-0.6, max(len(terms), 1) - 0.4)
    panel.set_ylim(0.0, max(105.0, float((measured + credit + added + deviation).max(initial=0.0)) * 1.05))
    panel.grid(axis="y", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)
