"""The panels of all dashboards, each with queries, a unit, a description and colours.

Several scorers, stream workers or exporters show the same machine or the same fleet. So every query says by which
labels it adds up (`sum by`), or takes one of several equal values (`max by`). A second replica then changes no picture.
One Prometheus may have several fleets: `of_fleet` restricts each metric of each query to the chosen one, in one place.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

from grafana_foundation_sdk.builders import bargauge, common, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heatmaps
from grafana_foundation_sdk.models import prometheus as queries

from ops.exporter.fleet import QUANTILES

Steps = tuple[tuple[float | None, str], ...]
PLAIN: Steps = ((None, "blue"),)
LOAD: Steps = ((None, "green"), (0.8, "yellow"), (0.9, "red"))
"""For a share of what is allocatable: the profile's threshold of cpu is 0.9."""
ANY_IS_BAD: Steps = ((None, "blue"), (1, "red"))
"""For a count that should be zero."""
STALE: Steps = ((None, "blue"), (0.01, "yellow"), (0.05, "red"))
"""For the share of stale machines."""
NONE_IS_GOOD: Steps = ((None, "green"), (1e-9, "yellow"))
SOME_IS_GOOD: Steps = ((None, "red"), (1, "green"))
AGE: Steps = ((None, "green"), (30, "yellow"), (60, "red"))
"""For the age of data in seconds: a machine whose data are older than 60 s takes no instance."""
RATE = "[$__rate_interval]"
"""The range of rates: as long as Grafana's interval asks for, which follows the scrape interval."""

NO_MACHINE = "no machine is known, or no exporter answers"
NO_SAMPLE = "no machine has sent, or no scorer answers"
SAMPLE_AGE = "windward:sample_age_seconds:min < 1e9"
"""Without a sample it is the time since 1970."""
_SHOWN_BY = {
    "scorer": "no scorer answers",
    "sample": NO_SAMPLE,
    "stream": "no stream worker answers",
    "agent": "no agent's page is scraped",
    "fleet": NO_MACHINE,
    "machine": NO_MACHINE,
    "redis": "no exporter answers",
    "exporter": "no exporter answers",
    "process": "no process answers",
    "planner": "no planner runs",
    "record": "no recorder runs",
    "load": "no load watcher runs",
    "pods": "no pods are followed",
    "extender": "no extender runs",
    "evictor": "no evictor runs",
}
"""Why a panel has no data unless it says another reason, by the second word of its first metric's name."""

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
Query = tuple[str, str]
"""PromQL and the legend of its series."""


_SELECTOR = re.compile(r'"(?:[^"\\]|\\.)*"|\b(windward[\w:]*|process_\w+|ALERTS)\b(\{)?|(\{)(?=__name__)')


def of_fleet(expression: str) -> str:
    """Return PromQL with every metric of ours restricted to the chosen fleet.

    >>> of_fleet('max(windward_a) / windward_b{c="windward_d"}')
    'max(windward_a{fleet="$fleet"}) / windward_b{fleet="$fleet",c="windward_d"}'
    """

    def restricted(match: re.Match[str]) -> str:
        if match[1]:
            return match[1] + '{fleet="$fleet"' + ("," if match[2] else "}")
        return '{fleet="$fleet",' if match[3] else match[0]

    return _SELECTOR.sub(restricted, expression)


def why_empty(expression: str) -> str:
    """Return a text for a panel without data: which process exports its first metric and seems to be down.

    >>> why_empty(SAMPLE_AGE), why_empty("max by (job) (process_open_fds)")
    ('no machine has sent, or no scorer answers', 'no process answers')
    """
    names = re.findall(r"\bwindward[_:]([a-z]+)|\b(process)_|(__name__)", expression)
    return next((_SHOWN_BY[name or "process"] for name, *_ in names))


def rate(counter: str, by: str = "") -> str:
    """Return PromQL for a counter's growth per second, summed over all processes, by a label or in total."""
    return f"sum by ({by}) (rate({counter}{RATE}))" if by else f"sum(rate({counter}{RATE}))"


def rates(counter: str, by: str) -> list[Query]:
    """Return the query for a counter's growth per second by a label."""
    return [(rate(counter, by), f"{{{{{by}}}}}")]


def each(gauge: str, by: str, how: str = "max") -> list[Query]:
    """Return the query of a gauge by a label."""
    return [(f"{how} by ({by}) ({gauge})", f"{{{{{by}}}}}")]


def some(asked: Sequence[Query]) -> list[Query]:
    """Return the queries without the series that are 0, which only lengthen the legend."""
    return [(f"{expression} > 0", legend) for expression, legend in asked]


def quantiles(metric: str, shown: Sequence[float] = (0.5, 0.99)) -> list[Query]:
    """Return queries of a duration's quantiles over all processes, from the buckets of its histogram."""
    buckets = rate(f"{metric}_bucket", "le")
    return [(f"histogram_quantile({quantile}, {buckets}) >= 0", in_words(quantile)) for quantile in shown]


def in_words(quantile: float) -> str:
    """Return a quantile as a legend.

    >>> [in_words(quantile) for quantile in (0.0, 0.5, 0.99, 1.0)]
    ['lowest', 'median', '99 %', 'highest']
    """
    return {0.0: "lowest", 0.5: "median", 1.0: "highest"}.get(quantile, f"{100 * quantile:.4g} %")


def by_quantile(metric: str, labels: str = "") -> list[Query]:
    """Return a query for each quantile over the machines that the exporter shows."""
    return [(f'max({metric}{{quantile="{each}"{labels}}})', in_words(each)) for each in reversed(QUANTILES)]


def _own(name: str, value: object) -> models.DynamicConfigValue:
    """Return the settings of a single series or column."""
    return models.DynamicConfigValue(id_val=name, value=value)


def _coloured(color: str) -> models.DynamicConfigValue:
    return _own("color", {"mode": "fixed", "fixedColor": color})


@dataclass(frozen=True)
class Panel:
    """The properties that every panel has; each kind of panel builds its own object from them."""

    INSTANT: ClassVar[bool] = False
    """Whether only the newest values are asked for."""
    FORM: ClassVar[str] = "time_series"
    title: str
    about: str
    asked: Sequence[tuple[str, ...]]
    """For each query its PromQL and the legend of its series."""
    unit: str
    _: KW_ONLY
    width: int = 12
    height: int = 8
    steps: Steps = PLAIN
    empty: str = ""
    """Why it may have no data, in words; unless given, the process that shows it does not answer."""

    def build(self) -> models.Panel:
        """Return the panel; its queries are named A, B, C ..."""
        targets = []
        for number, (expression, legend, *unit) in enumerate(self.asked):
            target = (
                prometheus.Dataquery()
                .expr(of_fleet(expression))
                .legend_format("__auto" if unit else legend)
                .ref_id(chr(ord("A") + number))
                .datasource(SOURCE)
                .format(queries.PromQueryFormat(self.FORM))
            )
            targets.append(target.instant() if self.INSTANT or not getattr(self, "graph", True) else target.range())
        thresholds = dashboards.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE)
        builder = self._builder().no_value(self.empty or why_empty(self.asked[0][0]))
        found: models.Panel = (
            builder.title(self.title)
            .description(self.about)
            .datasource(SOURCE)
            .targets(targets)
            .unit(self.unit)
            .span(self.width)
            .height(self.height)
            .thresholds(thresholds.steps([models.Threshold(value=value, color=color) for value, color in self.steps]))
            .build()
        )
        return found

    def _builder(self) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Lines(Panel):
    """Values over time. With ``steps`` beyond the first, their limits are drawn as dashed lines."""

    _: KW_ONLY
    width: int = 8
    low: float | None = 0
    high: float | None = None
    stacked: bool = False
    limit: str = ""
    """The legend of a limit: its line is dashed, red and unfilled."""
    band: tuple[str, str] | None = None
    """The legends of an upper and a lower line: drawn thin, filled between them."""
    colors: Mapping[str, str] = field(default_factory=dict)
    """Colour by legend."""

    def _builder(self) -> Any:
        panel = (
            timeseries.Panel()
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
            .color_scheme(dashboards.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
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
            dashes = _own("custom.lineStyle", {"fill": "dash", "dash": [8, 6]})
            panel.override_by_regexp(self.limit, [dashes, _own("custom.fillOpacity", 0), _coloured("red")])
        for legend, color in self.colors.items():
            panel.override_by_name(legend, [_coloured(color)])
        if self.band is not None:
            upper, lower = self.band
            thin = [_own("custom.lineWidth", 0), _coloured("blue")]
            filled = [_own("custom.fillBelowTo", lower), _own("custom.fillOpacity", 25)]
            panel.override_by_name(upper, [*thin, *filled])
            panel.override_by_name(lower, [*thin, _own("custom.fillOpacity", 0)])
        return panel


@dataclass(frozen=True)
class Heat(Panel):
    """Cumulative buckets by ``le`` over time, as they are: gauges, so neither rate nor increase."""

    FORM = "heatmap"
    unit: str = "percentunit"
    _: KW_ONLY
    width: int = 24
    height: int = 9

    def _builder(self) -> Any:
        return (
            heatmap.Panel()
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


@dataclass(frozen=True)
class Figures(Panel):
    _: KW_ONLY
    width: int = 6
    height: int = 4
    decimals: int | None = None
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Value to text and colour."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Unit by legend."""
    graph: bool = True
    """Whether a line of the past is behind the figures; without it a value that has ended is not shown."""
    own_steps: Mapping[str, Steps] = field(default_factory=dict)
    """Steps by legend."""

    def _builder(self) -> Any:
        panel = (
            stat.Panel()
            .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
            .color_mode(kinds.BigValueColorMode.VALUE)
            .graph_mode(kinds.BigValueGraphMode.AREA if self.graph else kinds.BigValueGraphMode.NONE)
        )
        if self.decimals is not None:
            panel.decimals(self.decimals)
        if self.words:
            words = {
                value: models.ValueMappingResult(text=text, color=color) for value, (text, color) in self.words.items()
            }
            panel.mappings([models.ValueMap(options=words)])
        for legend, own in self.units.items():
            panel.override_by_name(legend, [_own("unit", own)])
        for legend, steps in self.own_steps.items():
            told = [{"value": value, "color": color} for value, color in steps]
            panel.override_by_name(legend, [_own("thresholds", {"mode": "absolute", "steps": told})])
        return panel


@dataclass(frozen=True)
class Bars(Panel):
    INSTANT = True

    def _builder(self) -> Any:
        return (
            bargauge.Panel()
            .orientation(kinds.VizOrientation.HORIZONTAL)
            .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
            .min(0)
        )


@dataclass(frozen=True)
class Rows(Panel):
    """A table: a row for each value of the label ``by``, a column (query, title, unit) for each query."""

    INSTANT, FORM = True, "table"
    unit: str = "short"
    _: KW_ONLY
    by: str
    width: int = 24
    height: int = 10
    link: str = ""
    hidden: Sequence[str] = ()
    """Labels that are no columns."""

    def _builder(self) -> Any:
        asked = self.asked
        names = {f"Value #{chr(ord('A') + number)}": column for number, (_, column, _) in enumerate(asked)}
        joined = ("joinByField", {"byField": self.by, "mode": "outerTabular"}) if len(asked) > 1 else ("merge", {})
        times = [f"Time {number}" for number in range(1, len(asked) + 1)]
        organized = {
            "excludeByName": dict.fromkeys(("Time", *times, "__name__", *self.hidden), True),
            "renameByName": names | {"Value": asked[0][1]},
        }
        panel = table.Panel()
        for name, options in (joined, ("organize", organized)):
            panel.with_transformation(models.DataTransformerConfig(id_val=name, options=options))
        for _, column, unit in asked:
            cell = [_own("custom.cellOptions", {"type": "color-text"})] if unit == "percentunit" else []
            panel.override_by_name(column, [_own("unit", unit), *cell])
        if self.link:
            panel.override_by_name(self.by, [_own("links", [{"title": "this machine", "url": self.link}])])
        panel.sort_by([common.TableSortByFieldState().display_name(asked[0][1]).desc(True)])
        return panel
