"""References: what each part of the future is worth; of worlds with batch, prod alone and batch that is known."""

from __future__ import annotations

import pytest

from ops.replay.play.references import PARTS, KnowingBatch, Oracle, ProdAlone, told
from ops.replay.play.simulation import Outcome, simulate
from ops.replay.workload import Workload
from schemas.resources import CPU
from scorer.ranking.profiles.catalogue import load_profiles
from tests.ops.replay.small_worlds import world

PROFILE = load_profiles(()).choose("windward")
MIXED = world(
    [10.0, 10.0],
    [(8.0, 4.0, 0, 240), (8.0, 1.0, 0, 240), (9.0, 5.0, 4, 60), (9.0, 4.9, 8, 60), (9.0, 4.0, 12, 60)],
    classes=["prod", "prod", "batch", "batch", "batch"],
)


def run(kind: type[ProdAlone]) -> Outcome:
    """What it makes of this world."""
    return simulate(MIXED, kind(PROFILE))


def test_prod_alone_has_no_batch() -> None:
    """The others are refused for ever."""
    outcome = run(ProdAlone)
    assert (outcome.placed >= 0).tolist() == [True, True, False, False, False]
    assert (outcome.policy, outcome.fleet.lower.any()) == ("windward, prod alone", False)


def test_known_batch_fills_to_ninety_per_cent_of_the_true_peak() -> None:
    """What is asked does not count: five cores go beside four, and the next beside one; the last waits for an end."""
    outcome = run(KnowingBatch)
    rows = outcome.fleet.machine_of.tolist()
    busy, idle = rows[0], rows[1]
    assert (rows[2], rows[3]) == (busy, idle)
    assert outcome.placed.tolist()[2:4] == [4, 8]
    assert outcome.placed[4] == 64


THERE = [(34.0, 34.0, 0, 240), (8.0, 8.0, 0, 240)]
"""The first goes to the large machine, the second to the small one, which is then a little cooler."""
UNEVEN = world([10.0, 40.0], [*THERE, (2.0, 0.5, 4, 236)])
ENDS_SOON = world([10.0, 11.0], [(5.0, 9.9, 0, 54), (8.0, 8.0, 0, 240), (2.0, 4.0, 4, 236)])
GROWS = world([10.0, 40.0], [*THERE, (2.0, 0.5, 4, 236)])
GROWS.usage.values[CPU, 2 * 240 + 220 : 3 * 240] = 2.0


@pytest.mark.parametrize(
    ("fleet", "knowing", "other"),
    [
        pytest.param(UNEVEN, 0, ("oracle, use unknown", 1), id="it uses less than it asks for"),
        pytest.param(ENDS_SOON, 1, ("oracle, one hour", 0), id="one there ends after most of the hour"),
        pytest.param(GROWS, 1, ("oracle, mean use known", 0), id="its use grows at the end"),
    ],
)
def test_a_part_of_the_oracle_chooses_by_what_it_knows(fleet: Workload, knowing: int, other: tuple[str, int]) -> None:
    """The first two fill the machines; the third goes where the oracle, or a part of it, expects the least heat."""
    found = {}
    for kind in (Oracle, *PARTS):
        outcome = simulate(fleet, kind())
        assert outcome.fleet.machine_of.tolist()[:2] == [1, 0]
        found[outcome.policy] = int(outcome.fleet.machine_of[2])
    assert (found["oracle"], found[other[0]]) == (knowing, other[1])


def test_told_requests_say_the_mean_of_their_use() -> None:
    """Over the life; what they ask for stays."""
    asked = [told(GROWS).request(number) for number in (1, 2)]
    assert [(one.cpu, one.expected) for one in asked] == [
        (8.0, {"cpu": 8.0}),
        (2.0, {"cpu": pytest.approx((216 * 0.5 + 20 * 2.0) / 236)}),
    ]
