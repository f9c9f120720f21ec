"""Moments of readings: the same as numpy's, whatever the offset."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.sample import Moments
from streams.agent.sampling.readings import Readings


@given(
    st.lists(st.floats(0, 1e3), min_size=1, max_size=60),
    st.sampled_from([0.0, 1.0, 1e6, 1e9]),
)
def test_moments_are_numpys(values: list[float], offset: float):
    """n, mean, m2 and max equal numpy's on the same values, also far from zero."""
    readings = Readings()
    shifted = np.array(values) + offset
    for value in shifted.tolist():
        readings.add(value, capacity=5e9)
    moments = readings.moments()
    assert moments is not None
    assert (moments.n, moments.max, moments.capacity) == (len(values), shifted.max(), 5e9)
    assert moments.mean == pytest.approx(shifted.mean(), rel=1e-12, abs=1e-9)
    exact = float(((shifted - offset - (shifted - offset).mean()) ** 2).sum())
    assert moments.m2 == pytest.approx(exact, rel=1e-6, abs=1e-4)
    assert moments.m2 >= 0


def test_nothing_read_is_no_moments():
    """An interval without a reading has no moments; it is not idle."""
    assert Readings().moments() is None


def test_readings_of_a_larger_machine_are_dropped():
    """Four busy cores, of which two are switched off: no mean above what there is."""
    readings = Readings()
    readings.add(4.0, capacity=4.0)
    readings.add(1.5, capacity=2.0)
    assert readings.moments() == Moments(n=1, mean=1.5, m2=0.0, max=1.5, capacity=2.0)
