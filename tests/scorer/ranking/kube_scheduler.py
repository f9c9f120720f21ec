"""The rows of kube-scheduler's tables as requests and fleets of ours, and those that are answered otherwise."""

from __future__ import annotations

from typing import Any

from schemas.resources import ABOUT, RESOURCES
from tests.scorer.fleets import fleet, machine, request

DIFFERENT = {
    "resource weight larger than MaxNodeScore": "a weight has no upper bound: totals are divided by their sum",
    "resource with zero weight": "a weight of 0 leaves the resource out; the peer refuses the setting",
}
"""Rows that Windward deliberately answers otherwise, and why."""

DEFAULTS = {"default_cpu": 0.1, "default_memory": 200 * 2**20}
"""What the peer counts for a container that says nothing, as the built-in profile `kubernetes` has it."""

UNITS = {"cpu": ("cpu_millicores", 1000), "memory": ("memory_bytes", 1)}


def places(row: dict[str, Any]) -> dict[str, str]:
    """Return which resource stands for each that a row weighs: what the peer calls extended takes one to spare."""
    named = [resource["name"] for resource in row["inputs"]["resources"]]
    others = [name for name in named if name not in UNITS]
    spare = [name for name in reversed(RESOURCES) if name not in named and not ABOUT[name].is_share]
    mine = {} if others and not set(named) & UNITS.keys() else {name: name for name in UNITS}
    return mine | dict(zip(others, spare, strict=False))


def amounts(said: dict[str, Any], at: dict[str, str]) -> dict[str, float]:
    """Return the amounts of a container or a machine, as far as it says them."""
    keys = {name: UNITS.get(name, (name, 1)) for name in at}
    return {at[name]: said[key] / unit for name, (key, unit) in keys.items() if said.get(key) is not None}


def newcomer(containers: list[dict[str, Any]], at: dict[str, str]) -> dict[str, float]:
    """Return the request for a pod. An instance asks for one amount: a deployer adds up what its containers ask.

    A pod without any container counts nothing: it asks for 0, which is not the same as not to say.
    """
    parts = [amounts(container, at) for container in containers] or [dict.fromkeys(at.values(), 0.0)]
    return {name: sum(part.get(name, 0.0) for part in parts) for name in {name for part in parts for name in part}}


def read(row: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the fleet of a row, its request, and the settings of a score. A placed container is an instance."""
    inputs, at = row["inputs"], places(row)
    machines = [
        machine(each["name"], None, None, capacity=amounts(each["allocatable"] or {}, at))
        for each in inputs["machines"]
    ]
    instances = [
        {"id": f"{pod_number}-{number}", "machine": pod["machine"], **amounts(container, at)}
        for pod_number, pod in enumerate(inputs["existing"])
        for number, container in enumerate(pod["containers"])
    ]
    settings = {
        "weights": {at[resource["name"]]: resource["weight"] for resource in inputs["resources"]},
        "extended": [place for name, place in at.items() if name not in UNITS],
        "rounding": True,
    }
    return fleet(*machines, instances=instances), request(**newcomer(inputs["incoming"]["containers"], at)), settings
