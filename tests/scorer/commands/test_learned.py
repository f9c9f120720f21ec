"""``windward learned`` for people: what is not known yet is told."""

from __future__ import annotations

import pytest

from schemas.tables.learned import Learned, Use
from scorer.commands.running.learned import show


def seen(instances: float) -> Use:
    """Half of what is asked is used."""
    return Use(time=600.0, mean=0.5, between=0.1, within=0.1, seen=instances)


@pytest.mark.parametrize(
    ("learned", "said"),
    [
        pytest.param(None, "nothing is learned yet", id="nothing"),
        pytest.param(Learned(version=1), "no instance is measured", id="no reports"),
        pytest.param(Learned(uses={"": {"cpu": seen(1.0)}}), "1 instance measured for 10m or longer", id="one"),
        pytest.param(Learned(uses={"": {"cpu": seen(19.2)}}), "use by kind is learned from 20 on", id="some"),
        pytest.param(
            Learned(
                uses={"": {"cpu": seen(20.0)}}, instances={"": {"cpu": 20.0}},
                deviations={"": {"cpu": 0.1}}, factors={"cpu": 0.5},
            ),
            "0.50 ± 0.10",
            id="enough",
        ),
    ],
)  # fmt: skip
def test_how_much_is_learned(learned: Learned | None, said: str) -> None:
    """Too few instances are counted, with how many are needed."""
    assert said in show(learned, now_s=1.0)
