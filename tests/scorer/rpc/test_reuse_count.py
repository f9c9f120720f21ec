"""What the scorer counts of reuse."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.rpc.request import InvalidRequest
from scorer.placement.choosing.reasons import RANKED, REUSED, result
from tests.scorer.rpc.test_results import Scorer


class Counted(Scorer):
    """A service on four machines that uses the idle time after each query."""

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Answer one query, then use the idle time after it."""
        found = super().ask(method, **params)
        self.service.prepare()
        return found

    def counted(self) -> dict[tuple[str, str], float]:
        """Return the counter by result and reason."""
        (family,) = self.metrics.reuse.collect()
        assert family.name == "windward_scorer_ranking_reuse"
        samples = [sample for sample in family.samples if sample.name.endswith("_total")]
        return {(sample.labels["result"], sample.labels["reason"]): sample.value for sample in samples}


def test_every_reason_is_there_before_it_is_counted() -> None:
    """A reader can tell a reason that never came from one that is not known."""
    assert Counted().counted() == {(result(reason), reason): 0.0 for reason in (*REUSED, *RANKED)}


def test_each_answer_counts_its_rankings() -> None:
    """Alike placements: two new rankings, three that idle time made, then the next machine is known."""
    scorer = Counted()
    for _ in range(8):
        scorer.ask("place", cpu=1, memory=1)
    scorer.ask("rank", cpu=1, memory=1)
    counted = {reason: count for (_, reason), count in scorer.counted().items() if count}
    assert counted == {"nothing_kept": 2.0, "unchanged": 3.0, "continued": 3.0, "whole_ranking": 1.0}


def test_an_answer_that_fails_is_counted_too() -> None:
    """A request that cannot be ranked was looked for first."""
    scorer = Counted()
    with pytest.raises(InvalidRequest):
        scorer.ask("rank", window_s=7)
    assert scorer.counted()["ranked", "nothing_kept"] == 1.0
