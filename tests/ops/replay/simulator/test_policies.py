"""References of worlds with batch: prod alone, and batch whose future is known."""

from ops.replay.simulator.policies import KnowingBatch, ProdAlone
from ops.replay.simulator.simulation import Outcome, simulate
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
