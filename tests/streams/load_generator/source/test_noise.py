"""Noise that is a function of its arguments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.load_generator.source.generator import Noise

ROWS = np.arange(50)


@given(st.integers(0, 2**63), st.integers(0, 30), st.integers(-(10**9), 10**10))
def test_the_same_arguments_give_the_same_noise(seed: int, stream: int, count: int):
    """Whichever other machines are asked for, in whatever order."""
    whole = Noise(seed, ROWS).uniform(stream, count)
    some = Noise(seed, ROWS[[7, 3]]).uniform(stream, count)
    assert ((whole >= 0) & (whole < 1)).all()
    assert (some == whole[[7, 3]]).all()


@pytest.mark.parametrize("changed", ["seed", "stream", "count"])
def test_another_argument_gives_other_noise(changed: str):
    """Seed, stream and time all matter."""
    arguments = {"seed": 1, "stream": 2, "count": 3}
    first = Noise(arguments["seed"], ROWS).uniform(arguments["stream"], arguments["count"])
    arguments[changed] += 1
    second = Noise(arguments["seed"], ROWS).uniform(arguments["stream"], arguments["count"])
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.4
    assert (first != second).all()


def test_normal_noise_is_normal_enough():
    """Mean 0, standard deviation 1, never beyond 3.5, and no memory from one second to the next."""
    seconds = np.arange(20_000)[:, None]
    values = Noise(5, ROWS[:5]).normal(1, seconds)
    assert abs(values.mean()) < 0.01
    assert values.std() == pytest.approx(1, abs=0.01)
    assert abs(values).max() < 3.5
    assert abs(np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1]) < 0.03


def test_smooth_noise_changes_slowly():
    """Standard deviation about 1; in a hundredth of its period it moves a little."""
    times_s = np.arange(0, 400_000.0, 3.0)[:, None]
    values = Noise(5, ROWS[:5]).smooth(1, times_s, 300.0)
    assert abs(values.mean()) < 0.1
    assert values.std() == pytest.approx(1, abs=0.1)
    assert abs(np.diff(values, axis=0)).max() < 0.2
