"""The filter `usage_threshold`: measured load with the requested instance."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.ranking.filters.usage_threshold import UsageThreshold
from tests.rows import each_row
from tests.scorer.fleets import BUSY, IDLE, fleet, machine, passes, request, verdicts, why


@each_row(
    ("name", "settings", "usage", "asked", "passed"),
    [
        ("below", {"thresholds": {"cpu": 0.8}}, {"cpu": 7, "memory": 0}, {"cpu": 1}, True),
        ("the requested instance counts", {"thresholds": {"cpu": 0.8}}, {"cpu": 7, "memory": 0}, {"cpu": 1.1}, False),
        (
            "expected usage counts, not the request",
            {"thresholds": {"cpu": 0.8}},
            {"cpu": 7, "memory": 0},
            {"cpu": 3, "expected": {"cpu": 0.5}},
            True,
        ),
        (
            "a resource without threshold is not looked at",
            {"thresholds": {"memory": 0.8}},
            BUSY | {"memory": 0},
            {},
            True,
        ),
        (
            "a percentile instead of the mean",
            {"percentile_thresholds": {"cpu": 0.8}},
            {"cpu": {"mean": 1, "p95": 9}, "memory": 0},
            {},
            False,
        ),
        (
            "another percentile",
            {"percentile_thresholds": {"cpu": 0.8}, "statistic": "p50"},
            {"cpu": {"mean": 1, "p95": 9, "p50": 1}, "memory": 0},
            {},
            True,
        ),
        (
            "the maximum",
            {"percentile_thresholds": {"cpu": 0.8}, "statistic": "max"},
            {"cpu": {"mean": 1, "max": 9}, "memory": 0},
            {},
            False,
        ),
        ("nic by threshold", {"thresholds": {"nic": 0.5}}, {"cpu": 0, "memory": 0, "nic": 60}, {}, False),
        ("nic unknown and not asked for", {"thresholds": {"nic": 0.5}}, {"cpu": 0, "memory": 0}, {}, True),
        ("nic unknown and asked for", {"thresholds": {"nic": 0.5}}, {"cpu": 0, "memory": 0}, {"nic": 1}, False),
        ("cpu unknown", {"thresholds": {"cpu": 0.5}}, {"memory": 0}, {}, False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_usage_threshold(
    name: str,
    settings: dict[str, Any],
    usage: dict[str, Any],
    asked: dict[str, Any],
    passed: bool,
) -> None:
    """Usage with the requested instance stays at or below the share of allocatable."""
    one = machine("m", usage=usage, capacity={"nic": 100})
    assert passes(UsageThreshold(**settings), one, **asked) == ("m" if passed else "")


def test_usage_threshold_sees_credits() -> None:
    """A placed instance that no window shows yet counts as load."""
    instances = [{"id": "i", "machine": "m", "cpu": 5, "placed_ago_s": 0}]
    plugin = UsageThreshold(thresholds={"cpu": 0.8})
    assert passes(plugin, machine("m", usage={"cpu": 2}), instances=instances, cpu=2) == ""
    assert passes(plugin, machine("m", usage={"cpu": 2}), instances=instances, cpu=1) == "m"


def test_a_machines_own_thresholds_replace_the_group() -> None:
    """An operator's thresholds of one machine replace all of the profile's, there only."""
    own = {"thresholds": {"memory": 0.5}}
    machines = [
        machine("own", usage={"cpu": 9, "memory": 20}, operator=own),
        machine("plain", usage={"cpu": 9, "memory": 20}),
    ]
    assert passes(UsageThreshold(thresholds={"cpu": 0.8}), *machines) == "own"
    strict = [machine("own", usage=IDLE, operator={"thresholds": {"cpu": 0.05}}), machine("plain", usage=IDLE)]
    assert passes(UsageThreshold(), *strict, cpu=1) == "plain"


def test_prod_thresholds_are_for_prod_newcomers() -> None:
    """A request of class prod is judged by what prod uses; another by all usage."""
    plugin = UsageThreshold(thresholds={"cpu": 0.8}, prod_thresholds={"cpu": 0.5})
    one = machine("m", usage={"cpu": 7, "memory": 0}, classes={"prod": {"cpu": 2}})
    assert passes(plugin, one, cpu=2, priority_class="prod") == "m"
    assert passes(plugin, one, cpu=2, priority_class="batch") == ""


@each_row(
    ("name", "prod", "said", "refused"),
    [
        ("as measured of its instances", {"usage": {"cpu": 2}}, {}, []),
        ("more of it", {"usage": {"cpu": 4}}, {}, ["cpu used by prod over threshold"]),
        ("measured too long ago: as expected", {"usage": {"cpu": 2}, "usage_age_s": 700}, {"system": {"cpu": 0}},
         ["cpu used by prod over threshold"]),
        ("as samples split it, first of all", {"usage": {"cpu": 4}}, {"classes": {"prod": {"cpu": 2}}}, []),
        ("measured by nobody", {}, {}, ["cpu usage by prod unknown"]),
        ("it came a moment ago: as expected", {"placed_ago_s": 60}, {}, ["cpu used by prod over threshold"]),
        ("none of prod is there", {"priority_class": "mid"}, {}, []),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_what_prod_uses_is_measured(name: str, prod: dict[str, Any], said: dict[str, Any], refused: list[str]) -> None:
    """Of 10 cores prod may use 5, with the 2 requested; what batch uses beside it is not looked at."""
    plugin = UsageThreshold(thresholds={"cpu": 0.8}, prod_thresholds={"cpu": 0.5})
    batch = {"id": "b", "machine": "m", "cpu": 5, "priority_class": "batch"}
    instances = [{"id": "p", "machine": "m", "cpu": 4, **prod}, batch | ({"usage": {"cpu": 5}} if prod else {})]
    there = machine("m", usage={"cpu": 9, "memory": 0}, **said)
    assert why(plugin, there, instances=instances, cpu=2) == refused
    assert why(plugin, there, instances=instances, cpu=2, priority_class="batch") == ["cpu over threshold"]


def test_a_machine_without_data_or_prod() -> None:
    """An empty machine takes prod although its agent reports no instance; one without any data does not."""
    plugin = UsageThreshold(prod_thresholds={"cpu": 0.5})
    assert passes(plugin, machine("empty", usage={"cpu": 9, "memory": 0}), machine("silent"), cpu=2) == "empty"


def test_whose_usage_was_compared_is_explained() -> None:
    """Of a request of prod, where there are thresholds for it."""
    profile = {"use": "usage_threshold", "thresholds": {"cpu": 0.8}, "prod_thresholds": {"cpu": 0.5}}
    offline = fleet(
        machine("m", usage={"cpu": 9, "memory": 0}),
        instances=[{"id": "p", "machine": "m", "cpu": 4, "usage": {"cpu": 2}}],
    )
    compared = {of: verdicts(offline, profile, request(priority_class=of))["m"]["compared"] for of in ("prod", "batch")}
    assert compared["prod"]["usage_of"] == "prod"
    assert compared["prod"]["usage"]["cpu"] == pytest.approx(0.2)
    assert "usage_of" not in compared["batch"]


def test_usage_threshold_names_the_resource() -> None:
    """The first resource that is over stands in the reason."""
    plugin = UsageThreshold(thresholds={"cpu": 0.5, "memory": 0.5})
    machines = [machine("c", usage={"cpu": 9, "memory": 0}), machine("m", usage={"cpu": 0, "memory": 90})]
    assert why(plugin, *machines) == ["cpu over threshold", "memory over threshold"]


@pytest.mark.parametrize("thresholds", [{"cpu": 0.5, "nic": 0.5}, {"cpu": 0.5, "memory": 0.9, "nic": 0.5}])
def test_thresholds_of_any_resources(thresholds: dict[str, float]) -> None:
    """A resource with a threshold is looked at, whichever others have one; those without refuse no machine."""
    machines = [
        machine("cpu", usage={"cpu": 6, "memory": 8, "nic": 10}, capacity={"nic": 1000}),
        machine("nic", usage={"cpu": 1, "memory": 8, "nic": 600}, capacity={"nic": 1000}),
        machine("neither", usage={"cpu": 1, "memory": 8, "nic": 10}, capacity={"nic": 1000}),
        machine("no nic", usage={"cpu": 1, "memory": 8}),
    ]
    assert passes(UsageThreshold(thresholds=thresholds), *machines) == "neither no nic"
