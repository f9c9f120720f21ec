"""Scores by what is allocated, against kube-scheduler's own tables."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.ranking.profiles.profile import ProfileError
from scorer.ranking.scores.balanced_allocation import BalancedAllocation
from scorer.ranking.scores.least_allocated import LeastAllocated
from scorer.ranking.scores.most_allocated import MostAllocated
from scorer.ranking.scores.requested_to_capacity_ratio import RequestedToCapacityRatio
from tests.rows import each_row
from tests.scorer.fleets import by_name, cases, fleet, machine, raw_scores, request, score_told, scores
from tests.scorer.ranking.kube_scheduler import DEFAULTS, DIFFERENT, read


@each_row(
    ("use", "row"),
    [
        pytest.param(use, row, id=f"{use}: {row['name']}")
        for use in ("least_allocated", "most_allocated")
        for row in cases(f"k8s_{use}")
        if row["name"] not in DIFFERENT
    ],
)
def test_allocated_as_kube_scheduler(use: str, row: dict[str, Any]) -> None:
    """Least and most allocated give the peer's whole numbers on its own table."""
    offline, asked, settings = read(row)
    score = {"use": use, **settings, **DEFAULTS}
    if "status" in row["expected"] or "config_error_field" in row["expected"]:
        with pytest.raises(ProfileError, match="weights"):
            raw_scores(offline, score, asked)
        return
    assert raw_scores(offline, score, asked, credits="none") == row["expected"]["scores"]


@pytest.mark.parametrize(
    ("use", "row", "score"),
    [
        pytest.param(use, row, score, id=row["name"])
        for use, score in (("least_allocated", 25), ("most_allocated", 50))
        for row in cases(f"k8s_{use}")
        if row["name"] in DIFFERENT
    ],
)
def test_weights_that_the_peer_refuses(use: str, row: dict[str, Any], score: int) -> None:
    """101 of cpu and 1 of memory are as much as they are; 0 of cpu leaves memory alone."""
    offline, asked, settings = read(row)
    assert list(raw_scores(offline, {"use": use, **settings, **DEFAULTS}, asked).values()) == [score]


@pytest.mark.parametrize("use", ["least_allocated", "most_allocated", "requested_to_capacity_ratio"])
def test_an_amount_of_0_is_not_the_default(use: str) -> None:
    """As the peer: an explicit 0 counts 0, of the instance asked for as of those placed; none given the default."""

    def of(placed: dict[str, float], **asked: Any) -> float:
        offline = fleet(machine("m", 1, 1000 * 2**20), instances=[{"id": "i", "machine": "m", **placed}])
        return raw_scores(offline, {"use": use, "rounding": True, **DEFAULTS}, request(**asked))["m"]

    zero, default = {"cpu": 0, "memory": 0}, {"cpu": 0.1, "memory": 200 * 2**20}
    assert of({}) == of(default, **default) != of(zero) == of({}, **zero) == of(zero, **default)
    assert of(zero, **zero) != of(zero)


def test_an_instance_that_requests_nothing_counts_the_default() -> None:
    """One container without requests counts 100 m and 200 Mi, on the machine as in the query."""
    offline = fleet(machine("m", 1, 1000 * 2**20), instances=[{"id": "a", "machine": "m"}, {"id": "b", "machine": "m"}])
    plugin = LeastAllocated(default_cpu=0.1, default_memory=200 * 2**20, rounding=True)
    assert scores(plugin, offline, request()) == {"m": 55}


@pytest.mark.parametrize("kind", [LeastAllocated, MostAllocated, RequestedToCapacityRatio, BalancedAllocation])
def test_an_allocation_score_tells_the_shares_it_went_by(kind: Any) -> None:
    """What is allocated with the requested instance, as shares of allocatable; unknown without one."""
    offline = fleet(machine("m", 10, None), instances=[{"id": "i", "machine": "m", "cpu": 2, "memory": 5}])
    told = score_told(offline, {"use": kind.name}, request(cpu=1))["m"]
    assert told["shares"] == {"cpu": pytest.approx(0.3), "memory": None}


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

    def of(use: str, **settings: Any) -> list[float]:
        return list(raw_scores(offline, {"use": use, **settings}, asked).values())

    if row["kind"] == "least_allocated":
        assert of("least_allocated") == pytest.approx(expected["recomputed_exact"])
        assert of("least_allocated", rounding=True) == expected["k8s_integer"]
    else:
        assert of("balanced_allocation") == pytest.approx(expected["recomputed_exact"])
        assert of("balanced_allocation", rounding=True) == expected["k8s_integer_v135"]
        assert of("balanced_allocation", rounding=True, form="v1.36") == expected["k8s_integer_v136"]


@pytest.mark.parametrize(
    "settings",
    [{"weights": {"cpu": -1}}, {"weights": {"gpu": 1}}, {"weights": {}}, {"weights": {"cpu": float("nan")}}],
)
def test_weights_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    """A negative, unknown or missing weight is an error that says so."""
    with pytest.raises(ValueError, match="weights"):
        LeastAllocated(**settings)


@pytest.mark.parametrize(
    ("plugin", "score"), [(LeastAllocated, 60.0), (MostAllocated, 40.0), (RequestedToCapacityRatio, 60.0)]
)
def test_a_resource_without_allocatable_is_left_out(plugin: Any, score: float) -> None:
    """4 of 10 cores; of memory the operators keep back all there is."""
    offline = fleet(machine("m", 10, 100, operator={"reserve": {"memory": 100}}))
    assert scores(plugin(weights={"cpu": 1.0, "memory": 1.0}), offline, request(cpu=4)) == {"m": score}
