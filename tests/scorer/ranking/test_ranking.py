"""The order of a ranking: ties, and the best few."""

from __future__ import annotations

import numpy as np

from tests.scorer.fleets import fleet, machine
from tests.scorer.ranking.rankings import ranked


def test_equal_machines_tie_and_the_first_name_wins() -> None:
    """Between equals the name decides, whatever the order of the rows."""
    names = ["m2", "m10", "m1", "m3"]
    offline = fleet(*(machine(name, usage={"cpu": 1, "memory": 1}) for name in names))
    found = ranked(offline, cpu=1)
    assert [offline.snapshot.names[row] for row in found.best_first] == ["m1", "m10", "m2", "m3"]
    assert np.ptp(found.total) == 0


def test_the_best_few_are_the_first_of_the_whole_order() -> None:
    """Choosing a few of many finds the same as sorting all, ties included."""
    rng = np.random.default_rng(1)
    offline = fleet(*(machine(f"m{n:04}", usage={"cpu": int(rng.integers(0, 8)), "memory": 5}) for n in range(1500)))
    found = ranked(offline, cpu=1)
    for count in (1, 5, 40, 200):
        assert found.best(count).tolist() == found.best_first[:count].tolist()
