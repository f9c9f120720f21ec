"""A whole dashboard: rows of panels, links to the others, and what the user chooses: fleet, window, resource, label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from ops.grafana.panels import SOURCE, of_fleet

TAG = "windward"


@dataclass(frozen=True)
class Row:
    """A heading and its panels; a collapsed row sends no queries until it is opened."""

    title: str
    panels: Sequence[Any]
    collapsed: bool = False


def page(uid: str, title: str, about: str, variables: Sequence[Any], rows: Sequence[Row]) -> dashboard.Dashboard:
    """Return a dashboard: rows of panels, links to the other dashboards; its first variables are data source and fleet."""
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
        .with_variable(FLEET)
        .with_variable(DOCS)
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
    for row in rows:
        heading = dashboard.Row(row.title)
        if row.collapsed:
            for panel in row.panels:
                heading.with_panel(panel)
            made.with_row(heading)
            continue
        made.with_row(heading)
        for panel in row.panels:
            made.with_panel(panel)
    return made


def variable(name: str, label: str, query: str, about: str, *, value: str = "") -> dashboard.QueryVariable:
    """Return a variable whose values Prometheus supplies, for the chosen fleet. ``value``: the initial choice."""
    found = (
        dashboard.QueryVariable(name)
        .label(label)
        .description(about)
        .query(query if name == "fleet" else of_fleet(query))
        .datasource(SOURCE)
        .sort(models.VariableSort.NATURAL_ASC)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    )
    return found.current(models.VariableOption(text=value, value=value, selected=True)) if value else found


FLEET = variable(
    "fleet",
    "Fleet",
    'label_values({__name__=~"windward_(stream|scorer|exporter)_build_info"}, fleet)',
    "The prefix of the fleet's keys and topics; one Prometheus may have several",
    value="windward",
)
DOCS_URL = "http://127.0.0.1:8000"
"""Where `make docs` is served, unless it is said otherwise (``python -m ops.grafana --docs-url``)."""
DOCS = dashboard.ConstantVariable("docs").value(DOCS_URL)
_FLEET = "windward_fleet_utilization_ratio"
WINDOW = variable("window", "Window", f"label_values({_FLEET}, window)", "Length of the rolling window", value="5m")
RESOURCE = variable("resource", "Resource", f"label_values({_FLEET}, resource)", "What is measured", value="cpu")
LABEL = (
    variable(
        "label",
        "Label",
        "label_values(windward_fleet_label_info, label)",
        "Machine label to filter by; the exporter's setting labels lists those there are",
        value="machine",
    ),
    variable("value", "Value", "label_values(windward_machine_info, $label)", "Its values; all by default")
    .multi(True)
    .include_all(True)
    .all_value(".*")
    .current(models.VariableOption(text="All", value="$__all", selected=True)),
)
"""A machine label, of those that the exporter shows (``--labels``), and its values."""
