"""Panels that show the newest values: large figures, bars, tables."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import bargauge, common, stat, table
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models import dashboard as models

from ops.grafana.parts.style import PLAIN, Query, Steps, framed, targets


def figures(
    title: str,
    about: str,
    asked: Sequence[Query],
    unit: str,
    *,
    width: int = 6,
    height: int = 4,
    steps: Steps = PLAIN,
    decimals: int | None = None,
    words: dict[str, tuple[str, str]] | None = None,
    units: dict[str, str] | None = None,
    graph: bool = True,
) -> stat.Panel:
    """Return the newest values as large figures. ``words``: value to text and colour; ``units``: unit by legend."""
    panel: stat.Panel = framed(stat.Panel(), title, about, unit, width, height, steps)
    panel = (
        panel.targets(list(targets(asked)))
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .color_mode(kinds.BigValueColorMode.VALUE)
        .graph_mode(kinds.BigValueGraphMode.AREA if graph else kinds.BigValueGraphMode.NONE)
        .no_value("-")
    )
    if decimals is not None:
        panel.decimals(decimals)
    if words:
        panel.mappings([_value_map(words)])
    for legend, own in (units or {}).items():
        panel.override_by_name(legend, [models.DynamicConfigValue(id_val="unit", value=own)])
    return panel


def _value_map(words: dict[str, tuple[str, str]]) -> models.ValueMap:
    return models.ValueMap(
        options={value: models.ValueMappingResult(text=text, color=color) for value, (text, color) in words.items()}
    )


def bars(
    title: str, about: str, asked: Sequence[Query], unit: str, *, width: int = 12, height: int = 8, steps: Steps = PLAIN
) -> bargauge.Panel:
    """Return the newest values as horizontal bars."""
    panel: bargauge.Panel = framed(bargauge.Panel(), title, about, unit, width, height, steps)
    return (
        panel.targets(list(targets(asked, instant=True)))
        .orientation(kinds.VizOrientation.HORIZONTAL)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
        .min(0)
    )


def rows(
    title: str,
    about: str,
    asked: Sequence[tuple[str, str, str]],
    *,
    by: str,
    width: int = 24,
    height: int = 10,
    steps: Steps = PLAIN,
    link: str = "",
    hidden: Sequence[str] = (),
) -> table.Panel:
    """Return a table: a row for each value of the label ``by``, a column (query, title, unit) for each query.

    Labels in ``hidden`` are no columns.
    """
    panel: table.Panel = framed(table.Panel(), title, about, "short", width, height, steps)
    letters = [chr(ord("A") + number) for number in range(len(asked))]
    names = {f"Value #{letter}": column for letter, (_, column, _) in zip(letters, asked, strict=True)}
    panel = (
        panel.targets(list(targets([(expression, "") for expression, _, _ in asked], instant=True, how="table")))
        .with_transformation(
            models.DataTransformerConfig(id_val="joinByField", options={"byField": by, "mode": "outerTabular"})
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
                        **dict.fromkeys(hidden, True),
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
    if link:
        shown = {"title": "this machine", "url": link}
        panel.override_by_name(by, [models.DynamicConfigValue(id_val="links", value=[shown])])
    panel.sort_by([common.TableSortByFieldState().display_name(asked[0][1]).desc(True)])
    return panel
