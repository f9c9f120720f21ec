"""The request-based scores against kube-scheduler's own tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scorer.profile import Sight
from scorer.scores.balanced_allocation import BalancedAllocation, legacy_balance
from scorer.scores.least_allocated import LeastAllocated
from scorer.scores.most_allocated import MostAllocated
from scorer.scores.requested_to_capacity_ratio import RequestedToCapacityRatio, broken_line
from tests.scorer.fleets import by_name, cases, fleet, machine, request, scores, see

WEIGHT_TOO_LARGE = (
    "resource weight larger than MaxNodeScore",
    "a weight has no upper bound: totals are divided by their sum",
)
WEIGHT_ZERO = ("resource with zero weight", "a weight of 0 leaves the resource out; the peer refuses the setting")
DIFFERENT = dict([WEIGHT_TOO_LARGE, WEIGHT_ZERO])
"""Rows that Windward deliberately answers otherwise, and why."""

EXPLICIT_ZERO = 1e-9
"""An amount of 0 means "not said" here; the peer's "0, explicitly" is written as next to nothing."""


def read(row: dict[str, Any], non_zero: bool) -> tuple[Any, Any, dict[str, float], tuple[str, ...]]:
    """Return the fleet, the request, the weights and the extended resources of a row.

    An instance is one container here, so the sums over a pod's containers, defaults included, are taken while reading.
    """
    inputs = row["inputs"]
    names = {"cpu": ("cpu_millicores", 1e-3, 0.1), "memory": ("memory_bytes", 1.0, 200 * 2**20)}
    others = [resource["name"] for resource in inputs["resources"] if resource["name"] not in names]
    spare = [name for name in ("nic", "memory", "cpu") if name not in {r["name"] for r in inputs["resources"]}]
    places = {"cpu": "cpu", "memory": "memory"} | dict(zip(others, spare, strict=False))
    weights = {places[resource["name"]]: float(resource["weight"]) for resource in inputs["resources"]}

    def amounts(containers: list[dict[str, Any]]) -> dict[str, float]:
        total: dict[str, float] = {}
        for name, place in places.items():
            key, unit, default = names.get(name, (name, 1.0, 0.0))
            if name in names and name not in weights and others:
                continue
            said = [container.get(key) for container in containers]
            parts = [(default if non_zero and value is None else (value or 0) * unit) for value in said]
            zero_said = bool(said) and all(value == 0 for value in said)
            total[place] = EXPLICIT_ZERO if zero_said and name in names else sum(parts)
        return total

    machines = [
        machine(m["name"], None, None, capacity=amounts([m["allocatable"]]) if m["allocatable"] else {})
        for m in inputs["machines"]
    ]
    instances = [
        {"id": f"i{number}", "machine": pod["machine"], **amounts(pod["containers"])}
        for number, pod in enumerate(inputs["existing"])
        if pod["containers"]
    ]
    return (
        fleet(*machines, instances=instances),
        request(**amounts(inputs["incoming"]["containers"])),
        weights,
        tuple(places[name] for name in others),
    )


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        pytest.param(kind, row, id=f"{kind.name}: {row['name']}")
        for kind, table in ((LeastAllocated, "k8s_least_allocated"), (MostAllocated, "k8s_most_allocated"))
        for row in cases(table)
        if row["name"] not in DIFFERENT
    ],
)
def test_allocated_as_kube_scheduler(kind: type, row: dict[str, Any]) -> None:
    """Least and most allocated give the peer's whole numbers on its own table."""
    if row["expected"].get("status") == "Error":
        with pytest.raises(ValueError, match="weights"):
            kind(weights={})
        return
    offline, asked, weights, extended = read(row, non_zero=True)
    if "config_error_field" in row["expected"]:
        with pytest.raises(ValueError, match="weights"):
            kind(weights=weights, extended=extended)
        return
    plugin = kind(weights=weights, extended=extended, rounding=True)
    assert scores(plugin, offline, asked, Sight(credits="none")) == row["expected"]["scores"]


def test_an_instance_that_requests_nothing_counts_the_default() -> None:
    """One container without requests counts 100 m and 200 Mi, on the machine as in the query."""
    offline = fleet(machine("m", 1, 1000 * 2**20), instances=[{"id": "a", "machine": "m"}, {"id": "b", "machine": "m"}])
    plugin = LeastAllocated(default_cpu=0.1, default_memory=200 * 2**20, rounding=True)
    assert scores(plugin, offline, request()) == {"m": 55}


@pytest.mark.parametrize("row", cases("k8s_requested_to_capacity_ratio", "score"), ids=by_name)
def test_requested_to_capacity_ratio_as_kube_scheduler(row: dict[str, Any]) -> None:
    """The ratio with a shape gives the peer's whole numbers on its own table."""
    offline, asked, weights, extended = read(row, non_zero=True)
    shape = tuple((float(p["utilization_percent"]), float(p["score_0_10"])) for p in row["inputs"]["shape"])
    plugin = RequestedToCapacityRatio(weights=weights, extended=extended, shape=shape, rounding=True)
    assert scores(plugin, offline, asked) == row["expected"]["scores"]


@pytest.mark.parametrize(
    ("name", "allocatable", "expected"),
    [
        ("a resource without allocatable is left out", {"cpu": 0, "memory": 1000}, 30),
        ("so is one whose allocatable nobody knows", {"memory": 1000}, 30),
        ("without any the score is 0", {"cpu": 0, "memory": 0}, 0),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_ratio_of_a_resource_that_is_not_there(name: str, allocatable: dict[str, float], expected: int) -> None:
    """What a machine does not have counts neither as empty nor as full."""
    offline = fleet(machine("m", None, None, capacity=allocatable))
    plugin = RequestedToCapacityRatio(shape=((0, 0), (100, 10)), rounding=True)
    assert scores(plugin, offline, request(cpu=1, memory=300)) == {"m": expected}


@pytest.mark.parametrize("row", cases("k8s_requested_to_capacity_ratio", "broken_linear"), ids=by_name)
def test_broken_line_truncates_as_the_peer(row: dict[str, Any]) -> None:
    """The line between two points truncates toward zero, on rising and falling slopes."""
    points = [(point["utilization"], point["score"]) for point in row["inputs"]["points"]]
    value = broken_line(points, np.array([float(row["inputs"]["p"])]), rounding=True)
    assert value.tolist() == [row["expected"]["value"]]


@pytest.mark.parametrize("row", cases("k8s_balanced_allocation"), ids=by_name)
def test_balanced_allocation_as_kube_scheduler(row: dict[str, Any]) -> None:
    """Balance after the placement (to v1.35) and its change (v1.36) give the peer's whole numbers."""
    offline, asked, weights, extended = read(row, non_zero=False)
    form = {"std_after": "v1.22", "delta": "v1.36"}[row["inputs"]["variant"]]
    plugin = BalancedAllocation(weights=weights, extended=extended, form=form, rounding=True)
    machines = see(offline, asked)
    assert plugin.wanted(asked, machines) == (row["expected"].get("status") != "Skip")
    if "scores" in row["expected"]:
        assert scores(plugin, offline, asked) == row["expected"]["scores"]


@pytest.mark.parametrize("kind", [LeastAllocated, MostAllocated, RequestedToCapacityRatio, BalancedAllocation])
def test_an_allocation_score_tells_the_shares_it_went_by(kind: Any) -> None:
    """What is allocated with the newcomer, as shares of allocatable; unknown without one."""
    offline = fleet(machine("m", 10, None), instances=[{"id": "i", "machine": "m", "cpu": 2, "memory": 5}])
    asked = request(cpu=1)
    assert kind().detail(asked, see(offline, asked), 0) == {"shares": {"cpu": pytest.approx(0.3), "memory": None}}


def test_the_balance_of_two_is_half_their_distance_to_the_last_bit() -> None:
    """Of 8 and 1 of 10 the peer's floats make 64.99..., which truncates to 64, and so do ours."""
    offline = fleet(
        machine("m", "10m", 10), machine("other", "10m", 10), instances=[{"id": "i", "machine": "m", "memory": 1}]
    )
    found = scores(BalancedAllocation(rounding=True), offline, request(cpu="8m"))
    assert found == {"m": 64, "other": 60}


@pytest.mark.parametrize(
    "row", cases("seed_examples", "balanced_legacy") + cases("seed_examples", "balanced_legacy_volumes"), ids=by_name
)
def test_balance_as_up_to_v1_21(row: dict[str, Any]) -> None:
    """The old form takes the distance of two shares, the variance of three, and 0 when one is full."""
    fractions = np.array([[share] for share in row["inputs"]["fractions"]])
    assert int(legacy_balance(fractions)[0] + 1e-9) == row["expected"]["score"]
    names = ("cpu", "memory", "nic")[: len(fractions)]
    full = machine("m", None, None, capacity=dict.fromkeys(names, 10000.0))
    offline = fleet(
        full, instances=[{"id": "a", "machine": "m", **dict(zip(names, (1e4 * fractions)[:, 0].tolist(), strict=True))}]
    )
    plugin = BalancedAllocation(form="v1.21", weights=dict.fromkeys(names, 1.0), extended=(), rounding=True)
    assert scores(plugin, offline)["m"] == row["expected"]["score"]


def seed_machines(inputs: dict[str, Any]) -> Any:
    """Return the study's machines, what is allocated being instances of the ledger."""
    return fleet(
        *(
            machine(m["name"], m["capacity"]["cpu_millicores"] / 1000, m["capacity"]["memory_bytes"])
            for m in inputs["machines"]
        ),
        instances=[
            {
                "id": m["name"],
                "machine": m["name"],
                "cpu": m["requested"]["cpu_millicores"] / 1000,
                "memory": m["requested"]["memory_bytes"],
            }
            for m in inputs["machines"]
        ],
    )


@pytest.mark.parametrize(
    "row", cases("seed_examples", "least_allocated") + cases("seed_examples", "balanced"), ids=by_name
)
def test_the_studys_worked_examples(row: dict[str, Any]) -> None:
    """The study's 3 machines by 2 instances come out as recomputed, in real numbers and in the peer's integers."""
    inputs, expected = row["inputs"], row["expected"]
    asked = request(cpu=inputs["request"]["cpu_millicores"] / 1000, memory=inputs["request"]["memory_bytes"])
    offline = seed_machines(inputs)

    def of(plugin: Any) -> list[float]:
        return list(scores(plugin, offline, asked).values())

    if row["kind"] == "least_allocated":
        assert of(LeastAllocated()) == pytest.approx(expected["recomputed_exact"])
        assert of(LeastAllocated(rounding=True)) == expected["k8s_integer"]
    else:
        assert of(BalancedAllocation()) == pytest.approx(expected["recomputed_exact"])
        assert of(BalancedAllocation(rounding=True)) == expected["k8s_integer_v135"]
        assert of(BalancedAllocation(form="v1.36", rounding=True)) == expected["k8s_integer_v136"]


@pytest.mark.parametrize(
    "settings",
    [{"weights": {"cpu": -1}}, {"weights": {"disk": 1}}, {"weights": {}}, {"weights": {"cpu": float("nan")}}],
)
def test_weights_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    """A negative, unknown or missing weight is an error that says so."""
    with pytest.raises(ValueError, match="weights"):
        LeastAllocated(**settings)


@pytest.mark.parametrize("shape", [(), ((50, 1), (20, 2)), ((0, 11),), ((0, 1), (101, 2))])
def test_a_shape_out_of_range_is_refused(shape: Any) -> None:
    """A shape must rise in utilization and stay within its ranges."""
    with pytest.raises(ValueError, match="shape"):
        RequestedToCapacityRatio(shape=shape)
