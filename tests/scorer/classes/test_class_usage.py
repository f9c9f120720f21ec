"""Usage by class follows from the ledger's classes, and counts only what the ledger has on that machine."""

from __future__ import annotations

import numpy as np

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.classes.class_usage import class_usage, measured_usage, prod_and_system
from scorer.ledger.view.residents import Residents
from tests.scorer.fleets import fleet, machine

CPU = RESOURCES.index("cpu")


def test_usage_by_class() -> None:
    """Measured usage by the ledger's class; an instance without a report is unmeasured, with what it asks."""
    offline = fleet(
        machine("a", usage={"cpu": 9}, system={"cpu": 1}),
        machine("silent", usage={"cpu": 9}),
        instances=[
            {"id": "one", "machine": "a", "cpu": 4, "usage": {"cpu": 3}},
            {"id": "two", "machine": "a", "cpu": 4, "usage": {"cpu": 2}},
            {"id": "low", "machine": "a", "cpu": 5, "priority_class": "batch", "usage": {"cpu": 2.5, "memory": 7}},
            {"id": "new", "machine": "a", "cpu": 6, "priority_class": "batch"},
            {"id": "old", "machine": "a", "cpu": 7, "priority_class": "mid", "usage": {"cpu": 7}, "usage_age_s": 601},
            {"id": "far", "machine": "silent", "cpu": 1},
        ],
        leavers=[{"id": "gone", "machine": "a", "cpu": 8, "usage": {"cpu": 8}}],
    )
    found = class_usage(offline.snapshot, offline.ledger)
    by_name = dict(zip(PRIORITY_CLASSES, found.used[:, CPU, 0].tolist(), strict=True))
    assert by_name == {"prod": 5.0, "mid": 0.0, "batch": 2.5, "free": 0.0}
    unmeasured = dict(zip(PRIORITY_CLASSES, found.unmeasured[:, CPU, 0].tolist(), strict=True))
    assert unmeasured == {"prod": 0.0, "mid": 7.0, "batch": 6.0, "free": 0.0}
    assert found.system[CPU].tolist()[0] == 1.0
    assert found.measured == 3
    placed = Residents(offline.ledger, offline.snapshot.roster).placed()
    np.testing.assert_equal(measured_usage(offline.snapshot, placed)[CPU], [3, 2, 2.5, np.nan, np.nan, np.nan])
    assert np.isnan(found.used[:, :, 1]).all()
    assert np.isnan(found.system[:, 1]).all()
    assert found.unmeasured[0, CPU].tolist() == [0.0, 1.0]
    np.testing.assert_equal(prod_and_system(found)[:, CPU], [[5.0, np.nan], [1.0, np.nan]])
    assert found.used[PRIORITY_CLASSES.index("batch"), RESOURCES.index("memory"), 0] == 7.0


def test_a_fleet_without_reports_has_no_usage_by_class() -> None:
    """Not known, never zero."""
    offline = fleet(machine("a", usage={"cpu": 9}))
    assert np.isnan(class_usage(offline.snapshot, offline.ledger).used).all()
