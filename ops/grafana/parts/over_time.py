"""Panels that show values over time: lines, bands, limits, and buckets as a heat map."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, heatmap, timeseries
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heatmaps

from ops.grafana.parts.style import Panel, targets


@dataclass(frozen=True)
class Lines(Panel):
    """Values over time. With steps beyond the first, their values are drawn as dashed lines."""

    _: KW_ONLY
    low: float | None = 0
    high: float | None = None
    stacked: bool = False
    limit: str = ""
    """The legend of a limit: its line is dashed, red and unfilled."""
    band: tuple[str, str] | None = None
    """The legends of an upper and a lower line: drawn thin, filled between them."""

    def builder(self) -> Any:
        """Return what makes the panel."""
        panel = (
            self.framed(timeseries.Panel())
            .targets(targets(self.asked))
            .line_width(1)
            .fill_opacity(60 if self.stacked else 8)
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
        if len(self.steps) > 1:
            panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED))
        if self.low is not None:
            panel.min(self.low)
        if self.high is not None:
            panel.axis_soft_max(self.high)
        if self.stacked:
            panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))
        if self.limit:
            dashes = {"fill": "dash", "dash": [8, 6]}
            panel.override_by_regexp(self.limit, [_own("lineStyle", dashes), _own("fillOpacity", 0), _coloured("red")])
        if self.band is not None:
            upper, lower = self.band
            thin = [_own("lineWidth", 0), _coloured("blue")]
            panel.override_by_name(upper, [*thin, _own("fillBelowTo", lower), _own("fillOpacity", 25)])
            panel.override_by_name(lower, [*thin, _own("fillOpacity", 0)])
        return panel


def _own(name: str, value: object) -> models.DynamicConfigValue:
    """Return what one line has of its own."""
    return models.DynamicConfigValue(id_val=f"custom.{name}", value=value)


def _coloured(color: str) -> models.DynamicConfigValue:
    return models.DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": color})


@dataclass(frozen=True)
class Heat(Panel):
    """Cumulative buckets by ``le`` over time, as they are: gauges, so neither rate nor increase."""

    unit: str = "percentunit"
    _: KW_ONLY
    width: int = 24
    height: int = 9

    def builder(self) -> Any:
        """Return what makes the panel."""
        return (
            self.framed(heatmap.Panel())
            .targets(targets(self.asked, how="heatmap"))
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
