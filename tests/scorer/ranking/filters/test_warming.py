"""The filter `warming`: how much of a window must be covered."""

from __future__ import annotations

from scorer.ranking.filters.warming import Warming
from tests.scorer.fleets import machine, passes


def test_warming_is_off_until_a_coverage_is_asked_for() -> None:
    """By default a warming machine passes; half a window may be required."""
    thin = machine("m", usage={"cpu": {"mean": 1, "coverage": 0.4}})
    assert passes(Warming(), thin) == "m"
    assert passes(Warming(coverage_min=0.5), thin) == ""
