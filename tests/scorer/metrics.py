"""Trimaran's metrics, as load-watcher delivers them, in the words of a fleet file."""

from __future__ import annotations

from typing import Any


def mean_and_std(metrics: Any, kind: str) -> tuple[float, float] | None:
    """Return a resource's mean and std in percent, None without any metric of it.

    The last AVG counts, before any the last Latest or unnamed one; a lone STD makes the mean 0.
    """
    if not isinstance(metrics, list):
        return None
    mine = [metric for metric in metrics if metric["type"] == kind]
    if not mine:
        return None
    averages = [m["value_percent"] for m in mine if m["operator"] == "AVG"]
    latest = [m["value_percent"] for m in mine if m["operator"] in ("", "Latest")]
    deviations = [m["value_percent"] for m in mine if m["operator"] == "STD"]
    return (averages or latest or [0])[-1], (deviations or [0])[-1]


def usage(metrics: Any, cpu: float, memory: float) -> dict[str, Any]:
    """Return the usage of a machine with this capacity in cores and bytes."""
    found: dict[str, Any] = {}
    for name, kind, capacity in (("cpu", "CPU", cpu), ("memory", "Memory", memory)):
        if (values := mean_and_std(metrics, kind)) is not None:
            found[name] = {"mean": values[0] * capacity / 100, "std": values[1] * capacity / 100}
    return found
