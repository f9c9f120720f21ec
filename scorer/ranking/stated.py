"""The chances of overload that a profile states of all machines as they are."""

from __future__ import annotations

from schemas.rpc.request import Request
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.rank import rank
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.ranking.true_chance import Stated


def stated_chances(inputs: RankingInputs) -> Stated | None:
    """Return what its `expected_overload` states, uncorrected; None where the profile has no such score."""
    score = inputs.profile.find(ExpectedOverload)
    if score is None:
        return None
    term = next(each for each in rank(Request(), inputs).terms if each.weighted.score is score)
    return score.stated(term.machines)
