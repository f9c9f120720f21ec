"""The queries of a dashboard to Prometheus, as Grafana sends them: of panels, variables and annotations."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import ops.grafana as dashboards

FOLDER = Path(dashboards.__file__).parent / "dashboards"
Kind = Literal["panel", "variable", "annotation"]
Choice = Literal["default", "first", "last"]


@dataclass(frozen=True)
class Asked:
    kind: Kind
    title: str
    """Title of the panel, name of the variable or annotation."""
    type: str
    """The panel's: ``timeseries``, ``stat``, ...; else empty."""
    expression: str
    legend: str = ""
    instant: bool = False
    reference: str = "A"


def queries(dashboard, values):
    """Return every query, with ``values`` in place of the variables."""
    for one in dashboard["templating"]["list"]:
        if one["type"] == "query":
            yield Asked("variable", one["name"], "", interpolate(one["query"], values))
    for one in dashboard.get("annotations", {}).get("list", ()):
        yield Asked("annotation", one["name"], "", interpolate(one["expr"], values))
    for panel in panels(dashboard):
        for target in panel.get("targets", ()):
            yield Asked(
                "panel",
                interpolate(panel["title"], values),
                panel["type"],
                interpolate(target["expr"], values),
                interpolate(target["legendFormat"], values),
                bool(target.get("instant")),
                target["refId"],
            )


def panels(dashboard):
    """Yield every panel, those of collapsed rows included, and no row."""
    for one in dashboard["panels"]:
        yield from one.get("panels", ()) if one["type"] == "row" else [one]


def choices(dashboard, options, choice="default", **given):
    """Return a value of each variable, in the order in which Grafana asks for their ``options``; ``given`` are fixed.

    The default of a variable without one, or whose default is no option, is the first option; without options it is "".
    """
    values = {}
    for one in dashboard["templating"]["list"]:
        if one["type"] != "query":
            continue
        found = sorted(options(interpolate(one["query"], values)))
        found = ([one["allValue"]] if one.get("includeAll") else []) + found
        default = one.get("current", {}).get("value", "")
        default = found[0] if default == "$__all" else default
        first, last = (found[0], found[-1]) if found else ("", "")
        chosen = {"default": default if default in found else first, "first": first, "last": last}[choice]
        values[one["name"]] = given.get(one["name"], chosen)
    return values


def interpolate(text, values):
    """Return the text with ``$name`` and ``${name}`` replaced; ``$1`` is a group of label_replace.

    >>> interpolate('up{job="$job"}[$__rate_interval]', {"job": "a", "__rate_interval": "1m"})
    'up{job="a"}[1m]'

    Raises KeyError for a variable without a value.
    """
    return re.sub(r"\$\{(\w+)\}|\$([A-Za-z_]\w*)", lambda match: values[match[1] or match[2]], text)


def legend(form, labels):
    """Return a series' legend.

    >>> legend("{{state}} now", {"state": "fresh"})
    'fresh now'
    """
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), form)
