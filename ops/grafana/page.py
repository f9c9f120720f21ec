"""A whole dashboard: rows of panels, links to the others, and what the user chooses: window, resource, label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from ops.grafana.panels import SOURCE

TAG = "windward"


def page(
    uid: str, title: str, about: str, variables: Sequence[Any], panels: Sequence[tuple[str, Sequence[Any]]]
) -> dashboard.Dashboard:
    """Return a dashboard: rows of panels, the data source first among its variables, links to the other dashboards."""
    source = dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")
    made = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags([TAG])
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("browser")
        .with_variable(source)
        .link(
            dashboard.DashboardLink("Windward")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .icon("external link")
            .tooltip("The other dashboards, with the same time and choices")
            .as_dropdown(False)
            .include_vars(True)
            .keep_time(True)
        )
    )
    for each in variables:
        made.with_variable(each)
    for heading, members in panels:
        made.with_row(dashboard.Row(heading))
        for panel in members:
            made.with_panel(panel)
    return made


def variable(name: str, label: str, query: str, about: str, *, value: str = "") -> dashboard.QueryVariable:
    """Return a variable whose values Prometheus has; ``value``: the one chosen at first."""
    found = (
        dashboard.QueryVariable(name)
        .label(label)
        .description(about)
        .query(query)
        .datasource(SOURCE)
        .sort(models.VariableSort.NATURAL_ASC)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
    return found.current(models.VariableOption(text=value, value=value, selected=True)) if value else found


_FLEET = "windward_fleet_utilization_ratio"
WINDOW = variable("window", "Window", f"label_values({_FLEET}, window)", "Length of the rolling window", value="5m")
RESOURCE = variable("resource", "Resource", f"label_values({_FLEET}, resource)", "What is measured", value="cpu")
LABEL = (
    variable(
        "label",
        "Label",
        "label_names(windward_machine_info)",
        "Machine label to filter by; the exporter's setting labels lists those there are",
        value="machine",
    ).regex("/^(?!__name__$|instance$|job$)/"),
    variable("value", "Value", "label_values(windward_machine_info, $label)", "Its values; all by default")
    .multi(True)
    .include_all(True)
    .all_value(".*")
    .current(models.VariableOption(text="All", value="$__all", selected=True)),
)
"""A machine label, of those that the exporter shows (``--labels``), and its values."""
