"""The growth of the fleet's variance, against the variance computed with the instance on each machine in turn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.ranking.formulas.variance import Added, means_of, variance_columns, variance_parts, weighted_variance_growth
from tests.effort import examples


@settings(max_examples=examples(40, 400), deadline=None)
@given(seed=st.integers(0, 2**31), machines=st.integers(1, 9), places=st.sets(st.integers(0, 2), min_size=1))
def test_whole_and_in_parts_it_is_the_growth_of_the_variance(seed: int, machines: int, places: set[int]) -> None:
    """For some of three resources, apart from each other or not; a machine of unknown load neither grows nor counts."""
    draw = np.random.default_rng(seed)
    load, inverses = draw.uniform(0, 1.2, (3, machines)), 1.0 / draw.integers(4, 65, (3, machines))
    unknown = draw.random((3, machines)) < 0.2
    means = means_of(np.where(unknown, np.nan, load))
    columns = variance_columns(np.where(unknown, 0.0, load), np.where(unknown, 0.0, inverses))
    asked = [Added(place, float(draw.uniform(-3, 3)), float(draw.uniform(0.1, 4))) for place in sorted(places)]
    exact = np.zeros(machines)
    for place, factor, expected, _ in asked:
        known = np.flatnonzero(~unknown[place])
        before = load[place, known]
        for position, row in enumerate(known):
            after = before.copy()
            after[position] += expected * inverses[place, row]
            exact[row] += factor * known.size * (np.var(after) - np.var(before))
    np.testing.assert_allclose(weighted_variance_growth(columns, means, asked), exact, atol=1e-9)
    parts = variance_parts(columns, means, asked)
    np.testing.assert_allclose(parts.own - parts.means @ parts.slopes, exact, atol=1e-9)
    for row in range(machines):
        for at, (place, _, expected, _) in enumerate(asked):
            grown = load.copy()
            grown[place, row] += expected * inverses[place, row]
            mean = means_of(np.where(unknown, np.nan, grown))[place][0]
            assert parts.means[at] + parts.steps[at, row] == pytest.approx(mean)


def test_an_instance_expected_to_use_nothing_changes_nothing() -> None:
    """Neither whole nor in parts, on a fleet without machines either."""
    for machines in (0, 3):
        load = np.full((2, machines), 0.5)
        columns, means = variance_columns(load, load), means_of(load)
        assert weighted_variance_growth(columns, means, []).tolist() == [0.0] * machines
        assert variance_parts(columns, means, []).slopes.shape == (0, machines)
