"""The score `data_locality`."""

from __future__ import annotations

from scorer.ranking.scores.data_locality import DataLocality
from tests.scorer.fleets import request, scores
from tests.scorer.ranking.rankings import small_fleet


def test_data_that_is_there_scores() -> None:
    """By the share of the asked labels that the machine has."""
    assert scores(DataLocality(), small_fleet(), request(data_labels=["image-x", "disk=hdd"])) == {"a": 50, "b": 50}
