"""The score `apart`, and the default profile that uses it."""

from __future__ import annotations

import pytest

from scorer.ranking.explanation.explain import answer
from scorer.ranking.scores.apart import Apart
from tests.scorer.fleets import fleet, machine, ranked, request, scores
from tests.scorer.ranking.rankings import small_fleet


def test_each_instance_of_the_cluster_counts() -> None:
    """By one more each; another cluster's do not."""
    there = [{"id": f"c-{number}", "machine": "b", "cpu": 1, "cluster": "c"} for number in range(3)]
    state = fleet(machine("a"), machine("b"), instances=there)
    assert scores(Apart(), state, request(cluster="c")) == {"a": 100, "b": 25}
    assert scores(Apart(), state, request(cluster="d")) == {"a": 100, "b": 100}


def test_a_request_without_a_cluster_has_no_such_score() -> None:
    """It is skipped."""
    ranking = ranked(small_fleet(), {"scores": [{"use": "apart"}, {"use": "least_allocated"}]}, request(cpu=1))
    assert list(answer(ranking).candidates[0].scores) == ["least_allocated"]


IDLE = {"cpu": 0.0, "memory": 0.0}
HOT = {"cpu": 0.8 * 32, "memory": 0.0}


@pytest.mark.parametrize(
    ("usage", "full", "chosen"),
    [
        pytest.param(IDLE, False, "b", id="an idle one"),
        pytest.param(HOT, False, "b", id="a hot one that still fits"),
        pytest.param(HOT, True, "a", id="but a full one"),
    ],
)
def test_the_default_keeps_a_cluster_apart(usage: dict[str, float], full: bool, chosen: str) -> None:
    """On any other machine that takes it, however loaded; together only where no other does, and the answer says so."""
    placed = [{"id": "c-1", "machine": "a", "cpu": 1, "cluster": "c"}]
    placed += [{"id": "big", "machine": "b", "cpu": 32}] if full else []
    state = fleet(machine("a", cpu=32.0, usage=IDLE), machine("b", cpu=32.0, usage=usage), instances=placed)
    found = answer(ranked(state, "windward", request(cpu=1, cluster="c")))
    assert found.machine == chosen
    assert any("cluster c" in line for line in found.warnings) == full
