"""Load variation risk against Trimaran's own tables, the study's examples and the laws of the formula."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.scores.arithmetic import round_half_away
from scorer.scores.load_variation_risk import LoadVariationRisk, risk_of
from tests.scorer.fleets import by_name, cases, fleet, machine, request, scores, see
from tests.scorer.metrics import mean_and_std, usage

TABLE = "trimaran_load_variation_risk_balancing"


@pytest.mark.parametrize("row", cases(TABLE, "compute_score"), ids=by_name)
def test_one_resource_scores_as_the_peer_computes_it(row: dict[str, Any]) -> None:
    """The score of one resource from absolute mean, std and request equals the peer's."""
    given_ = row["inputs"]
    capacity = given_["capacity"]
    # negative figures cannot come out of a window or a profile: they are given to the formula alone
    if min(capacity - 1e-9, *(given_[key] for key in ("used_avg", "used_std", "request", "margin", "sensitivity"))) < 0:
        divisor = capacity or 1
        mu = (np.clip(given_["used_avg"], 0, capacity) + max(given_["request"], 0)) / divisor
        sigma = np.clip(given_["used_std"], 0, capacity) / divisor
        risk = risk_of(np.array([mu]), np.array([sigma]), given_["margin"], given_["sensitivity"])
        score = 100 * (1 - risk) if capacity else np.zeros(1)
        assert round_half_away(score)[0] == row["expected"]["score_rounded"]
        return
    offline = fleet(
        machine(cpu=capacity, memory=None, usage={"cpu": {"mean": given_["used_avg"], "std": given_["used_std"]}})
    )
    plugin = LoadVariationRisk(
        margin=given_["margin"], sensitivity=given_["sensitivity"], resources=("cpu",), rounding=True
    )
    assert scores(plugin, offline, request(cpu=given_["request"]))["m"] == row["expected"]["score_rounded"]


@pytest.mark.parametrize("row", cases(TABLE, "score"), ids=by_name)
def test_a_machine_scores_as_in_the_peer(row: dict[str, Any]) -> None:
    """The score of a machine from metrics, allocatable and request equals the peer's, rounding included."""
    given_ = row["inputs"]
    cpu = given_["machine"]["allocatable"]["cpu_millicores"] / 1000
    memory = given_["machine"]["allocatable"]["memory_bytes"]
    offline = fleet(machine(cpu=cpu, memory=memory, usage=usage(given_["metrics"], cpu, memory)))
    plugin = LoadVariationRisk(
        margin=given_["params"]["safe_variance_margin"],
        sensitivity=given_["params"]["safe_variance_sensitivity"],
        rounding=True,
    )
    asked = request(
        cpu=given_["request"].get("cpu_millicores", 0) / 1000, memory=given_["request"].get("memory_bytes", 0)
    )
    assert scores(plugin, offline, asked)["m"] == row["expected"]["score"]


@pytest.mark.parametrize("row", cases(TABLE, "resource_stats"), ids=by_name)
def test_metrics_become_absolute_amounts(row: dict[str, Any]) -> None:
    """Percent of the metrics times allocatable gives the peer's absolute mean and std."""
    given_, expected = row["inputs"], row["expected"]
    kind = {"cpu": "CPU", "memory": "Memory"}[given_["resource"]]
    values = mean_and_std(given_["metrics"], kind)
    assert (values is not None) == expected["valid"]
    if values is not None:
        capacity = expected["stats"]["capacity"]
        assert [part * capacity / 100 for part in values] == pytest.approx(
            [expected["stats"]["used_avg"], expected["stats"]["used_std"]]
        )


@pytest.mark.parametrize("row", cases(TABLE, "mu_sigma"), ids=by_name)
def test_mu_and_sigma_are_clipped(row: dict[str, Any]) -> None:
    """Mean plus request and std, as shares of the capacity, are clipped to 0-1 before they become risk."""
    given_, expected = row["inputs"], row["expected"]
    capacity = given_["capacity"]
    if capacity == 0:
        mean = std = 0.0
    else:
        mean = (np.clip(given_["used_avg"], 0, capacity) + max(given_["request"], 0)) / capacity
        std = np.clip(given_["used_std"], 0, capacity) / capacity
    assert risk_of(np.array([mean]), np.array([std]))[0] == pytest.approx((expected["mu"] + expected["sigma"]) / 2)


@pytest.mark.parametrize("row", cases("seed_examples", "lvrb"), ids=by_name)
def test_the_studys_example_in_both_forms(row: dict[str, Any]) -> None:
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
    real = [
        scores(LoadVariationRisk(sensitivity=sensitivity, rounding=True), offline, asked)["m"] for sensitivity in (1, 2)
    ]
    assert real == [expected["real_code_margin1_sensitivity1"], expected["real_code_margin1_sensitivity2"]]
    reduced = scores(LoadVariationRisk(form="reduced"), offline, asked)["m"]
    assert int(round(reduced, 9) + 0.5) == expected["kep_and_seed_formula"]["score"]


share = st.floats(0, 2, allow_nan=False)


@given(mu=share, sigma=share, more=st.floats(0, 1), margin=st.floats(0, 3), sensitivity=st.floats(0, 4))
def test_risk_is_a_share_and_grows_with_load(
    mu: float, sigma: float, more: float, margin: float, sensitivity: float
) -> None:
    """Risk stays in 0-1 and never falls when mean or deviation rise."""
    at = [risk_of(np.array([m]), np.array([s]), margin, sensitivity)[0] for m, s in
          ((mu, sigma), (mu + more, sigma), (mu, sigma + more))]  # fmt: skip
    assert 0 <= at[0] <= 1
    assert at[1] >= at[0]
    assert at[2] >= at[0]


def test_a_machine_without_data_scores_nothing() -> None:
    """A machine that never sent a sample scores 0, not as an idle one."""
    offline = fleet(machine("idle", usage={"cpu": 0, "memory": 0}), machine("silent"))
    assert scores(LoadVariationRisk(), offline) == {"idle": 100.0, "silent": 0.0}


@pytest.mark.parametrize("rounding", [True, False])
def test_sensitivity_0_sees_a_deviation_of_the_whole_capacity(rounding: bool) -> None:
    """Whatever the capacity: 63.199 cores over 63.199 is a hair below 1 when multiplied by the inverse."""
    offline = fleet(machine(cpu=63.199, usage={"cpu": {"mean": 0, "std": 63.199}}))
    plugin = LoadVariationRisk(sensitivity=0, rounding=rounding)
    assert scores(plugin, offline) == {"m": 50}
    assert plugin.detail(request(), see(offline), 0)["risk"] == 0.5


@pytest.mark.parametrize("settings", [{"margin": -1}, {"sensitivity": -0.1}, {"resources": ()}])
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    """A negative margin or sensitivity, or no resource at all, is an error that names the setting."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        LoadVariationRisk(**settings)


@given(
    load=st.tuples(*[st.one_of(st.none(), st.floats(0, 12))] * 2),
    std=st.floats(0, 6),
    settings=st.sampled_from([{}, {"margin": 2.0}, {"sensitivity": 2.0}, {"sensitivity": 0.0}, {"form": "reduced"}]),
)
def test_the_risk_it_shows_is_the_one_it_scores(
    load: tuple[float | None, ...], std: float, settings: dict[str, Any]
) -> None:
    """``score = 100 * (1 - risk)``, with the largest risk that is known."""
    known = {
        name: {"mean": value, "std": std}
        for name, value in zip(("cpu", "memory"), load, strict=True)
        if value is not None
    }
    offline = fleet(machine("m", 10, 10, usage=known), machine("empty", 0, 10, usage={"cpu": 0, "memory": 1}))
    plugin, asked = LoadVariationRisk(**settings), request(cpu=1)
    seen = see(offline, asked)
    for position, score in enumerate(plugin(asked, seen)):
        risk = plugin.detail(asked, seen, position)["risk"]
        assert score == pytest.approx(0 if risk is None else 100 * (1 - risk))
