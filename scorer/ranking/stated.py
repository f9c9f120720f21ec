"""The stated chances of a profile's score for all machines, to be compared with later load."""

from scorer.ranking.calibration import Stated
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.scores.expected_overload import ExpectedOverload
from scorer.ranking.seen import machines_of


def stated_chances(inputs: RankingInputs) -> Stated | None:
    """Return the chances of `expected_overload`; None for a profile without it."""
    weighted = next((each for each in inputs.profile.scores if isinstance(each.score, ExpectedOverload)), None)
    return None if weighted is None else weighted.score.stated(machines_of(inputs, weighted.load_model))
