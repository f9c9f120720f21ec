"""By what moves are judged: what an objective says of a move is what the move then does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scorer.planning.balance.loads import Loads
from scorer.planning.balance.objective import LeastOverload, LeastVariance, Objective

SHARE = st.floats(0.05, 0.95)


def loads(shares: list[float]) -> Loads:
    """Two resources, machines of different sizes; the last machine's second resource is not known."""
    both = np.array([shares, shares[::-1]])
    both[1, -1] = np.nan
    size = np.array([np.arange(1.0, len(shares) + 1), np.full(len(shares), 4.0)])
    return Loads.of(both, np.full_like(both, 0.05), size, np.array([0.75, 0.25]), 0.9, 0.05)


@given(st.lists(SHARE, min_size=3, max_size=6), st.floats(0.0, 0.5))
@example([0.625, 0.375, 0.375], 0.125)
def test_gains(shares: list[float], amount: float) -> None:
    """By overload the gain is the fall of the sum; by variance the sum of squares falls by no less than the gain."""
    before, usage, variance = loads(shares), np.array([amount, amount / 2]), np.array([0.01, 0.01])
    overload = before.now()
    after, _ = before.with_one(usage, variance)

    def gain(objective: Objective) -> float:
        cut = objective.cut(before, overload, 0, usage[:, None])[0]
        return float(cut - objective.added(before, overload, after, usage)[1])

    by_overload, by_variance = gain(LeastOverload()), gain(LeastVariance())
    moved = before.copy()
    moved.move(0, 1, usage, variance)

    def squares(of: Loads) -> float:
        return float(of.weights @ ((of.utilization - of.means()) ** 2 * (of.inverse > 0)).sum(axis=1))

    assert by_overload == pytest.approx(before.now().sum() - moved.now().sum(), abs=1e-12)
    assert squares(before) - squares(moved) >= by_variance - 1e-12
    for objective, found in ((LeastOverload(), by_overload), (LeastVariance(), by_variance)):
        level = float(objective.levels(before, overload)[0])
        assert found <= objective.most(before, level) + 1e-12 or level == 0


@given(st.lists(SHARE, min_size=3, max_size=6), st.floats(0.0, 0.5), st.floats(0.0, 0.5))
def test_what_comes_on_top(shares: list[float], amount: float, on_top: float) -> None:
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


def test_the_hottest_has_the_highest_level() -> None:
    """By both; a machine below the mean has none by variance."""
    some = loads([0.95, 0.5, 0.2])
    for objective in (LeastOverload(), LeastVariance()):
        assert objective.levels(some, some.now()).argmax() == 0
    assert LeastVariance().levels(loads([0.9, 0.9, 0.1]), np.zeros(3))[2] == 0
