"""Decayed histograms: percentiles within a bucket of the true ones, by weight of age."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.classes.histogram import BUCKETS, STARTS, add, bucket_of, quantile

HOUR_S = 3600.0


def of(shares: list[float], elapsed_s: float = 0.0, half_life_s: float = 12 * HOUR_S) -> np.ndarray:
    """The histogram of these samples, so far apart."""
    weights = np.zeros((BUCKETS, 1), np.float32)
    for share in shares:
        add(weights, np.array([share]), np.array([elapsed_s]), half_life_s)
    return weights


def test_buckets_are_five_per_cent_wider_each_and_reach_beyond_the_capacity() -> None:
    """From a thousandth of the capacity to more than twice of it."""
    widths = np.diff(STARTS)
    assert widths[0] == pytest.approx(0.001)
    assert widths[1:] / widths[:-1] == pytest.approx(1.05)
    assert STARTS[BUCKETS - 1] > 2.0


@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60), st.sampled_from((0.5, 0.95, 0.98, 1.0)))
def test_a_quantile_is_the_end_of_the_bucket_that_holds_it(shares: list[float], q: float) -> None:
    """Never below the true one (numpy's inverted_cdf), and above it by the width of its bucket at most."""
    true = float(np.quantile(shares, q, method="inverted_cdf"))
    found = float(quantile(of(shares), q)[0])
    assert true <= found <= STARTS[bucket_of(np.array([true]))[0] + 1] + 1e-12


def test_a_sample_weighs_half_a_half_life_later() -> None:
    """Six of eight new samples after one half-life weigh as twelve of fourteen do: the old ones are less than p90."""
    old_high = of([1.0] * 8)
    assert quantile(old_high, 0.95)[0] > 1.0
    for _ in range(8):
        add(old_high, np.array([0.1]), np.array([12 * HOUR_S]), 12 * HOUR_S)
    assert quantile(old_high, 0.95)[0] < 0.2
    assert float(old_high.sum()) == pytest.approx(8 / 2**8 + sum(2.0**-n for n in range(8)))


def test_an_empty_histogram_knows_no_quantile_and_what_is_unknown_changes_none() -> None:
    """Others beside it go on."""
    weights = np.zeros((BUCKETS, 2), np.float32)
    add(weights, np.array([np.nan, 0.5]), np.zeros(2), HOUR_S)
    assert np.isnan(quantile(weights, 0.95)[0])
    assert quantile(weights, 0.95)[1] == pytest.approx(0.5, rel=0.05)
