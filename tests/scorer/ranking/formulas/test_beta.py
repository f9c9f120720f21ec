"""The beta distribution: the peer's points, its own laws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from scorer.ranking.formulas import beta
from tests.scorer.fleets import by_name, cases

LOW_RISK = "trimaran_low_risk_overcommitment"


@pytest.mark.parametrize("row", cases(LOW_RISK, "beta_cdf"), ids=by_name)
def test_beta_distribution_function(row: dict[str, Any]) -> None:
    """The incomplete beta function at the peer's points."""
    inputs = row["inputs"]
    value = beta.distribution(*(np.array([float(inputs[key])]) for key in ("x", "alpha", "beta")))[0]
    assert value == pytest.approx(row["expected"]["value"], abs=1e-12)


@given(a=st.floats(0.05, 3000), b=st.floats(0.05, 3000))
def test_moments_find_their_distribution(a: float, b: float) -> None:
    """Mean and variance of a beta distribution give its parameters back."""
    mean = a / (a + b)
    alpha, beta_, fits = beta.match(np.array([mean]), np.array([mean * (1 - mean) / (a + b + 1)]))
    assert fits[0]
    assert (alpha[0], beta_[0]) == pytest.approx((a, b), rel=1e-6)


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


@pytest.mark.parametrize(("a", "b"), [(0.04, 25_000.0), (0.5, 1e6), (77.0, 29_091.0), (1_000.0, 1e8), (19_000.0, 1e5)])
def test_one_large_parameter_is_no_reason_for_the_expansion(a: float, b: float) -> None:
    """A mean near 0 or 1: an idle machine, or a full one. Both tails are those of scipy."""
    mean, deviation = a / (a + b), math.sqrt(a * b / (a + b) ** 2 / (a + b + 1))
    x = np.clip(mean + np.linspace(-6, 6, 101) * deviation, 1e-15, 1.0)
    for at, first, second in ((x, a, b), (1 - x, b, a)):
        found = beta.distribution(at, np.full(101, first), np.full(101, second))
        np.testing.assert_allclose(found, scipy.stats.beta.cdf(at, first, second), rtol=0, atol=2e-6)


def test_beta_distribution_of_large_parameters_is_the_exact_one() -> None:
    """Where the expansion takes over it goes on from the continued fraction, and both tails are those of scipy."""
    x = np.linspace(0.2, 0.4, 201)
    for a, b in ((5_999.0, 14_000.0), (6_001.0, 14_000.0), (3e6, 7e6)):
        found = beta.distribution(x, np.full(201, a), np.full(201, b))
        np.testing.assert_allclose(found, scipy.stats.beta.cdf(x, a, b), rtol=0, atol=2e-7)


def test_the_ratio_of_a_normal_tail_to_the_density_is_right_far_out() -> None:
    """37 deviations out as at the mean, where a difference from 1 is 0 beyond 8."""
    z = np.concatenate([np.linspace(0, 12, 1201), np.geomspace(12, 37, 200)])
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(beta.mills_ratio(z), scipy.special.ndtr(-z) / density, rtol=3e-9)
    np.testing.assert_allclose(beta.mills_ratio(np.array([1e3])), [1e-3], rtol=1e-5)
