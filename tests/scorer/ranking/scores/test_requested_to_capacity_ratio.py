"""The score `requested_to_capacity_ratio` against kube-scheduler's own tables."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.ranking.scores.requested_to_capacity_ratio import RequestedToCapacityRatio
from tests.rows import each_row
from tests.scorer.fleets import by_name, cases, fleet, machine, raw_scores, request, scores
from tests.scorer.ranking.kube_scheduler import DEFAULTS, read


@pytest.mark.parametrize("row", cases("k8s_requested_to_capacity_ratio", "score"), ids=by_name)
def test_requested_to_capacity_ratio_as_kube_scheduler(row: dict[str, Any]) -> None:
    """The ratio with a shape gives the peer's whole numbers on its own table."""
    offline, asked, settings = read(row)
    shape = [[point["utilization_percent"], point["score_0_10"]] for point in row["inputs"]["shape"]]
    score = {"use": "requested_to_capacity_ratio", "shape": shape, **settings, **DEFAULTS}
    assert raw_scores(offline, score, asked) == row["expected"]["scores"]


@pytest.mark.parametrize(
    ("name", "allocatable", "expected"),
    [
        ("a resource without allocatable is left out", {"cpu": 0, "memory": 1000}, 30),
        ("so is one whose allocatable nobody knows", {"memory": 1000}, 30),
        ("without any the score is 0", {"cpu": 0, "memory": 0}, 0),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_ratio_of_a_resource_that_is_not_there(name: str, allocatable: dict[str, float], expected: int) -> None:
    """What a machine does not have counts neither as empty nor as full."""
    offline = fleet(machine("m", None, None, capacity=allocatable))
    plugin = RequestedToCapacityRatio(shape=((0, 0), (100, 10)), rounding=True)
    assert scores(plugin, offline, request(cpu=1, memory=300)) == {"m": expected}


def test_a_resource_that_scores_0_counts_neither_way() -> None:
    """0 is neutral in the peer: a full resource beside one of 80 leaves 80."""
    offline = fleet(machine("m", 1, 100))
    score = {"use": "requested_to_capacity_ratio", "shape": [[0, 10], [100, 0]], "rounding": True}
    assert raw_scores(offline, score, request(cpu=1, memory=20)) == {"m": 80}


@each_row("row", cases("k8s_requested_to_capacity_ratio", "broken_linear"), ids=by_name)
def test_broken_line_truncates_as_the_peer(row: dict[str, Any]) -> None:
    """The line between two points truncates toward zero, on rising and falling slopes."""
    points = [(point["utilization"], point["score"]) for point in row["inputs"]["points"]]
    at = row["inputs"]["p"]
    if not (points[0][0] >= 0 and points[-1][0] <= 100 and 0 <= at <= 100 and all(0 <= y <= 100 for _, y in points)):
        pytest.skip("no machine has such a utilization, and no shape such a point")
    shape = tuple((float(x), y / 10) for x, y in points)
    plugin = RequestedToCapacityRatio(shape=shape, rounding=True, weights={"cpu": 1.0})
    found = scores(plugin, fleet(machine("m", 100)), request(cpu=at))
    assert found == {"m": row["expected"]["value"]}


@pytest.mark.parametrize("shape", [(), ((50, 1), (20, 2)), ((0, 11),), ((0, 1), (101, 2))])
def test_a_shape_out_of_range_is_refused(shape: Any) -> None:
    """A shape must rise in utilization and stay within its ranges."""
    with pytest.raises(ValueError, match="shape"):
        RequestedToCapacityRatio(shape=shape)
