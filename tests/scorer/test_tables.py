"""Every row of every peer's table is judged by a test of its name, or stands here with the reason why not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scorer import (
    test_allocation_scores,
    test_filters,
    test_koordinator,
    test_load_variation_risk,
    test_rank,
    test_seed_examples,
    test_trimaran_scores,
)
from tests.scorer.fleets import CASES, cases

TABLES_NOT_HERE = {
    "koordinator_batch_resource": "sells what others leave unused; Windward places, it does not over-commit",
    "koordinator_low_node_load": "moves running instances; Windward only places new ones",
}
"""Tables of peers that have no counterpart."""

POD = "an instance asks for one amount: containers, init containers and overhead are summed by its deployer"
CACHE = "there is no cache to clean: what counts as recent is decided at each decision"
TIMER = "how long an estimate counts is the credit model's business: by the window, not by a timer"
PERCENTILE = (
    "percentiles come out of the fold, by numpy's inverted_cdf; of nothing it is NaN, and no other is asked for"
)
HTTP = "there is no HTTP interface: an unknown machine is not in the table, and without a table none is feasible"
OWN = "reservations are scored as what they hold of a machine, there is no separate score of one's own"
NOTE = "a remark on the text, no figure"
PRINTED = "how another tool prints a percentage"

NOT_HERE = {
    "k8s_least_allocated": dict([test_allocation_scores.WEIGHT_TOO_LARGE]),
    "k8s_most_allocated": dict([test_allocation_scores.WEIGHT_ZERO]),
    "koordinator_estimator": {
        "shouldEstimatePodDeadline/enabled for pod scheduled": TIMER,
        "shouldEstimatePodDeadline/disabled pod scheduled when pod initialized": TIMER,
        "shouldEstimatePodDeadline/enabled for pod initialized": TIMER,
        "shouldEstimatePodDeadline/disabled for pod initialized when condition is not satisfied": TIMER,
        "shouldEstimatePodDeadline/after pod scheduled from metadata": TIMER,
        "shouldEstimatePodDeadline/after initialized from metadata": TIMER,
        "percentile/illegal percentile": PERCENTILE,
        "percentile/illegal list length": PERCENTILE,
    },
    "load_watcher": {"API unknown host": HTTP, "API before start": HTTP},
    "reservation": {
        "derived: reservation expiring exactly now still counts": "a reservation that ends this very second has ended",
        "Reserve of a pod without a reservation changes nothing": "the ledger has its own state machine and tests",
        "koordinator Score/skip for reserve pod": OWN,
        "koordinator Score/no reservation matched on the node": OWN,
        "koordinator Score/reservation matched but zero-request pod": OWN,
        "koordinator Score/reservation matched and pod has part empty resource requests": OWN,
    },
    "seed_examples": {
        "idle headroom of a low node": "the descheduler's, which Windward has none of",
        "kubectl top node1 cpu": PRINTED,
        "kubectl top node2 cpu": PRINTED,
        "kubectl top node2 cpu (2nd listing)": PRINTED,
        "descheduling event vs configured thresholds": NOTE,
        "pod uses more CPU than its node": NOTE,
        "filter comparison operator and pending pods": NOTE,
        "legacy overhead unit bug": NOTE,
        "legacy 0..10 formulas": NOTE,
    },
    "trimaran_low_risk_overcommitment": {
        "GetResourceRequested/1": POD,
        "GetResourceLimits/1": POD,
        "GetResourceLimits/4": POD,
    },
    "trimaran_target_load_packing": {
        "handler cache: cleanupCache doesn't delete newly added pods": CACHE,
        "handler cache: cleanupCache deletes old pods": CACHE,
        "derived: a cache whose entries are ALL stale is not cleaned": CACHE,
    },
}
"""Rows that Windward deliberately has no answer to, and why, by table and name."""

MODULES = (
    test_allocation_scores,
    test_filters,
    test_koordinator,
    test_load_variation_risk,
    test_rank,
    test_seed_examples,
    test_trimaran_scores,
)


def judged() -> set[tuple[str, str]]:
    """Return source and name of the rows that a parametrized test is given."""
    found = set()
    for module in MODULES:
        for test in vars(module).values():
            for mark in getattr(test, "pytestmark", ()):
                if mark.name == "parametrize":
                    found |= {(row["source"], row["name"]) for row in _rows(mark.args[1])}
    return found


def _rows(values: Any) -> list[dict[str, Any]]:
    flat = [
        part for value in values for part in ((value,) if isinstance(value, dict) else getattr(value, "values", ()))
    ]
    return [part for part in flat if isinstance(part, dict) and {"source", "name", "expected"} <= part.keys()]


@pytest.mark.parametrize("table", sorted(path.stem for path in CASES.glob("*.json")))
def test_every_row_is_judged_or_listed(table: str) -> None:
    """No row is silently left out, and none is listed that a test judges."""
    seen = judged()
    left_out = {row["name"] for row in cases(table) if (row["source"], row["name"]) not in seen}
    assert left_out == NOT_HERE.get(table, {}).keys()


def test_every_table_is_here_or_listed() -> None:
    """The tables that have no counterpart are not here."""
    here = {path.stem for path in CASES.glob("*.json")}
    assert not here & TABLES_NOT_HERE.keys()
    assert here >= NOT_HERE.keys()
