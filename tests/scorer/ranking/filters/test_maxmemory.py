"""The filter `maxmemory`: the sum of what instances may grow to."""

from __future__ import annotations

from scorer.ranking.filters.maxmemory import Maxmemory
from tests.scorer.fleets import machine, passes


def test_sum_of_maxmemory() -> None:
    """The sum of maxmemory with the requested instance's stays within the share of memory."""
    taken = [{"id": "i", "machine": "a", "maxmemory": 50}]
    assert passes(Maxmemory(share=0.8), machine("a"), machine("b"), instances=taken, maxmemory=30) == "a b"
    assert passes(Maxmemory(share=0.8), machine("a"), machine("b"), instances=taken, maxmemory=31) == "b"
