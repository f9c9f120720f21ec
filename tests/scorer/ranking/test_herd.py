"""A burst does not run into one machine: two cells of `tests.bench.bench_herd`, which has the whole grid."""

from __future__ import annotations

import pytest

from tests.bench.bench_herd import simulate
from tests.effort import effort


@pytest.mark.long
@pytest.mark.parametrize(
    ("window_s", "age_s", "burst", "most"),
    [
        pytest.param(60, 2, 25, 0.5, id="fresh and short"),
        pytest.param(3600, 900, 100, 1.0, id="an hour's mean, a quarter of an hour old", marks=pytest.mark.slow),
    ],
)
def test_bursts_spread_better_than_at_random(window_s: int, age_s: int, burst: int, most: float) -> None:
    """The std of utilization is at most so many times random's; without credits it would be a multiple of it."""
    measured_s = effort(150, 3600)
    random = simulate("random", window_s, age_s, burst, measured_s=measured_s)
    assert simulate("windward", window_s, age_s, burst, measured_s=measured_s).std <= most * random.std
    assert simulate("risk", window_s, age_s, burst, measured_s=measured_s).std > random.std
