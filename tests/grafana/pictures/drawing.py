"""Draws a dashboard: its panels in their places, each by its kind, from the answers of Prometheus at one time."""

import itertools
import math
import textwrap

import matplotlib as mpl
import matplotlib.dates
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tests.grafana.asked import interpolate, legend

PALETTE = ("#3f7fbf", "#e08214", "#4daf4a", "#c2403a", "#8e63b0", "#8c6d31", "#d36ba6", "#6b6b6b", "#17a2b8", "#b5bd22")
COLORS = {
    "green": "#3f9b46", "yellow": "#d9a300",
    "red": "#c8352d", "orange": "#e07b1a", "blue": "#3f7fbf", "purple": "#8e63b0",
}  # fmt: skip
GREY = "#6a6f76"
LEGEND_CHARACTERS = 10
"""So many fit a column of Grafana's grid."""


def shown(value, unit):
    """Return a value with its unit, as a person reads it.

    >>> shown(0.123, "percentunit"), shown(3.2e9, "bytes"), shown(75, "s"), shown(12.0, "short")
    ('12.3 %', '2.98 GiB', '1.2 min', '12')
    """
    if not math.isfinite(value):
        return "-"
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return f"{value / 60:.2g} min" if value >= 60 else f"{value:.2g} s" if value >= 1 else f"{1000 * value:.3g} ms"
    if unit in ("bytes", "Bps"):
        step = max(0, min(5, int(math.log(max(value, 1), 1024))))
        return f"{value / 1024**step:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[step]}{'/s' * (unit == 'Bps')}"
    text = f"{value:.0f}" if value == round(value) and abs(value) < 1e6 else f"{value:.3g}"
    if unit.startswith("suffix:"):
        return text + unit.removeprefix("suffix:")
    return f"{text}/s" if unit == "ops" else text


def shortened(text):
    return text if len(text) <= 26 else f"{text[:25]}…"


def legend_columns(lengths, width, rows_max=3):
    """Return in how many columns names of these lengths stand below a panel that is ``width`` columns of the grid wide.

    The fewest rows in which all fit; names that fit in no number of rows stand in as many columns as the longest
    allows.

    >>> legend_columns([4, 4, 4], 6), legend_columns([15, 15, 15, 19, 14], 6), legend_columns([40] * 9, 6)
    (3, 2, 1)
    """
    for rows in range(1, rows_max + 1):
        columns = math.ceil(len(lengths) / rows)
        taken, more = divmod(len(lengths), columns)
        ends = [place * taken + min(place, more) for place in range(columns + 1)]
        widest = [max(lengths[start:end]) for start, end in itertools.pairwise(ends)]
        if sum(widest) + 5 * columns <= LEGEND_CHARACTERS * width:
            return columns
    return max(1, LEGEND_CHARACTERS * width // (max(lengths) + 5))


def color_at(value, steps):
    """Return the colour of the highest step that the value reaches."""
    color = steps[0]["color"]
    for step in steps[1:]:
        if value >= step["value"]:
            color = step["color"]
    return COLORS.get(color, "#3f7fbf")


class PanelData:
    """The answers to the queries of a dashboard; ``marks`` are the times of its annotations, with their colours."""

    def __init__(self, prometheus, values, end_s, span_s):
        self.values = values
        self.start_s = end_s - span_s
        self.end_s = end_s
        self.step_s = max(5.0, span_s / 240)
        self.marks = []
        self._prometheus = prometheus

    @property
    def grid(self):
        return np.arange(self.start_s, self.end_s + self.step_s, self.step_s)

    def lines(self, panel):
        """Return the legend and points of every series."""
        found = []
        for target in panel["targets"]:
            form = interpolate(target["legendFormat"], self.values)
            series = self._at_end(target["expr"]) if target.get("instant") else self._over(target["expr"])
            found += [(legend(form, labels), points) for labels, points in series]
        return found

    def _at_end(self, expression):
        return self._prometheus.at(interpolate(expression, self.values), self.end_s)

    def _over(self, expression):
        return self._prometheus.over(interpolate(expression, self.values), self.start_s, self.end_s, self.step_s)

    def rows(self, panel):
        """Return the columns' names and the rows: the labels all series have, then a value for each query."""
        answers = [self._at_end(target["expr"]) for target in panel["targets"]]
        options = panel["transformations"][-1]["options"]
        names, hidden = options["renameByName"], options["excludeByName"]
        titles = [names.get(f"Value #{target['refId']}", "") for target in panel["targets"]]
        keys = [key for key in answers[0][0][0] if key not in hidden] if answers[0] else []
        found = {}
        for column, series in enumerate(answers):
            for labels, points in series:
                row = found.setdefault(tuple(labels.get(key, "") for key in keys), [math.nan] * len(answers))
                row[column] = points[-1][1]
        rows = sorted(([*key, *values] for key, values in found.items()), key=lambda row: -row[len(keys)])
        if "Value" in hidden:
            return keys, [row[: len(keys)] for row in rows]
        return [*keys, *titles], rows

    def times(self, annotation):
        """Return when an annotation stands, each time with its colour."""
        points = [point for _, points in self._over(annotation["expr"]) for point in points]
        if annotation["useValueForTime"]:
            times = {value / 1000 for _, value in points}
        else:
            times = {time_s for time_s, value in points if value > 0}
        return [(time_s, annotation["iconColor"]) for time_s in sorted(times) if time_s >= self.start_s]


def on_grid(points, grid):
    """Return the values at the times of the grid, NaN where there is none."""
    values = np.full(len(grid), np.nan)
    step_s = grid[1] - grid[0]
    for time_s, value in points:
        place = round((time_s - grid[0]) / step_s)
        if 0 <= place < len(grid) and math.isfinite(value):
            values[place] = value
    return values


COLUMN_IN, ROW_IN = 0.75, 0.38
"""Width and height in inches of Grafana's grid."""
BOTTOM_ROWS = {"timeseries": 1.6, "heatmap": 0.75, "stat": 0.2, "bargauge": 0.2, "table": 0.2}
"""What is left below the axes of a panel, by its kind, in rows of that grid."""
TITLE_ROWS = 1.25
LEGEND_MAX = 8
LEGEND_ROWS_MAX = 3
LEGEND_ROW = 0.4
"""Height of a line of a legend, in rows of the grid."""
DAY_S = 86_400.0
"""matplotlib counts time in days."""


def draw(dashboard, data):
    data.marks = [mark for one in dashboard.get("annotations", {}).get("list", ()) for mark in data.times(one)]
    panels = dashboard["panels"]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) + 1.6
    figure = Figure(figsize=(24 * COLUMN_IN, height * ROW_IN), dpi=80, facecolor="#f4f5f7")
    figure.text(0.008, 1 - 0.75 / height, dashboard["title"], fontsize=17, weight="bold", va="center")
    variables = [one for one in dashboard["templating"]["list"] if one["type"] == "query"]
    chosen = "   ".join(f"{one['label']}: {data.values.get(one['name'], '')}" for one in variables)
    figure.text(0.992, 1 - 0.75 / height, chosen.replace(".*", "all"), fontsize=12, color=GREY, va="center", ha="right")
    for panel in panels:
        place, kind, title = panel["gridPos"], panel["type"], interpolate(panel["title"], data.values)
        top = place["y"] + 1.6
        if kind == "row":
            mark = "▸" if panel.get("collapsed") else "▾"
            figure.text(0.008, 1 - (top + 0.55) / height, f"{mark} {title}", fontsize=13, weight="bold", va="center")
            continue
        left, width = place["x"] / 24 + 0.003, place["w"] / 24 - 0.006
        high, low = 1 - (top + 0.12) / height, 1 - (top + place["h"] - 0.12) / height
        frame = figure.add_axes((left, low, width, high - low), facecolor="white")
        frame.set(xticks=[], yticks=[])
        for side in frame.spines.values():
            side.set_color("#d8dadd")
        figure.text(left + 0.004, high - 0.62 / height, title, fontsize=10.5, weight="bold", va="center")
        inset = 0.034 if kind in ("timeseries", "heatmap") else 0.006
        below, inner = BOTTOM_ROWS[kind] / height, _inner_rows(panel) / height
        axes = figure.add_axes((left + inset, low + below, width - inset - 0.006, inner))
        axes.tick_params(labelsize=8.5, colors=GREY, length=2)
        for side in axes.spines.values():
            side.set_visible(False)
        PAINTERS[kind](axes, panel, data)
    return figure


def _lines(axes, panel, data):
    unit, options, lines = _unit(panel), _overrides(panel), data.lines(panel)
    custom = panel["fieldConfig"]["defaults"].get("custom", {})
    days = data.grid / DAY_S
    base = np.zeros(len(days))
    filled = {}
    highest = 0.0
    banded = any("custom.fillBelowTo" in each for each in options.values())
    for number, (name, points) in enumerate(lines):
        values, own = on_grid(points, data.grid), options.get(name, {})
        color = COLORS.get(own.get("color", {}).get("fixedColor", ""), PALETTE[number % len(PALETTE)])
        if custom.get("stacking", {}).get("mode") == "normal":
            values = base + np.nan_to_num(values)
            axes.fill_between(days, base, values, color=color, alpha=0.6, linewidth=0.5, label=name)
            base, highest = values, max(highest, float(np.nanmax(values)))
            continue
        filled[name] = values
        if np.isfinite(values).any():
            highest = max(highest, float(np.nanmax(values)))
        if own.get("custom.lineWidth") != 0:
            dashed = "custom.lineStyle" in own
            axes.plot(days, values, color=color, linewidth=1.4, linestyle=(0, (6, 4)) if dashed else "-", label=name)
            if not dashed and len(lines) <= 3 and not banded:
                axes.fill_between(days, 0, values, color=color, alpha=0.08, linewidth=0)
    for name, own in options.items():
        if name in filled and (lower := own.get("custom.fillBelowTo")) in filled:
            band, upper = filled[lower], filled[name]
            axes.fill_between(days, band, upper, color=PALETTE[0], alpha=0.22, linewidth=0, label="± std")
    soft = custom.get("axisSoftMax")
    top = max(highest * 1.08, soft if soft is not None and highest > 0.3 * soft else 0.0) or 1.0
    for step in _steps(panel)[1:]:
        if step["value"] < top:
            axes.axhline(step["value"], color=COLORS.get(step["color"], GREY), linewidth=0.9, linestyle=(0, (4, 4)))
    axes.set_ylim(0, top)
    _scales(axes, unit, data)
    axes.set_yticks(_ticks(top, unit))
    axes.grid(axis="y", color="#eceef0", linewidth=0.8)
    for time_s, color in data.marks:
        axes.axvline(time_s / DAY_S, color=COLORS[color], linewidth=0.8, linestyle=(0, (1, 3)), zorder=0)
    if axes.get_legend_handles_labels()[0]:
        _add_legend(axes, panel, lines)
    else:
        _nothing(axes, panel)


def _ticks(top, unit):
    """Return the values that stand beside an axis: round ones in the unit that ``top`` is shown in."""
    if unit in ("bytes", "Bps"):
        scale = 1024.0 ** int(math.log(max(top, 1), 1024))
    else:
        scale = 60.0 if unit == "s" and top >= 60 else 1.0
    ticks = MaxNLocator(5).tick_values(0, top / scale)
    return [float(tick * scale) for tick in ticks if tick * scale <= top]


def _scales(axes, unit, data):
    dates = mpl.dates
    axes.set_xlim(data.start_s / DAY_S, data.end_s / DAY_S)
    axes.xaxis_date()
    axes.xaxis.set_major_locator(dates.AutoDateLocator())
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(axes.xaxis.get_major_locator(), show_offset=False))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: shown(value, unit)))


def _add_legend(axes, panel, lines):
    """Put the names of the largest series below the axes, as Grafana does; further lines of names make them lower."""
    handles, names = axes.get_legend_handles_labels()
    largest = {name: max((value for _, value in points), default=0.0) for name, points in lines}
    order = sorted(range(len(names)), key=lambda at: -largest.get(names[at], math.inf))[:LEGEND_MAX]
    columns = legend_columns([len(names[at]) for at in order], panel["gridPos"]["w"], LEGEND_ROWS_MAX)
    order = order[: columns * LEGEND_ROWS_MAX]
    rows, more = _inner_rows(panel), LEGEND_ROW * (math.ceil(len(order) / columns) - 1)
    box = axes.get_position()
    raised = box.height * more / rows
    axes.set_position((box.x0, box.y0 + raised, box.width, box.height - raised))
    axes.legend(
        [handles[at] for at in order], [names[at] for at in order], fontsize=8, frameon=False,
        loc="upper left", bbox_to_anchor=(-0.03, -0.75 / (rows - more)), ncols=columns, handlelength=1.2,
        columnspacing=1, borderpad=0, handletextpad=0.4, labelspacing=0.2,
    )  # fmt: skip


def _figures(axes, panel, data):
    axes.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    lines, options = data.lines(panel), _overrides(panel)
    if not lines:
        _nothing(axes, panel)
        return
    words = {}
    for mapping in panel["fieldConfig"]["defaults"].get("mappings", ()):
        words |= mapping["options"]
    texts = []
    for name, points in lines:
        value = points[-1][1]
        if word := words.get(f"{value:.0f}"):
            texts.append((name, word["text"], COLORS.get(word["color"], GREY)))
        else:
            text = shown(value, options.get(name, {}).get("unit", _unit(panel)))
            steps = options.get(name, {}).get("thresholds", {}).get("steps", _steps(panel))
            texts.append((name, text, color_at(value, steps)))
    room = panel["gridPos"]["w"] * COLUMN_IN * 72 / len(texts)
    size = min(21.0, room / (0.68 * (max(len(text) for _, text, _ in texts) + 2)))
    small = min(9.0, room / (0.6 * (max(len(name) for name, _, _ in texts) + 1)))
    for number, (name, text, color) in enumerate(texts):
        middle = (number + 0.5) / len(texts)
        axes.text(middle, 0.56, text, ha="center", va="center", fontsize=size, weight="bold", color=color)
        if len(texts) > 1:
            axes.text(middle, 0.08, name, ha="center", va="center", fontsize=small, color=GREY)


def _heat(axes, panel, data):
    grid = data.grid
    buckets = sorted((float(name), on_grid(points, grid)) for name, points in data.lines(panel))
    if not buckets:
        _nothing(axes, panel)
        return
    edges = [0.0, *(edge for edge, _ in buckets[:-1]), 1.05]
    counts = np.diff(np.array([np.zeros(len(grid)), *(values for _, values in buckets)]), axis=0)
    days = np.array([*grid, grid[-1] + data.step_s]) / DAY_S
    norm = mpl.colors.PowerNorm(0.5, vmin=0)
    drawn = axes.pcolormesh(days, edges, np.where(counts > 0, counts, np.nan), cmap="Oranges", norm=norm)
    bar = axes.figure.colorbar(drawn, ax=axes, pad=0.006, fraction=0.015, ticks=MaxNLocator(5, integer=True))
    bar.ax.tick_params(labelsize=8, colors=GREY)
    _scales(axes, "percentunit", data)


def _bars(axes, panel, data):
    lines = sorted(data.lines(panel), key=lambda line: line[1][-1][1])
    if not lines:
        axes.set(xticks=[], yticks=[])
        _nothing(axes, panel)
        return
    axes.set(xticks=[], xlim=(0, 1.25 * max((points[-1][1] for _, points in lines), default=1.0)))
    for number, (_, points) in enumerate(lines):
        value = points[-1][1]
        axes.barh(number, value, height=0.62, color=color_at(value, _steps(panel)), alpha=0.85)
        axes.text(value, number, f"  {shown(value, _unit(panel))}", va="center", fontsize=9)
    names = [shortened(name) for name, _ in lines]
    axes.set_yticks(range(len(lines)), names)
    box, room = axes.get_position(), max(0.05, 0.005 + 0.0044 * max(map(len, names), default=0))
    axes.set_position((box.x0 + room, box.y0, box.width - room, box.height))


def _table(axes, panel, data):
    axes.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
    columns, rows = data.rows(panel)
    if not rows:
        _nothing(axes, panel)
        return
    height = 1 / (len(rows) + 1)
    starts = [0.005 + (position + (position > 0)) / (len(columns) + 1) for position in range(len(columns))]
    for start, name in zip(starts, columns, strict=True):
        axes.text(start, 1 - height / 2, name, fontsize=9.5, weight="bold", va="center")
    options = _overrides(panel)
    for number, row in enumerate(rows, start=1):
        for start, name, value in zip(starts, columns, row, strict=True):
            text, color = shortened(str(value)), "#222222"
            if isinstance(value, float):
                unit = options.get(name, {}).get("unit", "short")
                text, color = shown(value, unit), color_at(value, _steps(panel)) if unit == "percentunit" else color
            axes.text(start, 1 - (number + 0.5) * height, text, fontsize=9.5, va="center", color=color)
        axes.axhline(1 - number * height, color="#eceef0", linewidth=0.8)


def _inner_rows(panel):
    return float(panel["gridPos"]["h"] - 0.24 - BOTTOM_ROWS[panel["type"]] - TITLE_ROWS)


def _unit(panel):
    return str(panel["fieldConfig"]["defaults"].get("unit", "short"))


def _steps(panel):
    return list(panel["fieldConfig"]["defaults"]["thresholds"]["steps"])


def _overrides(panel):
    """Return what single series have of their own, by legend."""
    found = {}
    for override in panel["fieldConfig"].get("overrides", ()):
        own = {each["id"]: each["value"] for each in override["properties"]}
        found.setdefault(str(override["matcher"]["options"]), {}).update(own)
    return found


def _nothing(axes, panel):
    width = max(12, int(axes.get_window_extent().width / 6))
    words = textwrap.fill(panel["fieldConfig"]["defaults"].get("noValue", "no data"), width)
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=GREY)


PAINTERS = {
    "timeseries": _lines, "stat": _figures, "heatmap": _heat, "bargauge": _bars, "table": _table,
}  # fmt: skip
"""By the type of the panel."""
