"""The study's worked examples that span several scores, and its final choice."""

import numpy as np
import pytest

from scorer.planning.thresholds import Pool, Rules, SideDetectors, low_node_load
from scorer.ranking.explain import answer as answer_of
from scorer.ranking.profiles.rebalance_section import Rebalancing
from tests.scorer.fleets import by_name, cases, fleet, machine, ranked, raw_scores, request, told

CASES = "seed_examples"
GIB = 2**30

BY_REQUESTS = {"credits": "none", "stale": "requests"}
TWO_SCORES = {**BY_REQUESTS, "scores": [{"use": "least_allocated"}, {"use": "balanced_allocation"}]}
INTEGERS = {
    **BY_REQUESTS,
    "scores": [
        {"use": "least_allocated", "rounding": True},
        {"use": "balanced_allocation", "rounding": True, "form": "v1.36"},
    ],
}


def three_machines(*more):
    allocated = ((50, 10), (30, 30), (10, 50))
    return fleet(
        *(machine(f"machine{number}", 64, 64 * GIB) for number in (1, 2, 3)),
        instances=[
            {"id": f"i{number}", "machine": f"machine{number}", "cpu": cpu, "memory": memory * GIB}
            for number, (cpu, memory) in enumerate(allocated, 1)
        ]
        + list(more),
    )


FIRST, SECOND = {"cpu": 2, "memory": 10 * GIB}, {"cpu": 5, "memory": 5 * GIB}


@pytest.mark.parametrize("row", cases(CASES, "winner"), ids=by_name)
def test_the_studys_instances_go_where_it_puts_them(row):
    """2C 10G and then 5C 5G both go to the second machine, the second instance seeing the first.

    With the peer's integers and the change of balance (v1.36) the first machine wins: it rewards the unbalanced one.
    """
    second = "second node" in row["name"]
    offline = three_machines(*([{"id": "first", "machine": "machine2", **FIRST}] if second else []))
    profile = INTEGERS if "v1.36" in row["name"] else TWO_SCORES
    found = told(offline, profile, request(**(SECOND if second else FIRST)))
    scored = [[score["raw"] for score in each["scores"].values()] for each in found.values()]
    assert scored == pytest.approx(np.array(row["inputs"]["scores"]))
    assert max(found, key=lambda name: found[name]["score"]) == row["expected"]["winner"]
    # the study adds two scores where the total is their mean
    assert [2 * each["score"] for each in found.values()] == pytest.approx(row["expected"]["totals"])


@pytest.mark.parametrize("row", cases(CASES, "global_variance"), ids=by_name)
def test_least_variance_wins(row):
    """The machine that leaves the least population variance scores best, by the amount the variance says."""
    inputs, expected = row["inputs"], row["expected"]
    offline = fleet(*(machine(f"machine{n}", 64, None, usage={"cpu": v}) for n, v in enumerate(inputs["values"], 1)))
    score = {"use": "global_variance", "weights": {"cpu": 1}}
    found = raw_scores(offline, score, request(cpu=inputs["add"]))
    assert max(found, key=found.__getitem__) == expected["winner"]
    # the score says by how much the variance of shares changes; the rows say what that of cores becomes
    before = np.var(inputs["values"])
    after = [before + (75 - raw) / 25 / len(found) * 64**2 for raw in found.values()]
    assert after == pytest.approx(expected["population_variance"], abs=1e-4)


@pytest.mark.parametrize("row", cases(CASES, "fraction"), ids=by_name)
def test_request_fractions(row):
    (cpu, memory), (all_cpu, all_memory) = row["inputs"]["request"], row["inputs"]["capacity"]
    offline = fleet(machine(cpu=f"{all_cpu}m", memory=f"{all_memory}G", usage={"cpu": 0, "memory": 0}))
    asked = request(cpu=f"{cpu}m", memory=f"{memory}G")
    resources = answer_of(ranked(offline, "seed", asked)).candidates[0].resources
    shares = [resources[name]["request"] / resources[name]["allocatable"] for name in ("cpu", "memory")]
    assert shares == pytest.approx(row["expected"]["fractions"])


@pytest.mark.parametrize("row", cases(CASES, "headroom"), ids=by_name)
def test_what_a_machine_under_its_threshold_takes_from_one_over_it(row):
    """48 instances of one core leave a busy machine: 70 % of 96 cores, less the 20 % in use, are idle elsewhere."""
    inputs, busy = row["inputs"], 199
    on_busy = np.zeros(busy, np.int64)
    capacity = np.array([[200_000.0, inputs["capacity_cores"] * 1000.0], [1.0, 1.0]])
    pool = Pool(
        ("cpu", "memory"), ("busy", "idle"), capacity, np.ones(2, bool),
        np.array([[0.0, inputs["load_percent"] / 100 * capacity[0, 1]], [0.0, 0.0]]),
        tuple(map(str, range(busy))), on_busy, np.array([[1000.0] * busy, [0.0] * busy]),
        on_busy == 1, on_busy == 0, on_busy, on_busy * 1.0,
    )  # fmt: skip
    settings = Rebalancing(rule="thresholds", low={"cpu": 45}, high={"cpu": inputs["high_percent"]})
    rules = Rules(settings, condition=None, moves_max=busy)
    assert len(low_node_load(pool, rules, lambda _, places: places, SideDetectors(), 0.0)) == row["expected"]["cores"]
