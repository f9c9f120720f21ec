"""What every panel has: the data source, its queries, a title, a description, a unit, its size and its colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard, prometheus
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as queries

Steps = tuple[tuple[float | None, str], ...]
PLAIN: Steps = ((None, "blue"),)
LOAD: Steps = ((None, "green"), (0.8, "yellow"), (0.9, "red"))
"""Of a share of what is allocatable: the profile's threshold of cpu is 0.9."""
NONE_IS_GOOD: Steps = ((None, "green"), (1e-9, "yellow"))
SOME_IS_GOOD: Steps = ((None, "red"), (1, "green"))
AGE: Steps = ((None, "green"), (30, "yellow"), (60, "red"))
"""Of data in seconds: with older data than 60 s a machine takes no instance."""
RATE = "[$__rate_interval]"
"""The range of rates: as long as Grafana's interval asks for, which follows the scrape interval."""

SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
Query = tuple[str, str]
"""PromQL and the legend of its series."""


def quantiles(metric: str, shown: Sequence[float] = (0.5, 0.99)) -> list[Query]:
    """Return queries of a duration's quantiles over all processes, from the buckets of its histogram."""
    buckets = f"sum by (le) (rate({metric}_bucket{RATE}))"
    return [(f"histogram_quantile({each}, {buckets})", f"p{round(100 * each)}") for each in shown]


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    """Return the colours from each value on."""
    return (
        dashboard.ThresholdsConfig()
        .mode(models.ThresholdsMode.ABSOLUTE)
        .steps([models.Threshold(value=value, color=color) for value, color in steps])
    )


def targets(
    asked: Sequence[tuple[str, ...]], *, instant: bool = False, how: str = "time_series"
) -> list[prometheus.Dataquery]:
    """Return the queries of a panel, named A, B, C ..."""
    made = []
    for number, (expression, legend) in enumerate(asked):
        target = (
            prometheus.Dataquery()
            .expr(expression)
            .legend_format(legend or "__auto")
            .ref_id(chr(ord("A") + number))
            .datasource(SOURCE)
            .format(queries.PromQueryFormat(how))
        )
        made.append(target.instant() if instant else target.range())
    return made


@dataclass(frozen=True)
class Panel:
    """What every panel has; each kind makes its own of it, when the page asks for it."""

    title: str
    about: str
    asked: Sequence[tuple[str, ...]]
    """Of each query PromQL and the legend of its series."""
    unit: str
    _: KW_ONLY
    width: int = 12
    height: int = 8
    steps: Steps = PLAIN

    def framed(self, builder: Any) -> Any:
        """Return the panel of one kind with what every panel has."""
        return (
            builder.title(self.title)
            .description(self.about)
            .datasource(SOURCE)
            .unit(self.unit)
            .span(self.width)
            .height(self.height)
            .thresholds(thresholds(self.steps))
        )

    def build(self) -> models.Panel:
        """Return the panel."""
        found: models.Panel = self.builder().build()
        return found

    def builder(self) -> Any:
        """Return what makes the panel: each kind its own."""
        raise NotImplementedError
