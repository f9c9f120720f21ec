"""The page of plots: one world under every policy, four views.

- **utilization**: for each policy the fleet over time: median, the middle half, the 1st to 99th percentile;
- **heatmap**: machine by time, each policy's machines sorted by their mean; the darker, the fuller;
- **hot minutes**: how many minutes above 90 % each machine had, machines sorted, one line a policy;
- **refusals**: how many instances that first asked until then were refused at that try, one line a policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from ops.replay.play.simulation import Outcome
from ops.replay.play.true_fleet import HOT
from ops.replay.report.calibration import CASES_MIN, PART, POINTS, Reliability
from ops.replay.report.measures import utilization
from scorer.snapshot.arrays import Floats

SUFFIXES = (".png", ".svg", ".pdf")
BIN_MINUTES, BAND_MINUTES = 30, 10
COLOURS = ("#1b5e9e", "#c1432e", "#2c7a3f", "#8e5aa8", "#c98a1b", "#5f6b73", "#9aa3a9", "#1aa0a8")
_HOUR_MINUTES = 60.0


def save_page(outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw the outcomes of one world into a file with one of `SUFFIXES`; raises OSError."""
    count = len(outcomes)
    figure = _figure(15.0, 3.0 + 1.9 * count)
    grid = figure.add_gridspec(count + 1, 2, height_ratios=[*([1.9] * count), 3.0])
    world = outcomes[0].workload
    for row, outcome in enumerate(outcomes):
        demand = utilization(outcome)
        bands = figure.add_subplot(grid[row, 0])
        _bands(bands, demand, outcome)
        if not row:
            bands.legend(fontsize=6, loc="upper right", ncols=3)
        image = _heatmap(figure.add_subplot(grid[row, 1]), demand)
    figure.colorbar(image, ax=figure.axes[1::2], label="demand over capacity", shrink=0.5, pad=0.01)
    _hot_minutes(figure.add_subplot(grid[count, 0]), outcomes)
    _refusals(figure.add_subplot(grid[count, 1]), outcomes)
    figure.suptitle(
        f"{world.name}, seed {world.seed}: {len(world.machines)} machines, {len(world.instances):,} instances, "
        f"{world.minutes / 1440:g} days; the fill ends at the dotted line",
        fontsize=11,
    )
    _write(figure, path)


def save_reliability(found: Reliability, title: str, path: Path) -> None:
    """Draw stated chance against observed share, with the number of cases, like `save_page`."""
    figure = _figure(6.0, 6.5)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[4, 1])
    line = np.linspace(0, 1, 101)
    wide = np.maximum(POINTS, PART * line)
    upper.fill_between(line, line - wide, line + wide, color="#e5e5e5", label="2 points or a fifth")
    upper.plot([0, 1], [0, 1], color="#888888", linewidth=0.8)
    stated, observed = [one.stated for one in found.bins], [one.observed for one in found.bins]
    upper.plot(stated, observed, color=COLOURS[0], marker="o", linewidth=1.2, label="by bin of the stated chance")
    few = [one for one in found.bins if one.cases < CASES_MIN]
    upper.plot([one.stated for one in few], [one.observed for one in few], "o", color="white",
               markeredgecolor=COLOURS[0], label=f"fewer than {CASES_MIN} cases")  # fmt: skip
    upper.set_ylim(-0.02, 1.02)
    upper.set_ylabel("observed share of minutes above the limit")
    upper.legend(fontsize=8)
    upper.set_title(f"{title}\nBrier skill {found.skill:.2f}, base rate {found.base:.1%}", fontsize=10)
    lower.bar(stated, [one.cases for one in found.bins], width=0.02, color=COLOURS[0])
    lower.set_yscale("log")
    lower.set_ylabel("cases")
    lower.set_xlabel("stated chance")
    _write(figure, path)


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _write(figure: Any, path: Path) -> None:
    """Draw in memory, which takes a second, and then write: an interrupted run leaves no half of a file."""
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix[1:], dpi=110)
    path.write_bytes(drawn.getvalue())


def binned(values: Floats, minutes: int = BIN_MINUTES) -> Floats:
    """Return [..., bins]: means over ``minutes``, or over all of fewer; an incomplete bin at the end is left out."""
    minutes = min(minutes, values.shape[-1])
    whole = values.shape[-1] // minutes * minutes
    found: Floats = values[..., :whole].reshape(*values.shape[:-1], -1, minutes).mean(axis=-1)
    return found


def _bands(panel: Any, demand: Floats, outcome: Outcome) -> None:
    """Draw the fleet's percentiles over time."""
    bin_minutes = min(BAND_MINUTES, demand.shape[1])
    series = binned(np.percentile(demand, [1, 25, 50, 75, 99], axis=0), bin_minutes)
    hours = (np.arange(series.shape[1]) + 0.5) * bin_minutes / _HOUR_MINUTES
    panel.fill_between(hours, series[0], series[4], color="#c6dbef", linewidth=0, label="1st to 99th percentile")
    panel.fill_between(hours, series[1], series[3], color="#6baed6", linewidth=0, label="middle half")
    panel.plot(hours, series[2], color="#08306b", linewidth=0.9, label="median")
    for level, style in ((HOT, "--"), (1.0, "-")):
        panel.axhline(level, color="#b22222", linewidth=0.7, linestyle=style)
    panel.axvline(outcome.workload.fill_minutes / _HOUR_MINUTES, color="#333333", linewidth=0.8, linestyle=":")
    panel.set_xlim(0, _hours(outcome))
    panel.set_ylim(0, 1.3)
    panel.set_title(outcome.policy, fontsize=9, loc="left", fontweight="bold")
    panel.tick_params(labelsize=7)
    panel.set_ylabel("utilization", fontsize=7)
    panel.set_xlabel("hours", fontsize=7)


def _hours(outcome: Outcome) -> float:
    return outcome.workload.minutes / _HOUR_MINUTES


def _heatmap(panel: Any, demand: Floats) -> Any:
    order = np.argsort(demand.mean(axis=1))
    cells = binned(demand)[order]
    image = panel.imshow(
        cells, aspect="auto", cmap="magma_r", vmin=0.0, vmax=1.1, interpolation="nearest",
        extent=(0, demand.shape[1] / _HOUR_MINUTES, 0, len(cells)),
    )  # fmt: skip
    panel.tick_params(labelsize=7)
    panel.set_ylabel("machines", fontsize=7)
    panel.set_xlabel("hours", fontsize=7)
    return image


def _hot_minutes(panel: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in zip(outcomes, cycle(COLOURS), strict=False):
        hot = (utilization(outcome)[:, outcome.workload.fill_minutes :] > HOT).sum(axis=1)
        panel.plot(np.arange(1, len(hot) + 1), np.sort(hot)[::-1], color=colour, linewidth=1.2, label=outcome.policy)
    panel.set_yscale("symlog", linthresh=10)
    _finish(panel, "machines, the hottest first", "minutes above 90 % after the fill", 10.0)


def _refusals(panel: Any, outcomes: Sequence[Outcome]) -> None:
    for outcome, colour in zip(outcomes, cycle(COLOURS), strict=False):
        at, end = outcome.workload.start[outcome.refused > 0] / _HOUR_MINUTES, _hours(outcome)
        panel.step(np.r_[0.0, at, end], np.r_[0 : len(at) + 1, len(at)], where="post", color=colour, linewidth=1.2,
                   label=f"{outcome.policy}: {int(outcome.refused.sum())} refusals in all")  # fmt: skip
    panel.set_xlim(0, _hours(outcomes[0]))
    _finish(panel, "hours", "instances refused at their first try", 1.0)


def _finish(panel: Any, x: str, y: str, top_min: float) -> None:
    panel.set_ylim(0, max(top_min, panel.get_ylim()[1]))
    panel.set_xlabel(x, fontsize=8)
    panel.set_ylabel(y, fontsize=8)
    panel.legend(fontsize=7)
    panel.grid(color="#dddddd", linewidth=0.5)
