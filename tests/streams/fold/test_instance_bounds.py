"""Of too many pairs those silent longest go, each machine's own first."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streams.fold.instance_bounds import within_bounds

pairs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99)), max_size=60)


@given(pairs, st.integers(1, 40), st.integers(1, 20))
def test_the_bounds_hold_and_the_newest_stay(rows: list[tuple[int, int]], most: int, of_machine: int) -> None:
    """No machine has more than it may, nor all together; what goes is not newer than what stays of its machine."""
    machines = np.array([machine for machine, _ in rows], np.intp)
    at = np.array([float(moment) for _, moment in rows])
    kept = within_bounds(machines, at, most, of_machine)
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert len(kept) <= most
    assert np.bincount(machines[kept], minlength=1).max() <= of_machine
    gone = np.setdiff1d(np.arange(len(rows)), kept)
    for machine in np.unique(machines[gone]):
        here, left = at[kept[machines[kept] == machine]], at[gone[machines[gone] == machine]]
        assert not here.size or here.min() >= left.max()
    if len(rows) <= most and np.bincount(machines, minlength=1).max() <= of_machine:
        assert len(kept) == len(rows)
