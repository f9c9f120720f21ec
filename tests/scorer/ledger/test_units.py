"""Whole units: how amounts are rounded."""

from __future__ import annotations

import math

from scorer.ledger.units import in_units


def test_units_round_to_the_nearest_and_nan_is_no_limit() -> None:
    """Amounts become whole numbers; what is not known limits nothing."""
    assert in_units("cpu", 0.1) * 39 == in_units("cpu", 3.9)
    assert in_units("memory", 0.4) == 0
    assert in_units("nic", math.nan) == -1
    assert in_units("cpu", math.inf) == 2**53
