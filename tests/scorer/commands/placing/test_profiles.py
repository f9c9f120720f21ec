"""What `windward profiles` tells of a profile: what it compares by resource, and what it has otherwise than another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scorer.commands.placing import profiles as command

MINE = """
stale_s = 90.0
filters = [
    {use = "fits", ratio = {cpu = 2.0}},
    {use = "usage_threshold", thresholds = {cpu = 0.8, memory = 0.9}, percentile_thresholds = {cpu = 0.95}},
]
scores = [{use = "least_allocated"}]
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    return str(file)


def test_what_is_compared_is_told_by_resource(mine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A threshold of a percentile of cpu stands beside that of its mean, and that of memory is still there."""
    assert command.main(["check", mine], {}) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in shown if line.startswith(("  cpu", "  memory"))] == [
        "cpu: promised at most 2 of allocatable (fits)",
        "cpu: used (mean), with the request, at most 2 of allocatable (fits)",
        "cpu: used (p95) at most 0.95 of allocatable (usage_threshold)",
        "cpu: used (mean) at most 0.8 of allocatable (usage_threshold)",
        "memory: promised at most 1 of allocatable (fits)",
        "memory: used (mean), with the request, at most 1 of allocatable (fits)",
        "memory: used (mean) at most 0.9 of allocatable (usage_threshold)",
    ]


def test_of_the_peers_rule_only_what_is_compared_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `instead` the percentiles take the place of the means, and no other resource is compared by the filter."""
    file = tmp_path / "peer.toml"
    file.write_text(MINE.replace("percentile", "instead = true, percentile"))
    assert command.main(["check", str(file), "--json"], {}) == 0
    told = json.loads(capsys.readouterr().out)["compares"]
    assert [one["resource"] for one in told if one["filter"] == "usage_threshold"] == ["cpu"]


def test_a_difference_is_told_by_setting(mine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is added and taken away, and each changed number; nothing of equal profiles."""
    other = tmp_path / "other.toml"
    other.write_text(
        MINE.replace("0.8", "0.7").replace("90.0", "60.0").replace("least_", "most_").replace("percentile", "prod")
    )
    assert command.main(["diff", str(other), "--against", mine], {}) == 0
    assert capsys.readouterr().out.splitlines() == [
        "  stale_s: 90.0 -> 60.0",
        "  filters.usage_threshold.thresholds.cpu: 0.8 -> 0.7",
        "  filters.usage_threshold.percentile_thresholds.cpu: 0.95 -> (not given)",
        "- scores.least_allocated",
        "  filters.usage_threshold.prod_thresholds.cpu: (not given) -> 0.95",
        "+ scores.most_allocated",
    ]
    assert command.main(["diff", mine, "--against", mine], {}) == 0
    assert capsys.readouterr().out == "no difference\n"
