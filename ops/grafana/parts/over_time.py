"""Panels that show values over time: lines, bands, limits, and buckets as a heat map."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common, dashboard, heatmap, timeseries
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heatmaps

from ops.grafana.parts.style import PLAIN, Query, Steps, framed, targets


def lines(
    title: str,
    about: str,
    asked: Sequence[Query],
    unit: str,
    *,
    width: int = 12,
    height: int = 8,
    steps: Steps = PLAIN,
    low: float | None = 0,
    high: float | None = None,
    stacked: bool = False,
) -> timeseries.Panel:
    """Return values over time. With steps beyond the first, their values are drawn as dashed lines."""
    panel: timeseries.Panel = framed(timeseries.Panel(), title, about, unit, width, height, steps)
    panel = (
        panel.targets(list(targets(asked)))
        .line_width(1)
        .fill_opacity(60 if stacked else 8)
        .show_points(kinds.VisibilityMode.NEVER)
        .span_nulls(False)
        .tooltip(common.VizTooltipOptions().mode(kinds.TooltipDisplayMode.MULTI).sort(kinds.SortOrder.DESCENDING))
        .legend(
            common.VizLegendOptions()
            .display_mode(kinds.LegendDisplayMode.TABLE)
            .placement(kinds.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
    )
    if len(steps) > 1:
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED))
    if low is not None:
        panel.min(low)
    if high is not None:
        panel.axis_soft_max(high)
    if stacked:
        panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))
    return panel


def band(panel: timeseries.Panel, upper: str, lower: str) -> timeseries.Panel:
    """Fill between two lines of a panel, by their legends, and draw them thin."""
    thin = [
        models.DynamicConfigValue(id_val="custom.lineWidth", value=0),
        models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": "blue"}),
    ]
    return panel.override_by_name(
        upper,
        [
            *thin,
            models.DynamicConfigValue(id_val="custom.fillBelowTo", value=lower),
            models.DynamicConfigValue(id_val="custom.fillOpacity", value=25),
        ],
    ).override_by_name(lower, [*thin, models.DynamicConfigValue(id_val="custom.fillOpacity", value=0)])


def dashed(panel: timeseries.Panel, pattern: str, color: str = "red") -> timeseries.Panel:
    """Draw the lines whose legends match as limits: dashed, unfilled."""
    return panel.override_by_regexp(
        pattern,
        [
            models.DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 6]}),
            models.DynamicConfigValue(id_val="custom.fillOpacity", value=0),
            models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": color}),
        ],
    )


def heat(title: str, about: str, expression: str, *, width: int = 24, height: int = 9) -> heatmap.Panel:
    """Return cumulative buckets by ``le`` over time, as they are: gauges, so neither rate nor increase."""
    panel: heatmap.Panel = framed(heatmap.Panel(), title, about, "percentunit", width, height, PLAIN)
    return (
        panel.targets(list(targets([(expression, "{{le}}")], how="heatmap")))
        .calculate(False)
        .y_axis(heatmap.YAxisConfig().unit("percentunit").decimals(0))
        .cell_values(heatmap.CellValues().unit("short").decimals(0))
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmaps.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .scale(heatmaps.HeatmapColorScale.EXPONENTIAL)
            .exponent(0.5)
            .steps(64)
        )
        .rows_frame(heatmap.RowsHeatmapOptions().layout(kinds.HeatmapCellLayout.LE).value("machines"))
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .mode(kinds.TooltipDisplayMode.SINGLE)
        .show_y_histogram()
        .show_color_scale(True)
    )
