"""A whole dashboard: rows of panels, variables, links to the other dashboards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

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
