"""Panels that show the newest values: large figures, bars, tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from grafana_foundation_sdk.builders import bargauge, common, stat, table
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from ops.grafana.parts.style import Panel, targets


@dataclass(frozen=True)
class Figures(Panel):
    """The newest values as large figures."""

    _: KW_ONLY
    width: int = 6
    height: int = 4
    decimals: int | None = None
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Value to text and colour."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Unit by legend."""
    graph: bool = True

    def builder(self) -> Any:
        """Return what makes the panel."""
        panel = (
            self.framed(stat.Panel())
            .targets(targets(self.asked))
            .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
            .color_mode(kinds.BigValueColorMode.VALUE)
            .graph_mode(kinds.BigValueGraphMode.AREA if self.graph else kinds.BigValueGraphMode.NONE)
            .no_value("-")
        )
        if self.decimals is not None:
            panel.decimals(self.decimals)
        if self.words:
            panel.mappings([_value_map(self.words)])
        for legend, own in self.units.items():
            panel.override_by_name(legend, [models.DynamicConfigValue(id_val="unit", value=own)])
        return panel


def _value_map(words: Mapping[str, tuple[str, str]]) -> models.ValueMap:
    return models.ValueMap(
        options={value: models.ValueMappingResult(text=text, color=color) for value, (text, color) in words.items()}
    )


@dataclass(frozen=True)
class Bars(Panel):
    """The newest values as horizontal bars."""

    def builder(self) -> Any:
        """Return what makes the panel."""
        return (
            self.framed(bargauge.Panel())
            .targets(targets(self.asked, instant=True))
            .orientation(kinds.VizOrientation.HORIZONTAL)
            .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
            .min(0)
        )


@dataclass(frozen=True)
class Rows(Panel):
    """A table: a row for each value of the label ``by``, a column (query, title, unit) for each query."""

    unit: str = "short"
    _: KW_ONLY
    by: str
    width: int = 24
    height: int = 10
    link: str = ""
    hidden: Sequence[str] = ()
    """Labels that are no columns."""

    def builder(self) -> Any:
        """Return what makes the panel."""
        asked = self.asked
        letters = [chr(ord("A") + number) for number in range(len(asked))]
        names = {f"Value #{letter}": column for letter, (_, column, _) in zip(letters, asked, strict=True)}
        panel = (
            self.framed(table.Panel())
            .targets(targets([(expression, "") for expression, _, _ in asked], instant=True, how="table"))
            .with_transformation(
                models.DataTransformerConfig(id_val="joinByField", options={"byField": self.by, "mode": "outerTabular"})
                if len(asked) > 1
                else models.DataTransformerConfig(id_val="merge", options={})
            )
            .with_transformation(
                models.DataTransformerConfig(
                    id_val="organize",
                    options={
                        "excludeByName": {
                            "Time": True,
                            **{f"Time {n}": True for n in range(1, len(asked) + 1)},
                            "__name__": True,
                            **dict.fromkeys(self.hidden, True),
                        },
                        "renameByName": names | {"Value": asked[0][1]},
                    },
                )
            )
        )
        for _, column, unit in asked:
            properties = [models.DynamicConfigValue(id_val="unit", value=unit)]
            if unit == "percentunit":
                properties.append(models.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}))
            panel.override_by_name(column, properties)
        if self.link:
            shown = {"title": "this machine", "url": self.link}
            panel.override_by_name(self.by, [models.DynamicConfigValue(id_val="links", value=[shown])])
        panel.sort_by([common.TableSortByFieldState().display_name(asked[0][1]).desc(True)])
        return panel
