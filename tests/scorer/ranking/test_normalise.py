"""Normalisation: as they are, between least and largest, or by place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scorer.ranking.normalise import Among, normalise


@pytest.mark.parametrize(
    ("how", "expected"), [("none", [1.0, 3.0, 2.0, 3.0]), ("min-max", [0, 100, 50, 100]), ("rank", [0, 100, 50, 100])]
)
def test_normalisation(how: Any, expected: list[float]) -> None:
    """As they are, spread between least and largest, or by place."""
    values, slope, start = normalise(np.array([1.0, 3.0, 2.0, 3.0]), Among(np.ones(4, bool)), how)
    assert (slope * values + start).tolist() == pytest.approx(expected)


def test_normalisation_looks_at_the_feasible_only_and_spreads_no_rounding_errors() -> None:
    """An infeasible extreme does not count; values equal up to rounding all become 100."""
    values, slope, start = normalise(np.array([0.0, 1.0, 2.0]), Among(np.array([False, True, True])), "min-max")
    assert (slope * values + start).tolist()[1:] == [0, 100]
    values, slope, start = normalise(np.array([75.0, 75.0 + 1e-14]), Among(np.ones(2, bool)), "min-max")
    assert (slope * values + start).tolist() == [100, 100]
