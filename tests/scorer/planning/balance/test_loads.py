"""The expected overload of machines, and how a move changes it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.planning.balance.loads import Loads


def loads(*shares: float, std: float = 0.05, allocatable: float = 10.0) -> Loads:
    """One resource; machines with these shares used."""
    row = np.array([shares])
    return Loads.of(row, np.full_like(row, std), np.full_like(row, allocatable), np.ones(1), limit=0.9, floor=0.05)


def test_overload_against_samples() -> None:
    """The mean of what is above the limit, over draws of the load."""
    rng = np.random.default_rng(1)
    for share in (0.7, 0.85, 0.95):
        drawn = np.maximum(rng.normal(share, np.hypot(0.05, 0.05), 2_000_000) - 0.9, 0).mean()
        assert loads(share).now()[0] == pytest.approx(drawn, rel=0.02, abs=1e-5)


def test_a_larger_machine_counts_by_its_size() -> None:
    """Twice the capacity at the same share is twice the overload; the mean machine is 1."""
    row = np.array([[0.95, 0.95]])
    both = Loads.of(row, row * 0, np.array([[10.0, 20.0]]), np.ones(1), 0.9, 0.05).now()
    assert both[1] == pytest.approx(2 * both[0])


def test_a_machine_of_unknown_load_has_none() -> None:
    """It counts as no load, and takes part in no mean."""
    row = np.array([[np.nan, 0.95]])
    found = Loads.of(row, row * 0, np.array([[10.0, 10.0]]), np.ones(1), 0.9, 0.05).now()
    assert found[0] == 0
    assert found[1] == pytest.approx(loads(0.95, std=0.0).now()[0])


@given(st.floats(0.1, 0.95), st.floats(0.0, 0.95), st.floats(0.0, 4.0))
def test_what_is_looked_at_is_what_a_move_makes(source: float, target: float, usage: float) -> None:
    """`without` and `with_one` say what `move` then does."""
    both, used, variance = loads(source, target), np.array([usage]), np.array([0.01])
    left = both.without(0, used[:, None])[0]
    taken, _ = both.with_one(used, variance)
    both.move(0, 1, used, variance)
    assert both.now() == pytest.approx([left, taken[1]])
