"""Target load packing, low risk overcommitment and peaks against Trimaran's own tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.credits import Estimate
from scorer.profile import Sight
from scorer.scores import beta
from scorer.scores.low_risk_overcommitment import LowRiskOvercommitment, limit_risk, load_risk
from scorer.scores.peaks import Peaks, normalise_increase
from scorer.scores.target_load_packing import TargetLoadPacking, packing
from tests.scorer.fleets import by_name, cases, fleet, machine, request, scores, see
from tests.scorer.metrics import mean_and_std, usage


def pod(containers: list[dict[str, Any]], overhead: float) -> dict[str, Any]:
    """Return a pod with at most one container as the amounts of an instance."""
    if not containers:
        return {"expected": {"cpu": overhead / 1000}}
    (container,) = containers
    amounts: dict[str, Any] = {}
    if "limit_cpu_millicores" in container:
        amounts["limits"] = {"cpu": container["limit_cpu_millicores"] / 1000}
    if "request_cpu_millicores" in container:
        amounts["cpu"] = container["request_cpu_millicores"] / 1000
    return amounts


@pytest.mark.parametrize("row", cases("trimaran_target_load_packing", "score"), ids=by_name)
def test_target_load_packing_as_trimaran(row: dict[str, Any]) -> None:
    """The score with predicted newcomer and recently bound instances equals the peer's."""
    inputs, parameters = row["inputs"], row["inputs"]["params"]
    metrics = inputs["metrics"]
    if isinstance(metrics, list):
        metrics = [metric for metric in metrics if metric["operator"] in ("AVG", "Latest")]
        metrics = [metric | {"operator": "AVG"} for metric in metrics]
    capacity = inputs["machine"]["capacity"]["cpu_millicores"] / 1000
    end = inputs["window_end_unix_s"]
    offline = fleet(
        machine(cpu=capacity, usage=usage(metrics, capacity, 100.0)),
        now=float(end),
        instances=[
            {"id": f"i{number}", "machine": "m", "placed_ago_s": end - bound["bound_at_unix_s"],
             **pod(bound["containers"], bound["overhead_cpu_millicores"])}
            for number, bound in enumerate(inputs["recently_bound"])
        ],
    )  # fmt: skip
    estimate = Estimate(
        base="limit-first",
        factor={"cpu": parameters["default_requests_multiplier"]},
        default={"cpu": parameters["default_requests_millicores"] / 1000},
        round_to={"cpu": 0.001},
    )
    plugin = TargetLoadPacking(target=parameters["target_utilization_percent"] / 100, limit="capacity", rounding=True)
    asked = request(**pod(inputs["containers"], inputs["overhead_cpu_millicores"]))
    assert scores(plugin, offline, asked, Sight(credits="trimaran-60s", estimate=estimate)) == {
        "m": row["expected"]["score"]
    }


@pytest.mark.parametrize("row", cases("seed_examples", "tlp"), ids=by_name)
def test_the_studys_target_load_example(row: dict[str, Any]) -> None:
    """The study's three machines score 75, 100 and 25 at a target of one half."""
    inputs = row["inputs"]
    capacity = inputs["capacity_millicores"] / 1000
    offline = fleet(machine(cpu=capacity, usage={"cpu": inputs["used_percent"] * capacity / 100}))
    assert scores(TargetLoadPacking(target=0.5), offline)["m"] == pytest.approx(row["expected"]["score"])


@given(target=st.floats(1, 99), utilization=st.floats(0, 150))
def test_packing_rises_to_the_target_and_then_breaks(target: float, utilization: float) -> None:
    """The score is best at the target, lies in 0-100, and is 0 over 100 %."""
    at = packing(np.array([utilization, target]), target)
    assert -1e-9 <= at[0] <= 100 + 1e-9
    assert at[1] == pytest.approx(100)
    if utilization > 100:
        assert at[0] == 0


def test_a_half_stays_a_half_whatever_the_unit() -> None:
    """25 % of 52733 m score 77.5 at a target of 40 %, and so 78, though a quarter of 52.733 cores is no exact float."""
    offline = fleet(machine(cpu="52733m", usage={"cpu": 13.18325}))
    assert scores(TargetLoadPacking(rounding=True), offline) == {"m": 78}


def test_any_resource_may_be_the_target() -> None:
    """The study wanted memory as the target; the same formula serves it."""
    offline = fleet(machine("half", usage={"cpu": 9, "memory": 50}), machine("empty", usage={"cpu": 0, "memory": 0}))
    found = scores(TargetLoadPacking(target=0.5, resource="memory"), offline)
    assert found == {"half": pytest.approx(100), "empty": pytest.approx(50)}


LOW_RISK = "trimaran_low_risk_overcommitment"
PREDATES = "KEP 357 example 1: node II"
"""Predates the peer's conditioning on the limit: its text says .783, its code and ours .338."""


@pytest.mark.parametrize("row", cases(LOW_RISK, "compute_risk"), ids=by_name)
def test_risk_of_one_resource_as_trimaran(row: dict[str, Any]) -> None:
    """Limit risk and load risk combine to the peer's figure, the examples of its proposal included."""
    inputs = row["inputs"]
    metrics = mean_and_std(inputs["metrics"], {"cpu": "CPU", "memory": "Memory"}[inputs["resource"]])
    assert metrics is not None
    column = {key: np.array([float(value)]) for key, value in inputs.items() if key.startswith("node_")}
    capacity = np.array([float(inputs["capacity"])])
    by_limit = limit_risk(np.minimum(column["node_request"], capacity), column["node_limit"], capacity)[0]
    by_load = load_risk(
        np.array([metrics[0] / 100]),
        np.array([metrics[1] / 100]),
        np.minimum(column["node_request_minus_pod"], capacity),
        column["node_limit_minus_pod"],
        capacity,
        inputs["params"]["smoothing_window_size"],
    )[0]
    weight = inputs["params"]["risk_limit_weight"]
    risk = weight * by_limit + (1 - weight) * by_load
    expected = row["expected"]
    if "risk_limit" in expected:
        assert by_limit == pytest.approx(expected["risk_limit"], abs=0.001)
    if row["name"] == PREDATES:
        assert risk == pytest.approx(0.338, abs=0.001)
    else:
        assert risk == pytest.approx(expected["risk"], abs=expected.get("tolerance", 1e-9))


@pytest.mark.parametrize("row", cases(LOW_RISK, "score"), ids=by_name)
def test_low_risk_overcommitment_as_trimaran(row: dict[str, Any]) -> None:
    """The score from metrics, the instances on the machine and the newcomer equals the peer's."""
    inputs = row["inputs"]
    cpu = inputs["machine"]["allocatable"]["cpu_millicores"] / 1000
    memory = inputs["machine"]["allocatable"]["memory_bytes"]

    def amounts(asks: dict[str, Any]) -> dict[str, Any]:
        requests, limits = asks["requests"], asks["limits"]
        return {
            "cpu": requests["cpu_millicores"] / 1000,
            "memory": requests["memory_bytes"],
            "limits": {"cpu": limits["cpu_millicores"] / 1000, "memory": limits["memory_bytes"]},
        }

    offline = fleet(
        machine("n", cpu, memory, usage=usage(inputs["metrics"], cpu, memory)),
        instances=[
            {"id": f"i{number}", "machine": "n", **amounts(asks)}
            for number, asks in enumerate(inputs["pods_on_machine"])
        ],
    )
    plugin = LowRiskOvercommitment(
        smoothing_window=inputs["params"]["smoothing_window_size"],
        limit_weights=inputs["params"]["risk_limit_weights"],
        rounding=True,
    )
    assert scores(plugin, offline, request(**amounts(inputs["incoming"]))) == {"n": row["expected"]["score"]}


def test_a_best_effort_newcomer_scores_nothing() -> None:
    """Without request and limit there is nothing to judge: 0, as in the peer."""
    offline = fleet(machine(usage={"cpu": 1, "memory": 1}))
    assert scores(LowRiskOvercommitment(), offline) == {"m": 0.0}


@pytest.mark.parametrize("row", cases(LOW_RISK, "beta_cdf"), ids=by_name)
def test_beta_distribution_function(row: dict[str, Any]) -> None:
    """The incomplete beta function at the peer's points."""
    inputs = row["inputs"]
    value = beta.distribution(*(np.array([float(inputs[key])]) for key in ("x", "alpha", "beta")))[0]
    assert value == pytest.approx(row["expected"]["value"], abs=1e-12)


@pytest.mark.parametrize("row", cases(LOW_RISK, "beta_pdf"), ids=by_name)
def test_beta_density(row: dict[str, Any]) -> None:
    """The density at the peer's points; 0 for parameters that are no distribution."""
    inputs = row["inputs"]
    value = beta.density(*(np.array([float(inputs[key])]) for key in ("x", "alpha", "beta")))[0]
    assert value == pytest.approx(row["expected"]["value"], abs=1e-12)


@pytest.mark.parametrize("row", cases(LOW_RISK, "beta_moments"), ids=by_name)
def test_beta_moments(row: dict[str, Any]) -> None:
    """The first three moments; parameters that are not positive have none."""
    inputs = row["inputs"]
    if row["expected"]["moments"] is None:
        none = beta.density(np.array([0.5]), np.array([float(inputs["alpha"])]), np.array([float(inputs["beta"])]))
        assert none[0] == 0
    else:
        assert beta.moments(inputs["alpha"], inputs["beta"]) == pytest.approx(row["expected"]["moments"])


@pytest.mark.parametrize("row", cases(LOW_RISK, "match_moments"), ids=by_name)
def test_moments_find_their_distribution(row: dict[str, Any]) -> None:
    """Mean and variance of a beta distribution give its parameters back."""
    inputs = row["inputs"]
    mean = np.array([inputs["m1"]])
    alpha, beta_, fits = beta.match(mean, np.array([inputs["m2"] - inputs["m1"] ** 2]))
    assert fits[0] == row["expected"]["ok"]
    assert (alpha[0], beta_[0]) == pytest.approx((1, 1))


@pytest.mark.parametrize("row", cases(LOW_RISK, "max_variance"), ids=by_name)
def test_the_largest_variance_of_a_mean(row: dict[str, Any]) -> None:
    """No variance is left at the ends: a machine idle or full has no deviation to fear."""
    mean = min(max(float(row["inputs"]["m1"]), 0.0), 1.0)
    assert mean * (1 - mean) == row["expected"]["value"]


@given(a=st.floats(0.05, 3000), b=st.floats(0.05, 3000), x=st.floats(0.001, 0.999))
def test_beta_distribution_is_symmetric_and_agrees_with_its_recurrence(a: float, b: float, x: float) -> None:
    """I_x(a, b) = 1 - I_(1-x)(b, a), and I_x(a, b) - I_x(a+1, b) = x^a (1-x)^b / (a B(a, b))."""

    def at(x_: float, a_: float, b_: float) -> float:
        return float(beta.distribution(np.array([x_]), np.array([a_]), np.array([b_]))[0])

    assert at(x, a, b) == pytest.approx(1 - at(1 - x, b, a), abs=1e-9)
    logarithm = a * math.log(x) + b * math.log1p(-x) - math.log(a) - (
        math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    )  # fmt: skip
    assert at(x, a, b) - at(x, a + 1, b) == pytest.approx(math.exp(logarithm), abs=1e-9)


def test_beta_distribution_of_large_parameters_meets_the_exact_one() -> None:
    """Where the approximation begins it is within 2e-6 of the continued fraction."""
    x = np.linspace(0.28, 0.32, 41)
    a, b = np.full(41, 5999.0), np.full(41, 14000.0)
    exact = beta.distribution(x, a, b)
    assert np.abs(beta.distribution(x, a + 2, b + 5) - exact).max() < 0.02
    assert np.abs(beta._normal_tail(x, a, b) - exact).max() < 2e-6


@pytest.mark.parametrize("row", cases("trimaran_peaks", "score"), ids=by_name)
def test_power_increase_as_trimaran(row: dict[str, Any]) -> None:
    """The increase of power equals the peer's whole number, up to the last bits of exp."""
    inputs = row["inputs"]
    capacity = inputs["machine"]["capacity"]["cpu_millicores"] / 1000
    (model,) = inputs["power_models"].values()
    offline = fleet(machine(cpu=capacity, usage=usage(inputs["metrics"], capacity, 100.0), operator={"power": model}))
    asked = request(cpu=inputs["request_cpu_millicores"] / 1000)
    raw = Peaks(peer=True).raw(see(offline, asked, Sight(credits="none")))[0]
    assert raw == pytest.approx(row["expected"]["score"], rel=1e-12)


@pytest.mark.parametrize("row", cases("trimaran_peaks", "normalize"), ids=by_name)
def test_power_increases_are_spread_as_trimaran(row: dict[str, Any]) -> None:
    """All zero stays zero; all equal scores 100."""
    raw = np.array(row["inputs"]["scores"], np.float64)
    assert normalise_increase(raw, raw.min(), raw.max(), rounding=True).tolist() == row["expected"]["scores"]


def test_a_machine_without_a_power_model_does_not_win() -> None:
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


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (TargetLoadPacking, {"target": 0}),
        (TargetLoadPacking, {"target": 1.1}),
        (LowRiskOvercommitment, {"smoothing_window": 0}),
        (LowRiskOvercommitment, {"limit_weights": {"cpu": 2}}),
        (LowRiskOvercommitment, {"limit_weights": {"disk": 0.5}}),
    ],
)
def test_settings_out_of_range_are_refused(kind: type, settings: dict[str, Any]) -> None:
    """A setting out of range is an error that names it."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        kind(**settings)
