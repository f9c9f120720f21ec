"""The score `machine_preference`."""

from __future__ import annotations

import pytest

from scorer.ranking.scores.machine_preference import MachinePreference
from tests.scorer.fleets import request, scores
from tests.scorer.ranking.rankings import small_fleet


def test_preferred_labels_score_by_their_weight() -> None:
    """The weights of the selectors that match, as a share of all; in whole points where the setting says so."""
    prefer = request(prefer=[{"selector": "disk=ssd", "weight": 3}, {"selector": "rack", "weight": 1}])
    assert scores(MachinePreference(), small_fleet(), prefer) == {"a": 100, "b": pytest.approx(100 / 3)}
    assert scores(MachinePreference(rounding=True), small_fleet(), prefer)["b"] == 33
