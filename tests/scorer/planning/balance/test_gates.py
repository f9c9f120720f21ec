"""Which machines give and take by thresholds around or beside the mean."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from schemas.resources import RESOURCES
from scorer.planning.balance.gates import ceiling_of, over_and_under

CPU, MEMORY = RESOURCES.index("cpu"), RESOURCES.index("memory")
FRESH = np.array([True, True, True, False])


def utilization() -> np.ndarray:
    """Four machines, the last without fresh data; memory of the third is not known."""
    found = np.full((len(RESOURCES), 4), np.nan)
    found[CPU] = 0.9, 0.5, 0.1, 0.9
    found[MEMORY] = 0.2, 0.8, np.nan, 0.2
    return found


@pytest.mark.parametrize(
    ("high", "low", "deviation", "over", "under"),
    [
        pytest.param({}, {}, False, [1, 1, 1, 0], [1, 1, 1, 0], id="without thresholds every fresh machine is both"),
        pytest.param({"cpu": 80}, {}, False, [1, 0, 0, 0], [1, 1, 1, 0], id="any above high"),
        pytest.param({"cpu": 80, "memory": 70}, {}, False, [1, 1, 0, 0], [1, 1, 1, 0], id="of any resource"),
        pytest.param({"cpu": 90}, {"cpu": 50}, False, [0, 0, 0, 0], [0, 1, 1, 0], id="equal is not above"),
        pytest.param({}, {"cpu": 60, "memory": 50}, False, [1, 1, 1, 0], [0, 0, 1, 0], id="unknown is not above low"),
        pytest.param({"cpu": 20}, {"cpu": 20}, True, [1, 0, 0, 0], [0, 0, 1, 0], id="around the mean of 0.5"),
    ],
)
def test_over_and_under(
    high: Mapping[str, float], low: Mapping[str, float], deviation: bool, over: list[int], under: list[int]
) -> None:
    """A machine without fresh data is neither."""
    found = over_and_under(utilization(), FRESH, high, low, deviation)
    assert [each.astype(int).tolist() for each in found] == [over, under]


def test_the_ceiling_of_targets() -> None:
    """The high threshold of a resource that is looked at; none where there is no threshold."""
    assert ceiling_of([CPU, MEMORY], utilization(), FRESH, {"cpu": 80}).tolist() == [0.8, np.inf]
    assert ceiling_of([CPU], utilization(), FRESH, {"cpu": 20}, True).tolist() == pytest.approx([0.7])
