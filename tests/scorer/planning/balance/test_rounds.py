"""Several rounds in a row: what is over for a moment gives nothing."""

from __future__ import annotations

import numpy as np
import pytest

from scorer.planning.balance.rounds import Rounds, condition_of
from scorer.ranking.profiles.rebalance_section import Rebalancing

NAMES = ("a", "b")


@pytest.mark.parametrize(
    ("rounds_over", "seen", "found"),
    [
        pytest.param(1, "xx", "xx", id="at once"),
        pytest.param(2, "xxxx", "..xx", id="from the third round on"),
        pytest.param(2, "xx.xxx", ".....x", id="a quiet round begins anew"),
        pytest.param(2, "......", "......", id="never over"),
    ],
)
def test_rounds_in_a_row(rounds_over: int, seen: str, found: str) -> None:
    """Of two machines, the other is always over and has a count of its own."""
    rounds = Rounds(condition_of(Rebalancing(rounds_over=rounds_over, over_s=600.0), 60.0))
    answers = [
        rounds.sources(NAMES, np.array([mark == "x", True]), 1_000.0 + 60 * n).tolist() for n, mark in enumerate(seen)
    ]
    assert "".join("x" if first else "." for first, _ in answers) == found
    assert [second for _, second in answers][:rounds_over] == [rounds_over == 1] * rounds_over


def test_rounds_far_apart_are_still_in_a_row() -> None:
    """The count outlives two rounds however long they are, and a machine that is silent for longer begins anew."""
    for pause_s, expected in ((3_600.0, True), (10_000.0, False)):
        rounds = Rounds(condition_of(Rebalancing(rounds_over=2), 3_600.0))
        over = np.array([True, False])
        answers = [rounds.sources(NAMES, over, 1e6 + pause_s * n)[0] for n in range(3)]
        assert answers[-1] == expected
