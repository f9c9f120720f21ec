"""Whole units: how amounts are rounded, and which are too large."""

from __future__ import annotations

import math

from schemas.resources import RESOURCES
from scorer.ledger.record.units import in_units, too_large


def test_units_round_to_the_nearest_and_nan_is_no_limit() -> None:
    """Amounts become whole numbers; what is not known limits nothing."""
    assert in_units("cpu", 0.1) * 39 == in_units("cpu", 3.9)
    assert in_units("memory", 0.4) == 0
    assert in_units("nic", math.nan) == -1
    assert in_units("cpu", math.inf) == 2**53


def test_too_large_names_the_amount_and_the_limit() -> None:
    """An amount whose sums could not be exact is named."""
    rest = [0.0] * (len(RESOURCES) - 2)
    assert too_large((1.0, 1e9, *rest), 0.0) == ""
    assert too_large((1e15, 0.0, *rest), 0.0) == "cpu: at most 1,125,899,906 cores can be counted"
    assert too_large((None, 1e16, *rest), 0.0) == "memory: at most 1,125,899,906,842,624 bytes can be counted"
    assert too_large((0.0, 0.0, *rest), 1e300) == "maxmemory: at most 1,125,899,906,842,624 bytes can be counted"
