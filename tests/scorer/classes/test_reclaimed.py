"""Koordinator's batch and mid resources from a fleet file, through the filter, to the limit that the ledger upholds.

Every row of its batch table, and fleets that no row has. These are judged by the peer's rules written again here in
whole numbers, as its code has them: millicores and bytes, floats only where it multiplies by a share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import RESOURCES
from scorer.classes.strategy import Reclaim
from scorer.ledger.record.limits import mosts_in_script
from scorer.ledger.record.units import UNITS
from scorer.ranking.filters.fits import Fits
from tests.rows import each_row
from tests.scorer.classes.test_capacity import NAMES, POLICIES, TABLES, column, shares
from tests.scorer.fleets import alone, fleet, request, see

RUNS = ("Running", "Pending")
WHOLE = {"cpu": 1000, "memory": 1}
Amounts = Mapping[str, int]


def amounts(said: Mapping[str, float] | None) -> dict[str, float]:
    """A row's amounts in cores and bytes, by resource."""
    return {NAMES[name][0]: value / NAMES[name][1] for name, value in (said or {}).items()}


def class_of(said: str | None) -> str:
    """A row's class; what has none is prod's, as the peer has it."""
    return (said or "prod").removeprefix("koord-")


def limits(plugin: Fits, offline: Any, of: str) -> dict[str, int]:
    """The limits of a class on the one machine in the peer's units, as the script compares them."""
    asked = request(cpu=1, memory=1, priority_class=of)
    machines = see(offline, asked, profile=alone(plugin, kind="filter"))
    found = [limit._replace(most=float(limit.most[0])) for limit in plugin.limit(asked, machines)]  # type: ignore[index]
    mosts = mosts_in_script(found, [(UNITS[limit.measure[1]], 0.5) for limit in found])
    named = {limit.measure[1]: most for limit, most in zip(found, mosts, strict=True)}
    assert named["cpu"] % 1000 == 0, "a part of a millicore"
    return {"cpu": named["cpu"] // 1000, "memory": named["memory"]}


# ---- the rows


def as_fleet(row: Any) -> tuple[Fits, Any]:
    """A row as a profile's filter and a fleet: what is measured and not listed has ended."""
    inputs, strategy, metric = row["inputs"], row["inputs"]["strategy"], row["inputs"]["metric"]
    fits = Fits(
        classes=Reclaim(
            share=shares(strategy, "cpu_reclaim_threshold_percent", "memory_reclaim_threshold_percent"),
            policy={name: POLICIES[strategy[f"{name}_calculate_policy"]] for name in ("cpu", "memory")},  # type: ignore[misc]
            batch_share=shares(strategy, "batch_cpu_threshold_percent", "batch_memory_threshold_percent"),
        )
    )
    usages = {pod["name"]: pod for pod in metric["pods"]}
    listed = {pod["name"]: pod for pod in inputs["pods"]}
    instances = [
        {"id": pod["name"], "machine": "m", "priority_class": class_of(pod["priority_class"]),
         "labels": {"keeps": "cpu"} if pod["qos"] == "LSE" else {},
         **amounts(pod["request"]),
         **({"usage": amounts(usages[pod["name"]]["usage"])} if pod["name"] in usages else {})}
        for pod in inputs["pods"] if pod["phase"] in RUNS
    ]  # fmt: skip
    running = {pod["id"] for pod in instances}
    leavers = [
        {"id": name, "machine": "m", "usage": amounts(pod["usage"]),
         "priority_class": class_of(pod["priority_class"] or listed.get(name, {}).get("priority_class"))}
        for name, pod in usages.items() if name not in running
    ]  # fmt: skip
    system = column(metric["system_usage"])
    for each in metric["host_applications"]:
        system += column(each["usage"]) * (each["priority_class"] != "koord-batch")
    capacity = amounts(inputs["machine"]["capacity"])
    annotated = column(inputs["machine"]["annotation_reserved"])
    reserved = np.maximum(column(inputs["machine"]["capacity"]) - column(inputs["machine"]["allocatable"]), annotated)
    reserve = {name: float(reserved[RESOURCES.index(name), 0]) for name in capacity}
    beside = {name: float(system[RESOURCES.index(name), 0]) for name in capacity}
    used = amounts(metric["node_usage"]) or beside
    there = {"name": "m", "capacity": capacity, "usage": used, "system": beside, "operator": {"reserve": reserve}}
    return fits, fleet(there, instances=instances, leavers=leavers)


@each_row("row", [pytest.param(one, id=one["name"]) for one in TABLES["koordinator_batch_resource"]["cases"]])
def test_a_fleet_gives_batch_what_the_peer_gives(row: Any) -> None:
    """Every row, to the millicore and the byte; the service class LSE is the label ``keeps=cpu``."""
    found = limits(*as_fleet(row), "batch")
    assert found == {"cpu": row["expected"]["batch_cpu_millicores"], "memory": row["expected"]["batch_memory_bytes"]}


# ---- fleets that no row has

PERCENT = st.integers(0, 100)
RESOURCE = st.fixed_dictionaries({"cpu": st.integers(0, 300_000), "memory": st.integers(0, 1 << 40)})
POD = st.fixed_dictionaries(
    {
        "of": st.sampled_from(["prod", "mid", "batch", "free"]),
        "asks": RESOURCE,
        "uses": RESOURCE | st.none(),
        "lse": st.booleans(),
    }
)
GONE = st.fixed_dictionaries({"of": st.sampled_from(["prod", "batch"]), "uses": RESOURCE})
MACHINE = st.fixed_dictionaries({
    "capacity": RESOURCE, "reserved": RESOURCE, "system": RESOURCE, "usage": RESOURCE, "peak": RESOURCE,
    "pods": st.lists(POD, max_size=5), "gone": st.lists(GONE, max_size=2),
})  # fmt: skip
STRATEGY = st.fixed_dictionaries({
    "reclaim": PERCENT, "batch": PERCENT | st.none(), "mid": PERCENT, "unallocated": PERCENT,
    "margin": st.integers(0, 60), "static": PERCENT | st.none(), "policy": st.sampled_from(sorted(POLICIES.values())),
    "age_s": st.integers(0, 1200), "degrade_minutes": st.integers(1, 20),
})  # fmt: skip


def batch_by_the_peer(machine: Any, strategy: Any, name: str) -> int:
    """What the peer's controller writes as the batch resource, in millicores or bytes."""
    capacity, reserved = machine["capacity"][name], machine["reserved"][name]
    margin = int(float(capacity) * (float(100 - strategy["reclaim"]) / 100))
    asked = used = larger = 0
    for pod in machine["pods"]:
        if pod["of"] in ("prod", "mid"):
            asks, uses = pod["asks"][name], (pod["uses"] or {}).get(name)
            asked += asks
            used += asks if uses is None or (pod["lse"] and name == "cpu") else uses
            larger += asks if uses is None else max(asks, uses)  # its figures by NUMA zone; those by node leave it out
    dangling = sum(pod["uses"][name] for pod in machine["gone"] if pod["of"] == "prod")
    # an instance that ended is the system's here: of that, or of what is reserved, the larger counts
    busy = max(machine["system"][name] + dangling, reserved)
    taken = {"usage": busy + used, "request": reserved + asked, "max-usage-request": busy + larger}
    found = capacity - margin - taken[strategy["policy"]]
    most = [] if strategy["batch"] is None else [int(float(capacity) * (float(strategy["batch"]) / 100))]
    return min([max(found, 0), *most])


def mid_by_the_peer(machine: Any, strategy: Any, name: str) -> int:
    """What it writes as the mid resource; the peak of prod is the day's, without what lower classes use."""
    capacity, reserved = machine["capacity"][name], machine["reserved"][name]
    most = int(float(capacity) * (float(strategy["mid"]) / 100))
    if strategy["static"] is not None:
        return min(int(float(capacity) * (float(strategy["static"]) / 100)), most)
    prod = sum(pod["asks"][name] for pod in machine["pods"] if pod["of"] == "prod")
    lower = sum((pod["uses"] or {}).get(name, 0) for pod in machine["pods"] if pod["of"] != "prod")
    peak = max(max(machine["peak"][name], machine["usage"][name]) - lower, 0)
    busy = int(float(peak) * (float(100 + strategy["margin"]) / 100))
    spare = max(min(prod, max(capacity - reserved, 0)) - busy, 0)
    dangling = sum(pod["uses"][name] for pod in machine["gone"] if pod["of"] == "prod")
    unallocated = max(capacity - max(machine["system"][name] + dangling, reserved) - prod, 0)
    found = max(min(spare, capacity - machine["usage"][name]), 0)
    return min(found + int(float(unallocated) * (float(strategy["unallocated"]) / 100)), most)


def said(figures: Amounts) -> dict[str, float]:
    return {name: figures[name] / WHOLE[name] for name in WHOLE}


@given(MACHINE, STRATEGY)
def test_any_fleet_gives_what_the_peer_gives(machine: Any, strategy: Any) -> None:
    """Batch and mid to the millicore and the byte, for any sizes, percentages, policies and ages."""
    both = dict.fromkeys(WHOLE)

    def share(name: str) -> dict[str, float]:
        return {} if strategy[name] is None else dict.fromkeys(both, strategy[name] / 100)

    fits = Fits(
        classes=Reclaim(
            share=share("reclaim"), policy=dict.fromkeys(both, strategy["policy"]), batch_share=share("batch"),
            mid_share=share("mid"), mid_static=share("static"), mid_unallocated=strategy["unallocated"] / 100,
            peak_margin=strategy["margin"] / 100, degrade_s=strategy["degrade_minutes"] * 60,
        )
    )  # fmt: skip
    there = {
        "name": "m", "capacity": said(machine["capacity"]), "usage": said(machine["usage"]),
        "system": said(machine["system"]), "peak_today": said(machine["peak"]), "age_s": strategy["age_s"],
        "operator": {"reserve": said(machine["reserved"])},
    }  # fmt: skip
    instances = [
        {"id": f"p{k}", "machine": "m", "priority_class": pod["of"], **said(pod["asks"]),
         **({"labels": {"keeps": "cpu"}} if pod["lse"] else {}),
         **({"usage": said(pod["uses"])} if pod["uses"] else {})}
        for k, pod in enumerate(machine["pods"])
    ]  # fmt: skip
    leavers = [
        {
            "id": f"g{k}",
            "machine": "m",
            "priority_class": pod["of"],
            "usage": said(pod["uses"]),
            "ended_ago_s": strategy["age_s"],
        }
        for k, pod in enumerate(machine["gone"])
    ]
    offline = fleet(there, instances=instances, leavers=leavers)
    old = strategy["age_s"] > strategy["degrade_minutes"] * 60
    for of, by_the_peer in (("batch", batch_by_the_peer), ("mid", mid_by_the_peer)):
        expected = {name: 0 if old else by_the_peer(machine, strategy, name) for name in WHOLE}
        assert limits(fits, offline, of) == expected, of
