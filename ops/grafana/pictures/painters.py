"""How each kind of panel is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ops.grafana.pictures.legends import add_legend
from ops.grafana.pictures.panel_data import PanelData, on_grid
from ops.grafana.pictures.style import (
    BOTTOM_ROWS,
    COLORS,
    COLUMN_IN,
    DAY_S,
    GREY,
    PALETTE,
    TITLE_ROWS,
    color_at,
    shortened,
    shown,
)


def _lines(axes: Axes, panel: Mapping[str, Any], data: PanelData) -> None:
    unit, steps = _unit(panel), _steps(panel)
    lines = data.lines(panel)
    options = _overrides(panel)
    custom = panel["fieldConfig"]["defaults"].get("custom", {})
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    grid = data.grid
    base = np.zeros(len(grid))
    filled: dict[str, Any] = {}
    highest = 0.0
    for number, (name, points) in enumerate(lines):
        values = on_grid(points, grid)
        own = options.get(name, {})
        color = COLORS.get(own.get("color", ""), PALETTE[number % len(PALETTE)])
        days = grid / DAY_S
        if stacked:
            top = base + np.nan_to_num(values)
            axes.fill_between(days, base, top, color=color, alpha=0.6, linewidth=0.5, label=name)
            base, highest = top, max(highest, float(np.nanmax(top)))
            continue
        filled[name] = (days, values)
        if np.isfinite(values).any():
            highest = max(highest, float(np.nanmax(values)))
        if own.get("width") == 0:
            continue
        style = (0, (6, 4)) if own.get("dashed") else "-"
        axes.plot(days, values, color=color, linewidth=1.4, linestyle=style, label=name)
        if not own.get("dashed") and len(lines) <= 3 and not any("below" in each for each in options.values()):
            axes.fill_between(days, 0, values, color=color, alpha=0.08, linewidth=0)
    for name, own in options.items():
        if "below" in own and name in filled and own["below"] in filled:
            days, upper = filled[name]
            axes.fill_between(
                days, filled[own["below"]][1], upper, color=PALETTE[0], alpha=0.22, linewidth=0, label="± std"
            )
    soft = custom.get("axisSoftMax")
    top = max(highest * 1.08, soft if soft is not None and highest > 0.3 * soft else 0.0) or 1.0
    for step in steps[1:]:
        if step["value"] < top:
            axes.axhline(step["value"], color=COLORS.get(step["color"], GREY), linewidth=0.9, linestyle=(0, (4, 4)))
    axes.set_ylim(0, top)
    _time_axis(axes, data)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))
    axes.set_yticks(_ticks(top, unit))
    axes.grid(axis="y", color="#eceef0", linewidth=0.8)
    _mark(axes, data)
    if axes.get_legend_handles_labels()[0]:
        add_legend(axes, panel["gridPos"], _inner_rows(panel), lines)
    else:
        _nothing(axes)


def _ticks(top: float, unit: str) -> list[float]:
    """Return the values that stand beside an axis: round ones in the unit that ``top`` is shown in."""
    if unit in ("bytes", "Bps"):
        scale = 1024.0 ** int(math.log(max(top, 1), 1024))
    else:
        scale = 60.0 if unit == "s" and top >= 60 else 1.0
    ticks = MaxNLocator(5).tick_values(0, top / scale)
    return [float(tick * scale) for tick in ticks if tick * scale <= top]


def _mark(axes: Axes, data: PanelData) -> None:
    """Draw the dashboard's annotations."""
    for times, color in data.marks:
        for time_s in times:
            axes.axvline(time_s / DAY_S, color=COLORS[color], linewidth=0.8, linestyle=(0, (1, 3)), zorder=0)


def _time_axis(axes: Axes, data: PanelData) -> None:
    locator: Any = AutoDateLocator
    formatter: Any = ConciseDateFormatter
    axes.set_xlim(data.start_s / DAY_S, data.end_s / DAY_S)
    axes.xaxis_date()
    axes.xaxis.set_major_locator(locator())
    axes.xaxis.set_major_formatter(formatter(axes.xaxis.get_major_locator(), show_offset=False))


def _figures(axes: Axes, panel: Mapping[str, Any], data: PanelData) -> None:
    axes.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    lines = data.lines(panel)
    if not lines:
        _nothing(axes)
    words: dict[str, Any] = {}
    for mapping in panel["fieldConfig"]["defaults"].get("mappings", ()):
        words |= mapping["options"]
    options = _overrides(panel)
    texts = []
    for name, points in lines:
        value = points[-1][1]
        word = words.get(f"{value:.0f}")
        text = word["text"] if word else shown(value, options.get(name, {}).get("unit", _unit(panel)))
        texts.append((name, text, COLORS.get(word["color"], GREY) if word else color_at(value, _steps(panel))))
    room = panel["gridPos"]["w"] * COLUMN_IN * 72 / max(1, len(texts))
    size = min(21.0, room / (0.68 * (max((len(text) for _, text, _ in texts), default=1) + 2)))
    small = min(9.0, room / (0.6 * (max((len(name) for name, _, _ in texts), default=1) + 1)))
    for number, (name, text, color) in enumerate(texts):
        middle = (number + 0.5) / len(texts)
        axes.text(middle, 0.56, text, ha="center", va="center", fontsize=size, weight="bold", color=color)
        if len(texts) > 1:
            axes.text(middle, 0.08, name, ha="center", va="center", fontsize=small, color=GREY)


def _heat(axes: Axes, panel: Mapping[str, Any], data: PanelData) -> None:
    grid = data.grid
    buckets = sorted((float(name), on_grid(points, grid)) for name, points in data.lines(panel))
    edges = [0.0, *(edge for edge, _ in buckets[:-1]), 1.05]
    counts = np.diff(np.array([np.zeros(len(grid)), *(values for _, values in buckets)]), axis=0)
    counts = np.where(counts > 0, counts, np.nan)
    days = np.array([*grid, grid[-1] + data.step_s]) / DAY_S
    drawn = axes.pcolormesh(days, edges, counts, cmap="Oranges", norm=mpl.colors.PowerNorm(0.5, vmin=0))
    whole = MaxNLocator(5, integer=True)
    axes.figure.colorbar(drawn, ax=axes, pad=0.006, fraction=0.015, ticks=whole).ax.tick_params(
        labelsize=8, colors=GREY
    )
    _time_axis(axes, data)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, "percentunit")))


def _bars(axes: Axes, panel: Mapping[str, Any], data: PanelData) -> None:
    lines = sorted(data.lines(panel), key=lambda line: line[1][-1][1])
    axes.set(xticks=[], xlim=(0, 1.25 * max((points[-1][1] for _, points in lines), default=1.0)))
    for number, (_, points) in enumerate(lines):
        value = points[-1][1]
        axes.barh(number, value, height=0.62, color=color_at(value, _steps(panel)), alpha=0.85)
        axes.text(value, number, f"  {shown(value, _unit(panel))}", va="center", fontsize=9)
    names = [shortened(name) for name, _ in lines]
    axes.set_yticks(range(len(lines)), names)
    box, room = axes.get_position(), max(0.05, 0.005 + 0.0044 * max(map(len, names), default=0))
    axes.set_position((box.x0 + room, box.y0, box.width - room, box.height))


def _table(axes: Axes, panel: Mapping[str, Any], data: PanelData) -> None:
    axes.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    columns, rows = data.rows(panel)
    height = 1 / (len(rows) + 1)
    starts = [0.005 + (position + (position > 0)) / (len(columns) + 1) for position in range(len(columns))]
    for start, name in zip(starts, columns, strict=True):
        axes.text(start, 1 - height / 2, name, fontsize=9.5, weight="bold", va="center")
    options = _overrides(panel)
    for number, row in enumerate(rows, start=1):
        for start, name, value in zip(starts, columns, row, strict=True):
            unit = options.get(name, {}).get("unit", "short")
            number_given = isinstance(value, float)
            text = shown(value, unit) if number_given else shortened(str(value))
            color = color_at(value, _steps(panel)) if number_given and unit == "percentunit" else "#222222"
            axes.text(start, 1 - (number + 0.5) * height, text, fontsize=9.5, va="center", color=color)
        axes.axhline(1 - number * height, color="#eceef0", linewidth=0.8)


def _inner_rows(panel: Mapping[str, Any]) -> float:
    return float(panel["gridPos"]["h"] - 0.24 - BOTTOM_ROWS[panel["type"]] - TITLE_ROWS)


def _unit(panel: Mapping[str, Any]) -> str:
    return str(panel["fieldConfig"]["defaults"].get("unit", "short"))


def _steps(panel: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(panel["fieldConfig"]["defaults"]["thresholds"]["steps"])


def _overrides(panel: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what single series have of their own, by legend."""
    found: dict[str, dict[str, Any]] = {}
    for override in panel["fieldConfig"].get("overrides", ()):
        own = found.setdefault(str(override["matcher"]["options"]), {})
        for each in override["properties"]:
            kind, value = each["id"], each["value"]
            if kind == "unit":
                own["unit"] = value
            elif kind == "color":
                own["color"] = value["fixedColor"]
            elif kind == "custom.lineWidth":
                own["width"] = value
            elif kind == "custom.fillBelowTo":
                own["below"] = value
            elif kind == "custom.lineStyle":
                own["dashed"] = True
    return found


def _nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", va="center", color=GREY)


PAINTERS: Mapping[str, Callable[[Axes, Mapping[str, Any], PanelData], None]] = {
    "timeseries": _lines, "stat": _figures, "heatmap": _heat, "bargauge": _bars, "table": _table,
}  # fmt: skip
"""By the type of the panel."""
