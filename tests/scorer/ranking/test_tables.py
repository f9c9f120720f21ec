"""Every row of every peer's table is judged by a test of its name, or stands here with the reason why not."""

from importlib import resources

import pytest

from tests.integration.ledger import test_reservation_rows
from tests.scorer.fleets import CASES, cases
from tests.scorer.ranking import test_koordinator, test_kube_scheduler, test_seed_examples, test_seen
from tests.scorer.ranking.scores import test_load_variation_risk, test_low_risk_overcommitment, test_target_load_packing

TABLES_NOT_HERE = {
    "koordinator_batch_resource": "judged by tests/scorer/classes/test_capacity.py, every row",
    "koordinator_low_node_load": "judged by tests/scorer/planning/test_low_node_load.py",
}
"""Tables of peers that say nothing of a ranking, and who judges them."""

POD = "an instance asks for one amount: containers, init containers and overhead are summed by its deployer"
CACHE = "there is no cache to clean: what counts as recent is decided at each decision"
TIMER = "how long an estimate counts is the credit model's business: by the window, not by a timer"
PERCENTILE = (
    "percentiles come out of the fold, by numpy's inverted_cdf; of nothing it is NaN, and no other is asked for"
)
MOMENTS = "a window says mean and standard deviation; no other moment, and no density, is computed"
HTTP = "there is no HTTP interface: an unknown machine is not in the table, and without a table none is feasible"
OWN = "reservations are scored as what they hold of a machine, there is no separate score of one's own"
NOTE = "a remark on the text, no figure"
PRINTED = "how another tool prints a percentage"

NOT_COVERED = {
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
    "load_watcher": {"API unknown host": HTTP, "API before start": HTTP, **test_seen.NOT_COVERED},
    "reservation": {
        "Reserve of a pod without a reservation changes nothing": "the ledger has its own state machine and tests",
        "koordinator Score/skip for reserve pod": OWN,
        "koordinator Score/no reservation matched on the node": OWN,
        "koordinator Score/reservation matched but zero-request pod": OWN,
        "koordinator Score/reservation matched and pod has part empty resource requests": OWN,
    },
    "seed_examples": {
        "kubectl top node1 cpu": PRINTED,
        "kubectl top node2 cpu": PRINTED,
        "kubectl top node2 cpu (2nd listing)": PRINTED,
        "descheduling event vs configured thresholds": NOTE,
        "pod uses more CPU than its node": NOTE,
        "filter comparison operator and pending pods": NOTE,
        "legacy overhead unit bug": NOTE,
        "legacy 0..10 formulas": NOTE,
    },
    "trimaran_load_variation_risk_balancing": {
        "CreateResourceStats/test-cpu": test_target_load_packing.METRICS,
        "CreateResourceStats/test-memory": test_target_load_packing.METRICS,
        **test_load_variation_risk.NOT_COVERED,
    },
    "trimaran_low_risk_overcommitment": {
        "GetResourceRequested/1": POD,
        "GetResourceLimits/1": POD,
        "GetResourceLimits/4": POD,
        "NewBetaDistribution/beta(1,1)": MOMENTS,
        "NewBetaDistribution/beta(1,2)": MOMENTS,
        "NewBetaDistribution/beta(-1,1)": MOMENTS,
        "NewBetaDistribution/beta(1,-1)": MOMENTS,
        "MatchMoments/beta(1,1)": MOMENTS,
        "DensityFunction/beta(-1,1) pdf(0.5)": MOMENTS,
        "DistributionFunction/beta(-1,1) PDF(0.5)": MOMENTS,
        "GetMaxVariance/m1=0": MOMENTS,
        "GetMaxVariance/m1=1": MOMENTS,
        "GetMaxVariance/m1=-1": MOMENTS,
    },
    "trimaran_target_load_packing": {
        "handler cache: cleanupCache doesn't delete newly added pods": CACHE,
        "handler cache: cleanupCache deletes old pods": CACHE,
        "derived: a cache whose entries are ALL stale is not cleaned": CACHE,
        **test_target_load_packing.NOT_COVERED,
    },
}
"""Rows that Windward has no answer to, and why, by table and name."""

KUBERNETES = test_kube_scheduler.DIFFERENT
DIFFERENT = {
    "k8s_least_allocated": KUBERNETES,
    "k8s_most_allocated": KUBERNETES,
    "koordinator_estimator": test_koordinator.DIFFERENT,
    "reservation": test_reservation_rows.DIFFERENT,
    "trimaran_low_risk_overcommitment": test_low_risk_overcommitment.DIFFERENT,
}
"""Rows that Windward deliberately answers otherwise, as a test shows, and why."""

COUNTS = {
    "k8s_balanced_allocation": (13, 0, 0),
    "k8s_least_allocated": (10, 1, 0),
    "k8s_most_allocated": (7, 1, 0),
    "k8s_requested_to_capacity_ratio": (23, 0, 0),
    "koordinator_estimator": (10, 1, 8),
    "koordinator_load_aware_filter": (21, 0, 0),
    "koordinator_load_aware_score": (11, 0, 0),
    "load_watcher": (4, 0, 3),
    "reservation": (7, 2, 5),
    "seed_examples": (21, 0, 8),
    "trimaran_load_variation_risk_balancing": (16, 0, 6),
    "trimaran_low_risk_overcommitment": (12, 1, 13),
    "trimaran_peaks": (5, 0, 0),
    "trimaran_target_load_packing": (9, 0, 5),
}
"""How many rows of each table are exact, deliberately different, not covered."""

RULES_WITHOUT_A_ROW = {
    "koordinator": ("DaemonSet", "class free", "mean of about half an hour", "the ledger has as prod"),
    "kubernetes": ("several containers",),
    "trimaran": ("list of metrics",),
}
"""Deliberate differences, by the words under which the profile that is named after the peer tells its user."""

MODULES = (
    test_kube_scheduler,
    test_koordinator,
    test_load_variation_risk,
    test_low_risk_overcommitment,
    test_reservation_rows,
    test_seed_examples,
    test_seen,
    test_target_load_packing,
)


def judged():
    """Return source and name of the rows that a test is given."""
    found = set()
    for module in MODULES:
        for test in vars(module).values():
            marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
            for table in (mark.args[1] for mark in marks):
                found |= {(row["source"], row["name"]) for row in _rows(table)}
    return found


def _rows(values):
    flat = [
        part for value in values for part in ((value,) if isinstance(value, dict) else getattr(value, "values", ()))
    ]
    return [part for part in flat if isinstance(part, dict) and {"source", "name", "expected"} <= part.keys()]


@pytest.mark.parametrize("table", sorted(path.stem for path in CASES.glob("*.json")))
def test_every_row_is_judged_or_listed(table):
    """No row is silently left out, and none is listed that a test judges; how many are which is known."""
    seen = judged()
    rows = cases(table)
    left_out = {row["name"] for row in rows if (row["source"], row["name"]) not in seen}
    assert left_out == NOT_COVERED.get(table, {}).keys()
    different = {row["name"] for row in rows} & DIFFERENT.get(table, {}).keys()
    assert not different & left_out
    judged_rows = sum(row["name"] not in left_out for row in rows)
    assert (judged_rows - len(different), len(different), len(rows) - judged_rows) == COUNTS[table]


def test_every_table_is_here_or_listed():
    here = {path.stem for path in CASES.glob("*.json")}
    assert not here & TABLES_NOT_HERE.keys()
    assert here == COUNTS.keys() >= NOT_COVERED.keys() | DIFFERENT.keys()
    listed = {name for rows in DIFFERENT.values() for name in rows}
    assert listed <= {row["name"] for table in DIFFERENT for row in cases(table)}


@pytest.mark.parametrize("profile", sorted(RULES_WITHOUT_A_ROW))
def test_a_deliberate_difference_stands_in_the_profile_named_after_the_peer(profile):
    """Who reads the profile learns in which rules it is not the peer."""
    text = resources.files("scorer.ranking").joinpath("profiles", f"{profile}.toml").read_text()
    said = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    assert [words for words in RULES_WITHOUT_A_ROW[profile] if words not in said] == []
