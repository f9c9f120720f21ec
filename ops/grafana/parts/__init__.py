"""What all dashboards are made of: queries, panels, variables, links; each panel with a unit, a description, colours.

Several scorers, stream workers or exporters show the same machine or the same fleet. So every query says by which
labels it adds up (`sum by`), or takes one of several equal values (`max by`). A second replica then changes no picture.
"""

from ops.grafana.parts.newest import Bars, Figures, Rows
from ops.grafana.parts.over_time import Heat, Lines
from ops.grafana.parts.page import chosen, label_variables, page, resource_variable, variable, window_variable
from ops.grafana.parts.style import (
    AGE,
    LOAD,
    NONE_IS_GOOD,
    PLAIN,
    RATE,
    SOME_IS_GOOD,
    SOURCE,
    Panel,
    Query,
    Steps,
    quantiles,
)

__all__ = [
    "AGE",
    "LOAD",
    "NONE_IS_GOOD",
    "PLAIN",
    "RATE",
    "SOME_IS_GOOD",
    "SOURCE",
    "Bars",
    "Figures",
    "Heat",
    "Lines",
    "Panel",
    "Query",
    "Rows",
    "Steps",
    "chosen",
    "label_variables",
    "page",
    "quantiles",
    "resource_variable",
    "variable",
    "window_variable",
]
