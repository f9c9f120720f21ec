"""What a panel shows, asked of Prometheus at one time with the user's choices."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.grafana.asked import interpolate, legend
from tests.grafana.prometheus import Prometheus, Series

Line = tuple[str, list[tuple[float, float]]]


class PanelData:
    """The answers to the queries of a dashboard; ``marks`` are the times of its annotations, with their colours."""

    def __init__(self, prometheus: Prometheus, values: Mapping[str, str], end_s: float, span_s: float) -> None:
        self.values = values
        self.start_s = end_s - span_s
        self.end_s = end_s
        self.step_s = max(5.0, span_s / 240)
        self.marks: list[tuple[float, str]] = []
        self._prometheus = prometheus

    @property
    def grid(self) -> np.ndarray[Any, Any]:
        """The times of the values over time."""
        return np.arange(self.start_s, self.end_s + self.step_s, self.step_s)

    def lines(self, panel: Mapping[str, Any]) -> list[Line]:
        """Return the legend and points of every series."""
        found: list[Line] = []
        for target in panel["targets"]:
            form = interpolate(target["legendFormat"], self.values)
            series = self._at_end(target["expr"]) if target.get("instant") else self._over(target["expr"])
            found += [(legend(form, labels), points) for labels, points in series]
        return found

    def _at_end(self, expression: str) -> list[Series]:
        return self._prometheus.at(interpolate(expression, self.values), self.end_s)

    def _over(self, expression: str) -> list[Series]:
        return self._prometheus.over(interpolate(expression, self.values), self.start_s, self.end_s, self.step_s)

    def rows(self, panel: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
        """Return the columns' names and the rows: the labels all series have, then a value for each query."""
        answers = [self._at_end(target["expr"]) for target in panel["targets"]]
        options = panel["transformations"][-1]["options"]
        names, hidden = options["renameByName"], options["excludeByName"]
        titles = [names.get(f"Value #{target['refId']}", "") for target in panel["targets"]]
        keys = [key for key in answers[0][0][0] if key not in hidden] if answers[0] else []
        found: dict[tuple[str, ...], list[Any]] = {}
        for column, series in enumerate(answers):
            for labels, points in series:
                row = found.setdefault(tuple(labels.get(key, "") for key in keys), [math.nan] * len(answers))
                row[column] = points[-1][1]
        rows = sorted(([*key, *values] for key, values in found.items()), key=lambda row: -row[len(keys)])
        if "Value" in hidden:
            return keys, [row[: len(keys)] for row in rows]
        return [*keys, *titles], rows

    def times(self, annotation: Mapping[str, Any]) -> list[tuple[float, str]]:
        """Return when an annotation stands, each time with its colour."""
        points = [point for _, points in self._over(annotation["expr"]) for point in points]
        if annotation["useValueForTime"]:
            times = {value / 1000 for _, value in points}
        else:
            times = {time_s for time_s, value in points if value > 0}
        return [(time_s, annotation["iconColor"]) for time_s in sorted(times) if time_s >= self.start_s]


def on_grid(points: Sequence[tuple[float, float]], grid: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the values at the times of the grid, NaN where there is none."""
    values = np.full(len(grid), np.nan)
    step_s = grid[1] - grid[0]
    for time_s, value in points:
        place = round((time_s - grid[0]) / step_s)
        if 0 <= place < len(grid) and math.isfinite(value):
            values[place] = value
    return values
