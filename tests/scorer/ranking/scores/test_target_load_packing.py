"""The scores `target_load_packing` and `peaks` against Trimaran's own tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ranking.kernel.layout import LEAST_BEST_WHOLE
from scorer.ranking.scores.peaks import Peaks
from scorer.ranking.scores.target_load_packing import TargetLoadPacking
from tests.scorer.fleets import (
    by_name,
    cases,
    compared,
    fleet,
    machine,
    raw_scores,
    request,
    score_told,
    scores,
    trimaran_usage,
)

METRICS = "a window has one mean: which of a list of metrics wins, or counts at all, is not asked here"


PACKING = "trimaran_target_load_packing"


NOT_COVERED = {
    "derived: the LAST AVG or Latest CPU metric wins": METRICS,
    "derived: empty operator is not accepted": METRICS,
}
"""Rows that Windward cannot be asked, and why."""


def pod(containers, overhead):
    """Return a pod of one container, or of none, as an instance; what has no container is expected to use nothing."""
    assert overhead == 0
    if not containers:
        return {"expected": {"cpu": 0}}
    (container,) = containers
    amounts = {}
    if "limit_cpu_millicores" in container:
        amounts["limits"] = {"cpu": container["limit_cpu_millicores"] / 1000}
    if "request_cpu_millicores" in container:
        amounts["cpu"] = container["request_cpu_millicores"] / 1000
    return amounts


@pytest.mark.parametrize("row", [row for row in cases(PACKING, "score") if row["name"] not in NOT_COVERED], ids=by_name)
def test_target_load_packing_as_trimaran(row):
    inputs, parameters = row["inputs"], row["inputs"]["params"]
    capacity = inputs["machine"]["capacity"]
    cpu, memory = capacity["cpu_millicores"] / 1000, capacity["memory_bytes"]
    end = inputs["window_end_unix_s"]
    offline = fleet(
        machine(cpu=cpu, memory=memory, usage=trimaran_usage(inputs["metrics"], cpu=cpu, memory=memory)),
        now=float(end),
        instances=[
            {"id": f"i{number}", "machine": "m", "placed_ago_s": end - bound["bound_at_unix_s"],
             **pod(bound["containers"], bound["overhead_cpu_millicores"])}
            for number, bound in enumerate(inputs["recently_bound"])
        ],
    )  # fmt: skip
    estimate = {
        "base": "limit-first",
        "factor": {"cpu": parameters["default_requests_multiplier"]},
        "default": {"cpu": parameters["default_requests_millicores"] / 1000},
        "round_to": {"cpu": 0.001},
    }
    target = parameters["target_utilization_percent"] / 100
    score = {"use": "target_load_packing", "target": target, "limit": "capacity", "rounding": True}
    asked = request(**pod(inputs["containers"], inputs["overhead_cpu_millicores"]))
    found = raw_scores(offline, score, asked, credits="trimaran-60s", estimate=estimate)
    assert found == {"m": row["expected"]["score"]}


@pytest.mark.parametrize("row", cases("seed_examples", "tlp"), ids=by_name)
def test_the_studys_target_load_example(row):
    inputs = row["inputs"]
    capacity = inputs["capacity_millicores"] / 1000
    offline = fleet(machine(cpu=capacity, usage={"cpu": inputs["used_percent"] * capacity / 100}))
    target = {"use": "target_load_packing", "target": inputs["target_percent"] / 100}
    asked = request(cpu=inputs["pod_millicores"] / 1000)
    assert raw_scores(offline, target, asked)["m"] == pytest.approx(row["expected"]["score"])


@settings(deadline=None)
@given(target=st.floats(1, 99), utilization=st.floats(0, 150))
def test_packing_rises_to_the_target_and_then_breaks(target, utilization):
    offline = fleet(machine("any", 100, usage={"cpu": utilization}), machine("at", 100, usage={"cpu": target - 1e-9}))
    found = scores(TargetLoadPacking(target=target / 100), offline)
    assert 0 <= found["any"] <= 100
    assert found["at"] == pytest.approx(100, abs=1e-4)
    if utilization > 100:
        assert found["any"] == 0


def test_a_half_stays_a_half_whatever_the_unit():
    """25 % of 52733 m score 77.5 at a target of 40 %, and so 78, though a quarter of 52.733 cores is no exact float."""
    offline = fleet(machine(cpu="52733m", usage={"cpu": 13.18325}))
    assert scores(TargetLoadPacking(rounding=True), offline) == {"m": 78}


def test_any_resource_may_be_the_target():
    offline = fleet(machine("half", usage={"cpu": 9, "memory": 50}), machine("empty", usage={"cpu": 0, "memory": 0}))
    found = scores(TargetLoadPacking(target=0.5, resource="memory"), offline)
    assert found == {"half": pytest.approx(100), "empty": pytest.approx(50)}


@pytest.mark.parametrize("row", cases("trimaran_peaks", "score"), ids=by_name)
def test_power_increase_as_trimaran(row):
    """The increase of power equals the peer's whole number, up to the last bits of exp."""
    inputs = row["inputs"]
    capacity = inputs["machine"]["capacity"]
    cpu, memory = capacity["cpu_millicores"] / 1000, capacity["memory_bytes"]
    (model,) = inputs["power_models"].values()
    load = trimaran_usage(inputs["metrics"], cpu=cpu, memory=memory)
    offline = fleet(machine(cpu=cpu, memory=memory, usage=load, operator={"power": model}))
    asked = request(cpu=inputs["request_cpu_millicores"] / 1000)
    found = score_told(offline, {"use": "peaks", "peer": True}, asked, credits="none")["m"]["power_increase"]
    assert found == pytest.approx(row["expected"]["score"], rel=1e-12)


@pytest.mark.parametrize("row", cases("trimaran_peaks", "normalize"), ids=by_name)
def test_power_increases_are_spread_as_trimaran(row):
    raw = np.array(row["inputs"]["scores"], np.float64)
    assert compared(raw, LEAST_BEST_WHOLE).tolist() == row["expected"]["scores"]


def test_a_machine_without_a_power_model_does_not_win():
    """Unknown power scores 0 here; in the peer's way it counts as no increase and wins."""
    model = {"k0": 400.0, "k1": -90.0, "k2": -0.07}
    offline = fleet(
        machine("known", usage={"cpu": 2}, operator={"power": model}),
        machine("busy", usage={"cpu": 6}, operator={"power": model}),
        machine("unknown", usage={"cpu": 2}),
    )
    ours = scores(Peaks(), offline, request(cpu=1))
    assert ours["busy"] > ours["known"] >= ours["unknown"] == 0
    peer = scores(Peaks(peer=True), offline, request(cpu=1))
    assert peer["unknown"] == 100
