"""Trimaran's metrics, as load-watcher delivers them, in the words of a fleet file."""

from __future__ import annotations

from typing import Any

STATISTICS = {"AVG": "mean", "Latest": "mean", "": "mean", "STD": "std"}
"""The statistic of a window that an operator's figure is."""


def usage(metrics: Any, **capacity: float) -> dict[str, dict[str, float]]:
    """Return the usage of a machine with this capacity by resource; {} without any metric.

    Percent become amounts. Windward's windows have one mean and one std: a list that gives one of them twice cannot be
    told, so which of two wins is no matter of this function.
    """
    found: dict[str, dict[str, float]] = {}
    for metric in metrics if isinstance(metrics, list) else ():
        resource, statistic = metric["type"].lower(), STATISTICS[metric["operator"]]
        if statistic in found.setdefault(resource, {}):
            raise ValueError(f"{resource} has two figures for its {statistic}")
        found[resource][statistic] = metric["value_percent"] * capacity[resource] / 100
    return found
