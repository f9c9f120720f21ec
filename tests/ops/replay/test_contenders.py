"""Who takes part: profiles, profiles with moves, references."""

from __future__ import annotations

import pytest

from ops.replay.contenders import Contenders
from ops.replay.rebalancing import Moving
from scorer.ranking.catalogue import load_profiles
from tests.ops.replay.small_worlds import small_world

REFERENCES = ["random feasible", "best fit by true peak", "oracle"]


@pytest.mark.parametrize(
    ("profiles", "shares", "expected"),
    [
        (["seed"], [], ["seed"]),
        (["seed"], [0.005], ["seed", "seed + 0.5 %/h"]),
        (
            ["seed", "windward"],
            [0.0015, 0.005],
            ["seed", "windward", "windward + 0.15 %/h", "windward + 0.5 %/h"],
        ),
    ],
)
def test_every_profile_but_the_baseline_is_moved_too(
    profiles: list[str], shares: list[float], expected: list[str]
) -> None:
    """A baseline that is alone is moved itself; the references are always there and never moved."""
    catalogue = load_profiles(())
    movings = [Moving(share=share) for share in shares]
    contenders = Contenders([catalogue.choose(name) for name in profiles], "seed", movings)
    world = small_world(machines=2)
    found = list(contenders.of(world))
    assert [one.policy.name for one in found] == expected + REFERENCES
    assert [one.mover is not None for one in found] == ["%/h" in one.policy.name for one in found]
    assert contenders.count(world) == len(found)
