"""The filter `fresh`: how old a sample may be."""

from __future__ import annotations

import pytest

from scorer.ranking.filters.fresh import Fresh
from tests.scorer.fleets import IDLE, machine, passes, why


@pytest.mark.parametrize(
    ("age_s", "interval_s", "skew_s", "fresh"),
    [(60, 10, 0, True), (60.5, 10, 0, False), (170, 60, 0, True), (181, 60, 0, False), (63, 10, 4, False)],
)
def test_fresh(age_s: float, interval_s: float, skew_s: float, fresh: bool) -> None:
    """Data is fresh for a minute, or three of the machine's own intervals; skew does not make it younger."""
    one = machine("m", usage=IDLE, age_s=age_s, interval_s=interval_s, skew_s=skew_s)
    assert passes(Fresh(), one, machine("other", usage=IDLE)) == ("m other" if fresh else "other")


def test_fresh_tells_silent_from_stale() -> None:
    """A machine that never sent anything is without data, not stale."""
    one, other = machine("never"), machine("old", usage=IDLE, age_s=900)
    assert why(Fresh(), one, other, machine("new", usage=IDLE)) == ["without data", "stale"]
