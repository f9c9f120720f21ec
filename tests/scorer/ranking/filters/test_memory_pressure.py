"""The filter `memory_pressure`: memory that runs full within minutes."""

from __future__ import annotations

from scorer.ranking.filters.memory_pressure import MemoryPressure
from tests.scorer.fleets import IDLE, machine, passes


def test_memory_pressure_goes_by_the_shortest_window() -> None:
    """A machine that ran full within minutes is refused although its hour is quiet."""
    windows = {"300": {"memory": 98}, "3600": {"memory": 40}}
    assert passes(MemoryPressure(available_min=0.05), machine("m", windows=windows), machine("ok", usage=IDLE)) == "ok"
    only = MemoryPressure(available_min=0.05, best_effort_only=True)
    assert passes(only, machine("m", windows=windows), memory=1) == "m"
    assert passes(only, machine("m", windows=windows)) == ""
