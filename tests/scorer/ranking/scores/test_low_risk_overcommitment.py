"""The score `low_risk_overcommitment` against Trimaran's own tables."""

import math

import numpy as np
import pytest
import scipy

from scorer.ranking.profiles.profile import LoadModel
from scorer.ranking.scores.low_risk_overcommitment import LowRiskOvercommitment
from tests.scorer.fleets import by_name, cases, fleet, machine, raw_scores, request, score_told, scores, trimaran_usage

DIFFERENT = {
    "KEP 357 example 1: node II": "predates the peer's conditioning on the limit: its text says .783, its code .338"
}
"""Rows that Windward deliberately answers otherwise, and why."""


LOW_RISK = "trimaran_low_risk_overcommitment"


def parts(inputs, unit):
    name = inputs["resource"]
    requests, limits = inputs["node_request_minus_pod"], inputs["node_limit_minus_pod"]
    more = (inputs["node_request"] - requests, inputs["node_limit"] - limits)
    there, asked = (
        {name: amount / unit, "limits": {name: limit / unit}} for amount, limit in ((requests, limits), more)
    )
    return there, asked


def risk_of(row, weight=None):
    """Return the risk of a row's resource on a machine that has it alone; weight 1 leaves the limit risk."""
    inputs, name = row["inputs"], row["inputs"]["resource"]
    unit = 1000 if name == "cpu" else 1
    capacity = inputs["capacity"] / unit
    there, asked = parts(inputs, unit)
    mine = [metric for metric in inputs["metrics"] if metric["type"].lower() == name]
    one = machine("n", None, None, capacity={name: capacity}, usage=trimaran_usage(mine, **{name: capacity}))
    score = {
        "use": "low_risk_overcommitment",
        "smoothing_window": inputs["params"]["smoothing_window_size"],
        "limit_weights": {name: inputs["params"]["risk_limit_weight"] if weight is None else weight},
    }
    offline = fleet(one, instances=[{"id": "there", "machine": "n", **there}])
    return score_told(offline, score, request(**asked), credits="none")["n"]["risks"][name]


@pytest.mark.parametrize(
    "row", [row for row in cases(LOW_RISK, "compute_risk") if row["name"] not in DIFFERENT], ids=by_name
)
def test_risk_of_one_resource_as_trimaran(row):
    """Limit risk and load risk combine to the peer's figure, the examples of its proposal included."""
    expected = row["expected"]
    assert risk_of(row) == pytest.approx(expected["risk"], abs=expected.get("tolerance", 1e-9))
    if "risk_limit" in expected:
        assert risk_of(row, weight=1) == pytest.approx(expected["risk_limit"], abs=0.001)


@pytest.mark.parametrize("row", [row for row in cases(LOW_RISK) if row["name"] in DIFFERENT], ids=by_name)
def test_the_load_is_judged_under_the_condition_that_it_keeps_below_the_limit(row):
    """An example of the peer's proposal says .783; the peer's code, which came later, says .338."""
    assert risk_of(row) == pytest.approx(0.338, abs=0.001)


@pytest.mark.parametrize("row", cases(LOW_RISK, "score"), ids=by_name)
def test_low_risk_overcommitment_as_trimaran(row):
    inputs = row["inputs"]
    cpu = inputs["machine"]["allocatable"]["cpu_millicores"] / 1000
    memory = inputs["machine"]["allocatable"]["memory_bytes"]

    def amounts(asks):
        requests, limits = asks["requests"], asks["limits"]
        return {
            "cpu": requests["cpu_millicores"] / 1000,
            "memory": requests["memory_bytes"],
            "limits": {"cpu": limits["cpu_millicores"] / 1000, "memory": limits["memory_bytes"]},
        }

    offline = fleet(
        machine("n", cpu, memory, usage=trimaran_usage(inputs["metrics"], cpu=cpu, memory=memory)),
        instances=[
            {"id": f"i{number}", "machine": "n", **amounts(asks)}
            for number, asks in enumerate(inputs["pods_on_machine"])
        ],
    )
    score = {
        "use": "low_risk_overcommitment",
        "smoothing_window": inputs["params"]["smoothing_window_size"],
        "limit_weights": inputs["params"]["risk_limit_weights"],
        "rounding": True,
    }
    found = raw_scores(offline, score, request(**amounts(inputs["incoming"])), credits="none")
    assert found == {"n": row["expected"]["score"]}


@pytest.mark.parametrize("row", [row for row in cases(LOW_RISK, "beta_cdf") if row["inputs"]["alpha"] > 0], ids=by_name)
def test_beta_distribution_function(row):
    """The distribution at the peer's points: the load risk, where limits are the capacity, is one less it."""
    alpha, beta_, x = (row["inputs"][key] for key in ("alpha", "beta", "x"))
    mean = alpha / (alpha + beta_)
    std = math.sqrt(mean * (1 - mean) / (alpha + beta_ + 1))
    cores = 2**17  # of so many the rounding of std to a millionth of a core is nothing
    offline = fleet(
        machine("n", cores, None, usage={"cpu": {"mean": cores * mean, "std": cores * std}}),
        instances=[{"id": "there", "machine": "n", "cpu": cores * x, "limits": {"cpu": cores}}],
    )
    score = {"use": "low_risk_overcommitment", "smoothing_window": 1, "limit_weights": {"cpu": 0}}
    found = score_told(offline, score, request(cpu="1m"), credits="none")["n"]["risks"]["cpu"]
    assert 1 - found == pytest.approx(row["expected"]["value"], abs=1e-6)


def test_a_best_effort_newcomer_scores_nothing():
    offline = fleet(machine(usage={"cpu": 1, "memory": 1}))
    assert scores(LowRiskOvercommitment(), offline) == {"m": 0.0}


def test_low_risk_on_narrow_fleets_is_that_of_the_exact_beta_distribution():
    """Of 20,000 machines with a std down to 0.001 % of the capacity no risk is off by a thousandth.

    Requests and limits lie up to 30 deviations below the mean: both probabilities are then tiny, and the risk is one
    less their quotient. The exact figures are from scipy's logarithms of the distribution.
    """
    rng = np.random.default_rng(7)
    mu, sigma = rng.uniform(0.05, 0.95, 20_000), 10 ** rng.uniform(-5.0, -1.5, 20_000)
    requests = np.clip(mu + rng.uniform(-30, 5, 20_000) * sigma, 1e-3, 0.999)
    limits = np.clip(requests + rng.uniform(0, 3, 20_000) * sigma, requests, 0.9999)
    spare = mu * (1 - mu) / sigma**2 - 1
    alpha, beta_ = mu * spare, (1 - mu) * spare
    with np.errstate(all="ignore"):
        exact = -np.expm1(
            scipy.stats.beta.logcdf(requests, alpha, beta_) - scipy.stats.beta.logcdf(limits, alpha, beta_)
        )
    told = np.isfinite(exact) & (scipy.stats.beta.logcdf(requests, alpha, beta_) > -600)
    cores = 2**17  # amounts are kept to a millionth of a core: a ten-thousandth of the least std of so many
    amounts = [(cores * each).tolist() for each in (mu, sigma, requests, limits)]
    load = [{"cpu": {"mean": mean, "std": std}} for mean, std in zip(*amounts[:2], strict=True)]
    pairs = zip(*amounts[2:], strict=True)
    offline = fleet(
        *(machine(f"m{n}", cores, None, usage=each) for n, each in enumerate(load)),
        instances=[
            {"id": f"i{n}", "machine": f"m{n}", "cpu": cpu, "limits": {"cpu": limit}}
            for n, (cpu, limit) in enumerate(pairs)
        ],
    )
    plugin = LowRiskOvercommitment(smoothing_window=1.0, limit_weights={"cpu": 0.0})
    said = scores(plugin, offline, request(cpu=1), LoadModel(credits="none"))
    found = 1 - np.array(list(said.values())) / 100
    assert told.sum() > 19_000
    assert np.abs(found - exact)[told].max() < 1e-3
