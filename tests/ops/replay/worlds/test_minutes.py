"""Readings of a minute from longer cells."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ops.replay.worlds.minutes import minute_readings
from tests.effort import examples

CELLS = arrays(np.float32, (2, 24), elements=st.floats(0, 1, width=32))


@settings(max_examples=examples(50, 50), deadline=None)
@given(CELLS, st.integers(0, 1000))
def test_the_mean_of_every_cell_stays(cells: np.ndarray, seed: int) -> None:
    """Minutes are drawn around the cell's mean, and none is below 0 or above the most."""
    minutes = minute_readings(cells, 300.0, np.random.default_rng(seed), most=1.0)
    assert minutes.shape == (2, 120)
    assert np.allclose(minutes.reshape(2, 24, 5).mean(axis=2), cells, atol=1e-5)
    assert minutes.min() >= -1e-6
    assert minutes.max() <= 1 + 1e-5


def test_the_spread_inside_a_cell_is_that_of_the_steps_between_cells() -> None:
    """On a long random series the variance inside is half the mean squared step, to a tenth."""
    generator = np.random.default_rng(1)
    cells = (0.5 + 0.05 * generator.standard_normal((4, 2_000))).astype(np.float32)
    minutes = minute_readings(cells, 300.0, generator).reshape(4, 2_000, 5)
    inside = minutes.var(axis=2).mean()
    assert inside == pytest.approx((np.diff(cells, axis=1) ** 2).mean() / 2, rel=0.1)


@pytest.mark.parametrize(
    ("cell_s", "cells", "expected"),
    [
        (60.0, [1, 2], [1, 2]),
        (20.0, [1, 2, 3, 4, 5, 6], [2, 5]),
        (45.0, [1, 3, 5, 7, 9], [2, 5, 7]),
        (40.0, [1, 3, 5, 7], [2, 5]),
        (90.0, [1, 4], [1, 1, 4]),
    ],
    ids=[
        "minutes stay",
        "shorter ones are averaged",
        "three quarters",
        "two thirds",
        "no whole minutes: the value in force",
    ],
)
def test_other_cells(cell_s: float, cells: list[float], expected: list[float]) -> None:
    """Nothing is drawn where the cells say it, or where a minute has no cells of its own."""
    found = minute_readings(np.array([cells], np.float32), cell_s, np.random.default_rng(1))
    assert found.tolist() == [expected]


def test_steady_cells_have_steady_minutes() -> None:
    """Where nothing changes nothing is made up."""
    found = minute_readings(np.full((1, 12), 0.4, np.float32), 300.0, np.random.default_rng(1))
    assert np.allclose(found, 0.4)
