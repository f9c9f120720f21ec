"""The study's worked examples that span several scores, and its final choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from scorer.batch import plan
from scorer.fleet_file import OfflineFleet
from scorer.ledger_view import instance_of
from scorer.profile import load_profiles, parse_profile
from scorer.rank import rank
from scorer.scores.global_variance import GlobalVariance
from tests.scorer.fleets import by_name, cases, fleet, machine, request, scores

CASES = "seed_examples"
JUDGED_ELSEWHERE = {
    "least_allocated", "balanced", "balanced_legacy", "balanced_legacy_volumes", "tlp", "lvrb",
}  # fmt: skip
NOT_HERE = {
    "note": "a remark on the text, no figure",
    "headroom": "the descheduler's, which Windward has none of",
    "percent_trunc": "how another tool prints a percentage",
}
GIB = 2**30

TWO_SCORES = """
credits = "none"
stale = "requests"
[[scores]]
use = "least_allocated"
[[scores]]
use = "balanced_allocation"
"""


def three_machines() -> OfflineFleet:
    """Return the study's 3 machines of 64 cores and 64 G: 50, 30, 10 cores and 10, 30, 50 G are allocated."""
    allocated = ((50, 10), (30, 30), (10, 50))
    return fleet(
        *(machine(f"machine{number}", 64, 64 * GIB) for number in (1, 2, 3)),
        instances=[
            {"id": f"i{number}", "machine": f"machine{number}", "cpu": cpu, "memory": memory * GIB}
            for number, (cpu, memory) in enumerate(allocated, 1)
        ],
    )


def test_every_kind_of_row_is_judged_or_listed() -> None:
    """No row of the study's examples is silently left out."""
    here = {"winner", "global_variance", "fraction"}
    assert {row["kind"] for row in cases(CASES)} == here | JUDGED_ELSEWHERE | NOT_HERE.keys()


def test_two_instances_one_after_the_other_go_where_the_study_puts_them() -> None:
    """2C 10G and then 5C 5G both go to the second machine, the second instance seeing the first."""
    first, second = (row["expected"] for row in cases(CASES, "winner") if row["source"].startswith("seed"))
    profile = parse_profile(TWO_SCORES, "study")
    offline = three_machines()
    before = rank(request(cpu=2, memory=10 * GIB), offline.snapshot, offline.ledger, profile, offline.now_s)
    assert before.chosen == first["winner"]
    assert (before.total * 2).tolist() == pytest.approx(first["totals"])
    offline.ledger.apply(instance_of(request(cpu=2, memory=10 * GIB), "machine2", offline.now_s, "first"))
    after = rank(request(cpu=5, memory=5 * GIB), offline.snapshot, offline.ledger, profile, offline.now_s)
    assert after.chosen == second["winner"]
    assert (after.total * 2).tolist() == pytest.approx(second["totals"])


def test_the_two_instances_as_one_batch() -> None:
    """Asked for together, the second sees the first just the same."""
    offline = three_machines()
    found = plan(
        [request(cpu=2, memory=10 * GIB), request(cpu=5, memory=5 * GIB)],
        offline.snapshot,
        offline.ledger,
        parse_profile(TWO_SCORES, "study"),
        offline.now_s,
    )
    assert found.machines == ("machine2", "machine2")


def test_integers_and_the_form_of_v1_36_choose_another_machine() -> None:
    """The change of balance rewards the unbalanced machine: the first wins, with the peer's integers."""
    (row,) = (row for row in cases(CASES, "winner") if row["source"] == "derived")
    text = TWO_SCORES.replace('"least_allocated"', '"least_allocated"\nrounding = true').replace(
        '"balanced_allocation"', '"balanced_allocation"\nrounding = true\nform = "v1.36"'
    )
    offline = three_machines()
    found = rank(
        request(cpu=2, memory=10 * GIB), offline.snapshot, offline.ledger, parse_profile(text, "study"), offline.now_s
    )
    assert found.chosen == row["expected"]["winner"]
    assert (found.total * 2).tolist() == pytest.approx(row["expected"]["totals"])


@pytest.mark.parametrize("row", cases(CASES, "global_variance"), ids=by_name)
def test_least_variance_wins(row: dict[str, Any]) -> None:
    """The machine that leaves the least population variance scores best, by the amount the variance says."""
    inputs, expected = row["inputs"], row["expected"]
    offline = fleet(*(machine(f"machine{n}", 64, None, usage={"cpu": v}) for n, v in enumerate(inputs["values"], 1)))
    plugin = GlobalVariance(weights={"cpu": 1.0})
    found = scores(plugin, offline, request(cpu=inputs["add"]))
    assert max(found, key=found.__getitem__) == expected["winner"]
    variances = np.array(expected["population_variance"])
    before = np.var(inputs["values"])
    assert [75 - 25 * 3 * (v - before) / 64**2 for v in variances] == pytest.approx(list(found.values()), abs=1e-4)


def test_request_fractions() -> None:
    """500 m of 4 cores and 1 of 8 G are an eighth each."""
    (row,) = cases(CASES, "fraction")
    offline = fleet(machine(cpu=4, memory=8e9, usage={"cpu": 0, "memory": 0}))
    answer = rank(
        request(cpu="500m", memory="1G"),
        offline.snapshot,
        offline.ledger,
        load_profiles().choose("seed"),
        offline.now_s,
    ).answer()
    shares = [
        answer["candidates"][0]["resources"][name]["request"]
        / answer["candidates"][0]["resources"][name]["allocatable"]
        for name in ("cpu", "memory")
    ]
    assert shares == pytest.approx(row["expected"]["fractions"])
