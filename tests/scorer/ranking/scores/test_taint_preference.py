"""The score `taint_preference`."""

from __future__ import annotations

from scorer.ranking.scores.taint_preference import TaintPreference
from tests.scorer.fleets import request, scores
from tests.scorer.ranking.rankings import small_fleet


def test_a_taint_to_avoid_costs_unless_it_is_tolerated() -> None:
    """The machine with it scores nothing; a toleration makes both equal."""
    assert scores(TaintPreference(), small_fleet()) == {"a": 0, "b": 100}
    assert scores(TaintPreference(), small_fleet(), request(tolerations=[{"key": "old"}])) == {"a": 100, "b": 100}
