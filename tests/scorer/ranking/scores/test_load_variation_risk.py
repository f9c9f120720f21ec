"""Load variation risk against Trimaran's own tables, the study's examples and the laws of the formula."""

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from scorer.ranking.scores.load_variation_risk import LoadVariationRisk
from tests.scorer.fleets import by_name, cases, fleet, machine, raw_scores, request, score_told, scores, trimaran_usage

TABLE = "trimaran_load_variation_risk_balancing"


NEGATIVE = "no window has a negative figure, and no profile a negative margin"
NOT_COVERED = {
    "computeScore/negative usedAvg": NEGATIVE,
    "computeScore/negative usedStdev": NEGATIVE,
    "computeScore/negative margin": NEGATIVE,
    "GetMuSigma/negative used": NEGATIVE,
}
"""Rows that Windward cannot be asked, and why."""


def covered(kind):
    return [row for row in cases(TABLE, kind) if row["name"] not in NOT_COVERED]


def of_cpu(inputs, **settings):
    load = {"cpu": {"mean": inputs["used_avg"], "std": inputs["used_std"]}}
    score = {"use": "load_variation_risk", "resources": ["cpu"], **settings}
    return score_told(fleet(machine("m", inputs["capacity"], None, usage=load)), score, request(cpu=inputs["request"]))[
        "m"
    ]


@pytest.mark.parametrize("row", covered("compute_score"), ids=by_name)
def test_one_resource_scores_as_the_peer_computes_it(row):
    inputs = row["inputs"]
    found = of_cpu(inputs, margin=inputs["margin"], sensitivity=inputs["sensitivity"], rounding=True)
    assert found["raw"] == row["expected"]["score_rounded"]


@pytest.mark.parametrize("row", cases(TABLE, "score"), ids=by_name)
def test_a_machine_scores_as_in_the_peer(row):
    inputs = row["inputs"]
    cpu = inputs["machine"]["allocatable"]["cpu_millicores"] / 1000
    memory = inputs["machine"]["allocatable"]["memory_bytes"]
    offline = fleet(machine(cpu=cpu, memory=memory, usage=trimaran_usage(inputs["metrics"], cpu=cpu, memory=memory)))
    score = {
        "use": "load_variation_risk",
        "margin": inputs["params"]["safe_variance_margin"],
        "sensitivity": inputs["params"]["safe_variance_sensitivity"],
        "rounding": True,
    }
    asked = request(
        cpu=inputs["request"].get("cpu_millicores", 0) / 1000, memory=inputs["request"].get("memory_bytes", 0)
    )
    assert raw_scores(offline, score, asked) == {"m": row["expected"]["score"]}


@pytest.mark.parametrize("row", covered("mu_sigma"), ids=by_name)
def test_mu_and_sigma_are_clipped(row):
    expected = row["expected"]
    found, risk = of_cpu(row["inputs"]), (expected["mu"] + expected["sigma"]) / 2
    assert (found["raw"], found["risk"]) == pytest.approx((100 * (1 - risk), risk))


@pytest.mark.parametrize("row", cases("seed_examples", "lvrb"), ids=by_name)
def test_the_studys_example_in_both_forms(row):
    """The three machines of the study score as printed in the reduced form and as the real code does otherwise."""
    given_, expected = row["inputs"], row["expected"]
    offline = fleet(
        machine(
            cpu=given_["capacity_cores"],
            memory=given_["capacity_gb"] * 1e9,
            usage={
                "cpu": {"mean": given_["mean_cores"], "std": given_["std_cores"]},
                "memory": {"mean": given_["mean_gb"] * 1e9, "std": given_["std_gb"] * 1e9},
            },
        )
    )
    asked = request(cpu=given_["request_cores"], memory=given_["request_gb"] * 1e9)

    def of(**settings):
        return raw_scores(offline, {"use": "load_variation_risk", "rounding": True, **settings}, asked)["m"]

    real = [of(sensitivity=sensitivity) for sensitivity in (1, 2)]
    assert real == [expected["real_code_margin1_sensitivity1"], expected["real_code_margin1_sensitivity2"]]
    reduced = {name: of(form="reduced", resources=[name]) for name in ("cpu", "memory")}
    assert {**reduced, "score": of(form="reduced")} == expected["kep_and_seed_formula"]


share = st.floats(0, 2, allow_nan=False)


@examples(deadline=None)
@given(mu=share, sigma=share, more=st.floats(0, 1), margin=st.floats(0, 3), sensitivity=st.floats(0, 4))
def test_risk_is_a_share_and_grows_with_load(mu, sigma, more, margin, sensitivity):
    loads = ((mu, sigma), (mu + more, sigma), (mu, sigma + more))
    offline = fleet(*(machine(f"m{n}", 1, usage={"cpu": {"mean": m, "std": s}}) for n, (m, s) in enumerate(loads)))
    found = scores(LoadVariationRisk(margin, sensitivity, resources=("cpu",)), offline)
    assert 0 <= found["m0"] <= 100
    assert found["m1"] <= found["m0"] + 1e-9
    assert found["m2"] <= found["m0"] + 1e-9


@pytest.mark.parametrize("rounding", [True, False])
def test_sensitivity_0_sees_a_deviation_of_the_whole_capacity(rounding):
    """Whatever the capacity: 63.199 cores over 63.199 is a hair below 1 when multiplied by the inverse."""
    offline = fleet(machine(cpu=63.199, usage={"cpu": {"mean": 0, "std": 63.199}}))
    plugin = LoadVariationRisk(sensitivity=0, rounding=rounding)
    assert scores(plugin, offline) == {"m": 50}
    settings = {"use": "load_variation_risk", "sensitivity": 0, "rounding": rounding}
    assert score_told(offline, settings)["m"]["risk"] == 0.5


@examples(deadline=None)
@given(
    load=st.tuples(*[st.one_of(st.none(), st.floats(0, 12))] * 2),
    std=st.floats(0, 6),
    settings=st.sampled_from([{}, {"margin": 2.0}, {"sensitivity": 2.0}, {"sensitivity": 0.0}, {"form": "reduced"}]),
)
def test_the_risk_it_shows_is_the_one_it_scores(load, std, settings):
    """``score = 100 * (1 - risk)``, with the largest risk that is known."""
    of = zip(("cpu", "memory"), load, strict=True)
    known = {name: {"mean": value, "std": std} for name, value in of if value is not None}
    offline = fleet(machine("m", 10, 10, usage=known), machine("empty", 0, 10, usage={"cpu": 0, "memory": 1}))
    for each in score_told(offline, {"use": "load_variation_risk", **settings}, request(cpu=1)).values():
        assert each["raw"] == pytest.approx(0 if each["risk"] is None else 100 * (1 - each["risk"]))


@pytest.mark.parametrize("resources", [("cpu", "memory", "nic"), ("cpu", "nic"), ("nic", "cpu"), ("nic",)])
def test_any_resources_in_any_order(resources):
    usage_of = {"cpu": {"mean": 2, "std": 1}, "memory": {"mean": 90, "std": 1}, "nic": {"mean": 600, "std": 10}}
    other = {"cpu": {"mean": 12, "std": 2}, "memory": {"mean": 10, "std": 1}, "nic": {"mean": 5, "std": 1}}
    capacity = {"nic": 1000}
    offline = fleet(
        machine("a", 16, 100, capacity=capacity, usage=usage_of), machine("b", 16, 100, capacity=capacity, usage=other)
    )
    alone = [scores(LoadVariationRisk(resources=(name,)), offline, request(cpu=1)) for name in resources]
    found = scores(LoadVariationRisk(resources=resources), offline, request(cpu=1))
    assert found == pytest.approx({name: min(each[name] for each in alone) for name in "ab"})
