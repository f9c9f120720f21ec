"""The filter `cordon`: machines out of use."""

from __future__ import annotations

from scorer.ranking.filters.cordon import Cordon
from tests.scorer.fleets import machine, passes


def test_a_cordoned_machine_takes_nothing() -> None:
    """It is refused, and no other."""
    assert passes(Cordon(), machine("a", operator={"cordon": True}), machine("b")) == "b"
