"""The estimate of what an instance will use."""

from __future__ import annotations

from typing import Any

import pytest

from scorer.ledger.view.slots import request_record
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.profiles.profile import LoadModel
from tests.rows import each_row
from tests.scorer.fleets import fleet, machine, request, see


@each_row(
    ("estimate", "asked", "cpu"),
    [
        (Estimate(), {"cpu": 4, "limits": {"cpu": 8}}, 4),
        (Estimate(factor={"cpu": 0.85}), {"cpu": 4}, 3.4),
        (Estimate(base="larger", factor={"cpu": 0.85}), {"cpu": 4, "limits": {"cpu": 8}}, 6.8),
        (Estimate(base="larger", factor={"cpu": 1.2}), {"cpu": 4, "limits": {"cpu": 4}}, 4),
        (Estimate(base="limit-first", factor={"cpu": 1.5}), {"cpu": 4, "limits": {"cpu": 0}}, 0),
        (Estimate(base="limit-first", factor={"cpu": 1.5}), {"cpu": 4}, 6),
        (Estimate(default={"cpu": 0.25}), {}, 0.25),
        (Estimate(factor={"cpu": 0.85}), {"cpu": 4, "expected": {"cpu": 0.1}}, 0.1),
    ],
)
def test_what_an_instance_is_expected_to_use(estimate: Estimate, asked: dict[str, Any], cpu: float) -> None:
    """Base, factor, cap at the limit, default; an explicit figure wins. Requested and placed instance agree."""
    assert estimate.of_records(request_record(request(**asked)))[0, 0] == pytest.approx(cpu)
    offline = fleet(machine("m", usage={"cpu": 0}), instances=[{"id": "i", "machine": "m", "placed_ago_s": 0, **asked}])
    assert see(offline, None, LoadModel(estimate=estimate)).mean[0, 0] == pytest.approx(cpu)


@pytest.mark.parametrize("settings", [{"factor": {"cpu": -1}}, {"default": {"gpu": 1}}])
def test_an_estimate_out_of_range_is_refused(settings: dict[str, Any]) -> None:
    """A negative factor or unknown resource is an error that names it."""
    with pytest.raises(ValueError, match=next(iter(settings))):
        Estimate(**settings)
