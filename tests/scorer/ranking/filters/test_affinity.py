"""The filters `affinity` and `anti_affinity`: near other instances, or away from them."""

from __future__ import annotations

from typing import Any

from scorer.ranking.filters import affinity as near
from tests.rows import each_row
from tests.scorer.fleets import machine, passes

REDIS = {"instances": {"app": "redis"}}


RACK = {"instances": {"app": "redis"}, "topology": "rack"}


@each_row(
    ("plugin", "asked", "expected"),
    [
        (near.Affinity(), {"affinity": [REDIS]}, "a"),
        (near.Affinity(), {"affinity": [RACK]}, "a b"),
        (near.Affinity(), {"affinity": [{"instances": {"app": "none"}}]}, ""),
        (
            near.Affinity(),
            {"affinity": [{"instances": {"app": "new"}, "topology": "rack"}], "labels": {"app": "new"}},
            "a b c",
        ),
        (near.Affinity(), {"affinity": [{"instances": {"cluster": "c1"}}]}, "c"),
        (near.AntiAffinity(), {"anti_affinity": [REDIS]}, "b c d"),
        (near.AntiAffinity(), {"anti_affinity": [RACK]}, "c d"),
        (near.AntiAffinity(), {"anti_affinity": [REDIS, {"instances": {"cluster": "c1"}}]}, "b d"),
        (near.AntiAffinity(), {"anti_affinity": [{"instances": {"app": "redis", "cluster": "c1"}}]}, "a b c d"),
    ],
)
def test_affinity(plugin: Any, asked: dict[str, Any], expected: str) -> None:
    """Near, or far from, instances by machine and by topology label; the first of a group may start."""
    machines = [
        machine("a", labels={"rack": "r1"}),
        machine("b", labels={"rack": "r1"}),
        machine("c", labels={"rack": "r2"}),
        machine("d"),
    ]
    instances = [
        {"id": "1", "machine": "a", "labels": {"app": "redis"}},
        {"id": "2", "machine": "c", "cluster": "c1"},
    ]
    assert passes(plugin, *machines, instances=instances, **asked) == expected
