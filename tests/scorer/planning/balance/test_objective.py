"""By what moves are judged: the expected overload of machines, and what an objective says of a move."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scorer.planning.balance.loads import Loads
from scorer.planning.balance.search import LeastOverload, LeastVariance

SHARE = st.floats(0.05, 0.95)


def loads(shares):
    """Two resources, machines of different sizes; the last machine's second resource is not known."""
    both = np.array([shares, shares[::-1]])
    both[1, -1] = np.nan
    size = np.array([np.arange(1.0, len(shares) + 1), np.full(len(shares), 4.0)])
    return Loads.of(both, np.full_like(both, 0.005), size, np.array([0.75, 0.25]), 0.9)


@given(st.lists(SHARE, min_size=3, max_size=6), st.floats(0.0, 0.5))
@example([0.625, 0.375, 0.375], 0.125)
def test_gains(shares, amount):
    """By overload the gain is the fall of the sum; by variance the sum of squares falls by no less than the gain."""
    before, usage, variance = loads(shares), np.array([amount, amount / 2]), np.array([0.01, 0.01])
    overload = before.now()
    after, _ = before.with_one(usage, variance)

    def gain(objective):
        cut = objective.cut(before, overload, 0, usage[:, None])[0]
        return float(cut - objective.added(before, overload, after, usage)[1])

    by_overload, by_variance = gain(LeastOverload()), gain(LeastVariance())
    moved = before.copy()
    moved.move(0, 1, usage, variance)

    def squares(of):
        return float(of.weights @ ((of.utilization - of.means()) ** 2 * (of.inverse > 0)).sum(axis=1))

    assert by_overload == pytest.approx(before.now().sum() - moved.now().sum(), abs=1e-12)
    assert squares(before) - squares(moved) >= by_variance - 1e-12
    for objective, found in ((LeastOverload(), by_overload), (LeastVariance(), by_variance)):
        level = float(objective.levels(before, overload)[0])
        assert found <= objective.most(before, level) + 1e-12 or level == 0


@given(st.lists(SHARE, min_size=3, max_size=6), st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_what_comes_on_top(shares, amount, on_top):
    """The rise of a machine that has an instance besides is its rise with both, less that with the instance alone."""
    before, usage, none = loads(shares), np.array([amount, amount / 2]), np.zeros(2)
    more, machines = np.array([[on_top, 0.0], [on_top / 3, 0.1]]), np.array([1, len(shares) - 1])
    overload = before.now()
    for at, machine in enumerate(machines.tolist()):
        both = usage + more[:, at]
        for objective in (LeastOverload(), LeastVariance()):
            with_one, with_both = (
                objective.added(before, overload, before.with_one(each, none)[0], each)[machine]
                for each in (usage, both)
            )
            rise = objective.rise(before, machines, usage, none, more)[at]
            assert rise == pytest.approx(with_both - with_one, abs=1e-9)


def test_the_hottest_has_the_highest_level():
    some = loads([0.95, 0.5, 0.2])
    for objective in (LeastOverload(), LeastVariance()):
        assert objective.levels(some, some.now()).argmax() == 0
    assert LeastVariance().levels(loads([0.9, 0.9, 0.1]), np.zeros(3))[2] == 0


def shares_of(*shares, std=0.05, allocatable=10.0):
    """One resource; machines with these shares used."""
    row = np.array([shares])
    variance = np.full_like(row, std**2 + 0.05**2)
    return Loads.of(row, variance, np.full_like(row, allocatable), np.ones(1), limit=0.9)


def test_overload_against_samples():
    """The mean of what is above the limit, over draws of the load."""
    rng = np.random.default_rng(1)
    for share in (0.7, 0.85, 0.95):
        drawn = np.maximum(rng.normal(share, np.hypot(0.05, 0.05), 2_000_000) - 0.9, 0).mean()
        assert shares_of(share).now()[0] == pytest.approx(drawn, rel=0.02, abs=1e-5)


def test_a_larger_machine_counts_by_its_size():
    """Twice the capacity at the same share is twice the overload; the mean machine is 1."""
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
    """`without` and `with_one` say what `move` then does."""
    both, used, variance = shares_of(source, target), np.array([usage]), np.array([0.01])
    left = both.without(0, used[:, None])[0]
    taken, _ = both.with_one(used, variance)
    both.move(0, 1, used, variance)
    assert both.now() == pytest.approx([left, taken[1]])
