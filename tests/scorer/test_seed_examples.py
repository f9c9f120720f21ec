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


INTEGERS = TWO_SCORES.replace('"least_allocated"', '"least_allocated"\nrounding = true').replace(
    '"balanced_allocation"', '"balanced_allocation"\nrounding = true\nform = "v1.36"'
)
FIRST, SECOND = {"cpu": 2, "memory": 10 * GIB}, {"cpu": 5, "memory": 5 * GIB}


@pytest.mark.parametrize("row", cases(CASES, "winner"), ids=by_name)
def test_the_studys_instances_go_where_it_puts_them(row: dict[str, Any]) -> None:
    """2C 10G and then 5C 5G both go to the second machine, the second instance seeing the first.

    With the peer's integers and the change of balance (v1.36) the first machine wins: it rewards the unbalanced one.
    """
    offline = three_machines()
    asked = FIRST
    if "second node" in row["name"]:
        offline.ledger.apply(instance_of(request(**FIRST), "machine2", offline.now_s, "first"))
        asked = SECOND
    profile = parse_profile(INTEGERS if "v1.36" in row["name"] else TWO_SCORES, "study")
    found = rank(request(**asked), offline.snapshot, offline.ledger, profile, offline.now_s)
    assert found.chosen == row["expected"]["winner"]
    assert (found.total * 2).tolist() == pytest.approx(row["expected"]["totals"])


def test_the_two_instances_as_one_batch() -> None:
    """Asked for together, the second sees the first just the same."""
    offline = three_machines()
    found = plan(
        [request(**FIRST), request(**SECOND)],
        offline.snapshot,
        offline.ledger,
        parse_profile(TWO_SCORES, "study"),
        offline.now_s,
    )
    assert found.machines == ("machine2", "machine2")


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


@pytest.mark.parametrize("row", cases(CASES, "fraction"), ids=by_name)
def test_request_fractions(row: dict[str, Any]) -> None:
    """500 m of 4 cores and 1 of 8 G are an eighth each."""
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
