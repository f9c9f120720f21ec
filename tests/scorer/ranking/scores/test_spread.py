"""The score `spread`."""

from __future__ import annotations

from scorer.ranking.scores.spread import Spread
from tests.scorer.fleets import request, scores
from tests.scorer.ranking.rankings import small_fleet


def test_instances_of_a_cluster_spread() -> None:
    """A machine with one of the cluster scores less; another cluster does not count."""
    assert scores(Spread(), small_fleet(), request(cluster="c")) == {"a": 0, "b": 100}
    assert scores(Spread(), small_fleet(), request(cluster="other")) == {"a": 100, "b": 100}
