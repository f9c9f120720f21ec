"""Where the panels of a dashboard are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.figure import Figure

from ops.grafana.asked import interpolate
from ops.grafana.pictures.painters import PAINTERS
from ops.grafana.pictures.panel_data import PanelData
from ops.grafana.pictures.style import BOTTOM_ROWS, COLUMN_IN, DPI, GREY, ROW_IN, TITLE_ROWS


def draw(dashboard: Mapping[str, Any], data: PanelData) -> Figure:
    """Return the picture of a dashboard."""
    panels = dashboard["panels"]
    data.marks = [data.times(one) for one in dashboard.get("annotations", {}).get("list", ())]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) + 1.6
    figure = Figure(figsize=(24 * COLUMN_IN, height * ROW_IN), dpi=DPI, facecolor="#f4f5f7")
    figure.text(0.008, 1 - 0.75 / height, dashboard["title"], fontsize=17, weight="bold", va="center")
    chosen = "   ".join(
        f"{one['label']}: {data.values.get(one['name'], '')}"
        for one in dashboard["templating"]["list"]
        if one["type"] == "query"
    )
    figure.text(0.992, 1 - 0.75 / height, chosen.replace(".*", "all"), fontsize=12, color=GREY, va="center", ha="right")
    for panel in panels:
        place = panel["gridPos"]
        top = place["y"] + 1.6
        if panel["type"] == "row":
            title = interpolate(panel["title"], data.values)
            figure.text(0.008, 1 - (top + 0.55) / height, f"▾ {title}", fontsize=13, weight="bold", va="center")
            continue
        left, right = place["x"] / 24 + 0.003, (place["x"] + place["w"]) / 24 - 0.003
        high, low = 1 - (top + 0.12) / height, 1 - (top + place["h"] - 0.12) / height
        frame = figure.add_axes((left, low, right - left, high - low), facecolor="white")
        frame.set(xticks=[], yticks=[])
        for side in frame.spines.values():
            side.set_color("#d8dadd")
        title = interpolate(panel["title"], data.values)
        figure.text(left + 0.004, high - 0.62 / height, title, fontsize=10.5, weight="bold", va="center")
        inset_x = 0.034 if panel["type"] in ("timeseries", "heatmap") else 0.006
        bottom = BOTTOM_ROWS[panel["type"]]
        axes = figure.add_axes(
            (
                left + inset_x,
                low + bottom / height,
                right - left - inset_x - 0.006,
                high - low - (bottom + TITLE_ROWS) / height,
            )
        )
        axes.tick_params(labelsize=8.5, colors=GREY, length=2)
        for side in axes.spines.values():
            side.set_visible(False)
        PAINTERS[panel["type"]](axes, panel, data)
    return figure
