"""What an answer says when no machine fits."""

from __future__ import annotations

from schemas.rpc.results import Refusal
from scorer.ranking.explanation import explain
from tests.scorer.ranking.rankings import mixed, ranked


def test_no_machine_fits_is_an_answer_in_one_line() -> None:
    """The reason line counts each refused machine once, for the first filter that refused it."""
    found = ranked(mixed())
    assert found.chosen is None
    assert explain.summary(found) == "0/5 feasible: 3 cpu over threshold, 2 stale"
    answer = explain.answer(found)
    assert answer.machine is None
    assert answer.candidates == []
    assert answer.refusals == [
        Refusal(filter="usage_threshold", reason="cpu over threshold", machines=3),
        Refusal(filter="fresh", reason="stale", machines=2),
    ]


def test_a_request_larger_than_any_machine_says_so() -> None:
    """More than any machine has is told from full machines."""
    assert explain.summary(ranked(mixed(), cpu=1000)) == "0/5 feasible: 3 cpu larger than the machine, 2 stale"
