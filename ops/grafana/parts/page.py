"""A whole dashboard: rows of panels, links to the others, and what the user chooses: window, resource, label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from ops.grafana.parts.style import SOURCE

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


def variable(
    name: str, label: str, query: str, about: str, *, many: bool = False, refresh: bool = True, value: str = ""
) -> dashboard.QueryVariable:
    """Return a variable whose values Prometheus has; ``many``: all of them at once is possible, and the default."""
    found = (
        dashboard.QueryVariable(name)
        .label(label)
        .description(about)
        .query(query)
        .datasource(SOURCE)
        .sort(models.VariableSort.NATURAL_ASC)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED if refresh else models.VariableRefresh.ON_DASHBOARD_LOAD)
    )
    if many:
        everything = models.VariableOption(text="All", value="$__all", selected=True)
        return found.multi(True).include_all(True).all_value(".*").current(everything)
    if value:
        found = found.current(models.VariableOption(text=value, value=value, selected=True))
    return found


def window_variable() -> dashboard.QueryVariable:
    """Return the choice of the window."""
    query = "label_values(windward_fleet_utilization_ratio, window)"
    return variable("window", "Window", query, "Length of the rolling window", value="5m")


def resource_variable() -> dashboard.QueryVariable:
    """Return the choice of the resource."""
    query = "label_values(windward_fleet_utilization_ratio, resource)"
    return variable("resource", "Resource", query, "What is measured", value="cpu")


def label_variables() -> list[dashboard.QueryVariable]:
    """Return the choice of a machine label, of those the exporter shows (``--labels``), and of its values."""
    return [
        variable(
            "label",
            "Label",
            "label_names(windward_machine_info)",
            "Machine label to filter by; the exporter's setting labels lists those there are",
            value="machine",
        ).regex("/^(?!__name__$|instance$|job$)/"),
        variable(
            "value", "Value", "label_values(windward_machine_info, $label)", "Its values; all by default", many=True
        ),
    ]


def chosen(expression: str) -> str:
    """Return a machine's series restricted to the machines with the chosen label."""
    return f'({expression}) and on (machine) windward_machine_info{{$label=~"$value"}}'
