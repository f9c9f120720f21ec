"""By what moves are judged: the expected overload of machines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.planning.balance.scene import Loads

SHARE = st.floats(0.05, 0.95)


def loads(shares):
    """Two resources, machines of different sizes; the last machine's second resource is not known."""
    both = np.array([shares, shares[::-1]])
    both[1, -1] = np.nan
    size = np.array([np.arange(1.0, len(shares) + 1), np.full(len(shares), 4.0)])
    return Loads.of(both, np.full_like(both, 0.005), size, np.array([0.75, 0.25]), 0.9)


@given(st.lists(SHARE, min_size=3, max_size=6), st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_what_comes_on_top(shares, amount, on_top):
    """The rise of a machine that has an instance besides is its rise with both, less that with the instance alone."""
    before, usage, none = loads(shares), np.array([amount, amount / 2]), np.zeros(2)
    more, machines = np.array([[on_top, 0.0], [on_top / 3, 0.1]]), np.array([1, len(shares) - 1])
    rises = before.rise(machines, usage, none, more)
    for at, machine in enumerate(machines.tolist()):
        with_one, with_both = (before.with_one(each, none)[0][machine] for each in (usage, usage + more[:, at]))
        assert rises[at] == pytest.approx(with_both - with_one, abs=1e-9)


def shares_of(*shares, std=0.05, allocatable=10.0):
    row = np.array([shares])
    variance = np.full_like(row, std**2 + 0.05**2)
    return Loads.of(row, variance, np.full_like(row, allocatable), np.ones(1), limit=0.9)


def test_overload_against_samples():
    rng = np.random.default_rng(1)
    for share in (0.7, 0.85, 0.95):
        drawn = np.maximum(rng.normal(share, np.hypot(0.05, 0.05), 2_000_000) - 0.9, 0).mean()
        assert shares_of(share).now()[0] == pytest.approx(drawn, rel=0.02, abs=1e-5)


def test_a_larger_machine_counts_by_its_size():
    row = np.array([[0.95, 0.95]])
    both = Loads.of(row, np.full_like(row, 0.0025), np.array([[10.0, 20.0]]), np.ones(1), 0.9).now()
    assert both[1] == pytest.approx(2 * both[0])


def test_a_machine_of_unknown_load_has_none():
    """It counts as no load, and takes part in no mean."""
    row = np.array([[np.nan, 0.95]])
    found = Loads.of(row, np.full_like(row, 0.0025), np.array([[10.0, 10.0]]), np.ones(1), 0.9).now()
    assert found[0] == 0
    assert found[1] == pytest.approx(shares_of(0.95, std=0.0).now()[0])


@given(st.floats(0.1, 0.95), st.floats(0.0, 0.95), st.floats(0.0, 4.0))
def test_what_is_looked_at_is_what_a_move_makes(source, target, usage):
    both, used, variance = shares_of(source, target), np.array([usage]), np.array([0.01])
    left = both.without(0, used[:, None])[0]
    taken, _ = both.with_one(used, variance)
    both.move(0, 1, used, variance)
    assert both.now() == pytest.approx([left, taken[1]])
