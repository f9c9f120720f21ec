"""The queries of a dashboard to Prometheus, as Grafana sends them: of panels, variables and annotations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["panel", "variable", "annotation"]


@dataclass(frozen=True)
class Asked:
    """One query."""

    kind: Kind
    title: str
    """Title of the panel, name of the variable or annotation."""
    type: str
    """The panel's: ``timeseries``, ``stat``, ...; else empty."""
    expression: str
    legend: str = ""
    instant: bool = False
    reference: str = "A"


def queries(dashboard: Mapping[str, Any], values: Mapping[str, str]) -> Iterator[Asked]:
    """Return every query, with ``values`` in place of the variables."""
    for one in dashboard["templating"]["list"]:
        if one["type"] == "query":
            yield Asked("variable", one["name"], "", interpolate(one["query"], values))
    for one in dashboard.get("annotations", {}).get("list", ()):
        yield Asked("annotation", one["name"], "", interpolate(one["expr"], values))
    for panel in dashboard["panels"]:
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


def interpolate(text: str, values: Mapping[str, str]) -> str:
    """Return the text with ``$name`` and ``${name}`` replaced.

    >>> interpolate('up{job="$job"}[$__rate_interval]', {"job": "a", "__rate_interval": "1m"})
    'up{job="a"}[1m]'

    Raises KeyError for a variable without a value.
    """
    return re.sub(r"\$\{(\w+)\}|\$(\w+)", lambda match: values[match[1] or match[2]], text)


def legend(form: str, labels: Mapping[str, str]) -> str:
    """Return a series' legend.

    >>> legend("{{state}} now", {"state": "fresh"})
    'fresh now'
    """
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), form)
