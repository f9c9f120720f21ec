"""Koordinator's batch and mid resources, row by row, and fleets that no row has.

Rows of mid are columns, by names and units alone. Rows of batch go from a fleet file, through the filter, to the limit
that the ledger upholds. Other fleets are judged by the peer's rules written again here in whole numbers, as its code
has them: millicores and bytes, floats only where it multiplies by a share.

Not covered: values of NUMA zones, which two rows check, too (they are not transcribed; machines have no zones here);
prediction by pod (a histogram is kept of each machine's prod, none of each instance).
"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.classes.reclaimed import batch, cut, degraded, mid, part_of, unused
from scorer.classes.strategy import Reclaim, sums_by_class, uses_from
from scorer.ledger.record.instance import UNITS
from scorer.ledger.record.limits import mosts_in_script
from scorer.ranking.filters.fits import Fits
from tests.scorer.fleets import alone, fleet, request, see

TABLES = {
    name: json.loads((Path(__file__).parent / "cases" / f"{name}.json").read_text())
    for name in ("koordinator_batch_resource", "koordinator_mid_resource")
}
NAMES = {"cpu_millicores": ("cpu", 1000.0), "memory_bytes": ("memory", 1.0)}
POLICIES = {"usage": "usage", "request": "request", "maxUsageRequest": "max-usage-request"}


def uses_of(*given):
    """What batch and mid go by, of these instances."""
    return uses_from(sums_by_class(*given))


def rows(table, kind=None):
    return [pytest.param(one, id=one["name"]) for one in TABLES[table]["cases"] if kind is None or one["kind"] == kind]


def column(said, absent=0.0):
    found = np.full((len(RESOURCES), 1), absent)
    for name, value in (said or {}).items():
        resource, unit = NAMES[name]
        found[RESOURCES.index(resource)] = value / unit
    return found


def shares(strategy, cpu, memory):
    given = {"cpu": strategy.get(cpu), "memory": strategy.get(memory)}
    return {name: percent / 100 for name, percent in given.items() if percent is not None}


def in_units(values):
    return {name: round(values[RESOURCES.index(resource), 0] * unit, 6) for name, (resource, unit) in NAMES.items()}


def code(priority_class):
    return PRIORITY_CLASSES.index((priority_class or "koord-prod").removeprefix("koord-"))


@pytest.mark.parametrize("row", rows("koordinator_mid_resource", "mid"))
def test_mid_gets_what_the_peer_gives(row):
    """Every row is exact; one whose metric has expired gives nothing."""
    inputs, strategy = row["inputs"], row["inputs"]["strategy"]
    static = {name: percent / 100 for name, percent in strategy.get("mid_static_percent", {}).items()}
    reclaim = Reclaim(
        mid_share=shares(strategy, "mid_cpu_threshold_percent", "mid_memory_threshold_percent"),
        mid_static=static,
        mid_unallocated=strategy.get("mid_unallocated_percent", 0) / 100,
        degrade_s=strategy["degrade_time_minutes"] * 60,
    )
    too_old = bool(degraded(reclaim, np.array([inputs["metric_age_s"]]))[0])
    assert too_old == (row["expected"] is None)
    if too_old:
        return
    capacity, requested = column(inputs["machine"]["capacity"]), column(inputs["prod_requested"])
    reserved = capacity - column(inputs["machine"]["allocatable"])
    host = inputs["host_application"]
    system = column(host["usage"] if host and code(host["priority_class"]) < PRIORITY_CLASSES.index("mid") else None)
    usage = column(inputs["node_usage"], 0.0 if inputs["node_usage"] else np.nan)
    uses = uses_of(np.array([0]), 1, np.array([0]), requested, np.full_like(requested, np.nan))
    spare = column(inputs["prod_reclaimable"])
    assert in_units(mid(reclaim, capacity, reserved, system, usage, uses, spare)) == {
        name: row["expected"][f"mid_{name}"] for name in NAMES
    }
    if "unallocated" in row["expected"]:
        unallocated = Reclaim(mid_unallocated=1.0)
        found = mid(unallocated, capacity, reserved, system, usage, uses, np.zeros_like(capacity))
        assert in_units(found) == row["expected"]["unallocated"]


@pytest.mark.parametrize("row", rows("koordinator_mid_resource", "unused"))
def test_what_prod_does_not_use_is_what_the_peer_predicts(row):
    inputs = row["inputs"]
    found = unused(
        column(inputs["prod_requested"]),
        column(inputs["prod_peak"]),
        column(inputs["system_peak"]),
        column(inputs["allocatable"]),
        inputs["safety_margin_percent"] / 100,
    )
    assert in_units(found) == row["expected"]["prod_reclaimable"]


@pytest.mark.parametrize("row", rows("koordinator_mid_resource", "degrade"))
def test_old_data_gives_nothing(row):
    age_s = row["inputs"]["metric_age_s"]
    reclaim = Reclaim(degrade_s=row["inputs"]["degrade_time_minutes"] * 60)
    assert degraded(reclaim, np.array([np.inf if age_s is None else age_s]))[0] == row["expected"]["degrade"]


def test_every_row_has_a_test():
    kinds = [one["kind"] for one in TABLES["koordinator_mid_resource"]["cases"]]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"mid": 11, "unused": 2, "degrade": 6}
    assert len(TABLES["koordinator_batch_resource"]["cases"]) == 20


def test_what_is_not_known_gives_nothing():
    """Of a machine without capacity or usage nothing is reclaimed; nor of a resource that is not sold by class."""
    nothing = uses_of(
        np.zeros(0, np.int64), 2, np.zeros(0), np.zeros((len(RESOURCES), 0)), np.zeros((len(RESOURCES), 0))
    )
    capacity = np.full((len(RESOURCES), 2), 10.0)
    capacity[0, 0] = np.nan
    system = np.full_like(capacity, 1.0)
    system[:, 1] = np.nan
    zero = np.zeros_like(capacity)
    found = batch(Reclaim(), capacity, zero, system, nothing)
    assert found[:, 1].tolist() == [0.0] * len(RESOURCES)
    assert found[0, 0] == 0.0
    assert found[1, 0] == 10 - 3 - 1
    assert not found[2:].any()
    assert not mid(Reclaim(), capacity, zero, system, system, nothing, capacity)[:, 1].any()


@pytest.mark.parametrize(
    ("capacity", "share", "expected"),
    [
        (120e9, 0.2, 24e9),
        (100e9, 0.29, 28999999999.0),
        (100e9, 0.57, 56999999999.0),
        (0.4, 0.5, 0.0),
        (np.nan, 0.5, np.nan),
    ],
)
def test_shares_are_multiplied_as_the_peer_does(capacity, share, expected):
    """Of whole units, by a hundredth of a percentage, and cut: 29 % of 100 GB is a byte less than 29 GB there."""
    found = part_of(np.full((len(RESOURCES), 1), capacity), share)[RESOURCES.index("memory"), 0]
    np.testing.assert_equal(found, expected)


def test_amounts_are_cut_to_whole_units():
    """Toward 0, to the millicore and the byte; one that is a whole unit but for rounding is that unit."""
    amounts = np.zeros((len(RESOURCES), 2))
    amounts[:2] = [[4.0009, 0.1 + 0.2], [24e9 + 0.4, 0.0]]
    assert cut(amounts)[:2].tolist() == [[4.0, 0.3], [24e9, 0.0]]


RUNS = ("Running", "Pending")
WHOLE = {"cpu": 1000, "memory": 1}


def amounts(said):
    return {NAMES[name][0]: value / NAMES[name][1] for name, value in (said or {}).items()}


def class_of(said):
    return (said or "prod").removeprefix("koord-")


def limits(plugin, offline, of):
    """The limits of a class on the one machine in the peer's units, as the script compares them."""
    asked = request(cpu=1, memory=1, priority_class=of)
    machines = see(offline, asked, profile=alone(plugin, kind="filter"))
    found = [limit._replace(most=float(limit.most[0])) for limit in plugin.limit(asked, machines)]
    mosts = mosts_in_script(found, [(UNITS[limit.measure[1]], 0.5) for limit in found])
    named = {limit.measure[1]: most for limit, most in zip(found, mosts, strict=True)}
    assert named["cpu"] % 1000 == 0, "a part of a millicore"
    return {"cpu": named["cpu"] // 1000, "memory": named["memory"]}


# ---- the rows


def as_fleet(row):
    """A row as a profile's filter and a fleet: what is measured and not listed has ended."""
    inputs, strategy, metric = row["inputs"], row["inputs"]["strategy"], row["inputs"]["metric"]
    fits = Fits(
        classes=Reclaim(
            share=shares(strategy, "cpu_reclaim_threshold_percent", "memory_reclaim_threshold_percent"),
            policy={name: POLICIES[strategy[f"{name}_calculate_policy"]] for name in ("cpu", "memory")},
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


@pytest.mark.parametrize(
    "row", [pytest.param(one, id=one["name"]) for one in TABLES["koordinator_batch_resource"]["cases"]]
)
def test_a_fleet_gives_batch_what_the_peer_gives(row):
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


def batch_by_the_peer(machine, strategy, name):
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


def mid_by_the_peer(machine, strategy, name):
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


def said(figures):
    return {name: figures[name] / WHOLE[name] for name in WHOLE}


@given(MACHINE, STRATEGY)
def test_any_fleet_gives_what_the_peer_gives(machine, strategy):
    """Batch and mid to the millicore and the byte, for any sizes, percentages, policies and ages."""
    both = dict.fromkeys(WHOLE)

    def share(name):
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
