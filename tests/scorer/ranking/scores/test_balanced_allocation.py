"""The score `balanced_allocation` against kube-scheduler's own tables."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.ranking.scores.balanced_allocation import BalancedAllocation
from tests.rows import each_row
from tests.scorer.fleets import by_name, cases, fleet, machine, raw_scores, request, score_told, scores
from tests.scorer.ranking.kube_scheduler import read


@each_row("row", cases("k8s_balanced_allocation"), ids=by_name)
def test_balanced_allocation_as_kube_scheduler(row: dict[str, Any]) -> None:
    """Balance after the placement (to v1.35) and its change (v1.36) give the peer's whole numbers."""
    offline, asked, settings = read(row)
    form = {"std_after": "v1.22", "delta": "v1.36"}[row["inputs"]["variant"]]
    found = score_told(offline, {"use": "balanced_allocation", "form": form, **settings}, asked)
    skipped = row["expected"].get("status") == "Skip"
    assert {name: told["raw"] for name, told in found.items() if told} == ({} if skipped else row["expected"]["scores"])


def test_the_balance_of_two_is_half_their_distance_to_the_last_bit() -> None:
    """Of 8 and 1 of 10 the peer's floats make 64.99..., which truncates to 64, and so do ours."""
    offline = fleet(
        machine("m", "10m", 10), machine("other", "10m", 10), instances=[{"id": "i", "machine": "m", "memory": 1}]
    )
    found = scores(BalancedAllocation(rounding=True), offline, request(cpu="8m"))
    assert found == {"m": 64, "other": 60}


@pytest.mark.parametrize(
    "row", cases("seed_examples", "balanced_legacy") + cases("seed_examples", "balanced_legacy_volumes"), ids=by_name
)
def test_balance_as_up_to_v1_21(row: dict[str, Any]) -> None:
    """The old form takes the distance of two shares, the variance of three, and 0 when one is full."""
    names = ("cpu", "memory", "nic")[: len(row["inputs"]["fractions"])]
    allocated = dict(zip(names, row["inputs"]["fractions"], strict=True))
    whole = machine("m", None, None, capacity=dict.fromkeys(names, PARTS))
    there = {name: share * PARTS for name, share in allocated.items()} | {"cpu": allocated["cpu"] * PARTS - 1}
    weights = dict.fromkeys(names, 1.0)
    score = {"use": "balanced_allocation", "form": "v1.21", "weights": weights, "extended": [], "rounding": True}
    found = raw_scores(fleet(whole, instances=[{"id": "a", "machine": "m", **there}]), score, request(cpu=1))
    assert found["m"] == row["expected"]["score"]


def test_one_resource_alone_is_balanced() -> None:
    """There is nothing to compare it with: 100 in every form, on a full machine, too."""
    offline = fleet(machine("m", 10, 10), instances=[{"id": "i", "machine": "m", "cpu": 6}])
    for form in ("v1.21", "v1.22"):
        plugin = BalancedAllocation(form=form, weights={"cpu": 1.0})  # type: ignore[arg-type]
        assert [scores(plugin, offline, request(cpu=cpu))["m"] for cpu in (1, 4)] == [100, 100]


PARTS = 10_000
"""Cores, or bytes, of a machine whose allocated shares a row gives."""
