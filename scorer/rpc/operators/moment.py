"""The fleet of one moment, for a plan that is made in steps: between two steps other queries change the ledger."""

from __future__ import annotations

from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import Profile
from scorer.rpc.methods.current import Current


def moment(current: Current, profile: Profile) -> RankingInputs:
    """Return what rankings by a profile are made from, as it is now; its ledger is a copy.

    The copy takes 5 ms with 30,000 instances, 9 ms with 100,000.
    """
    return RankingInputs(current.snapshot, current.ledger.copy(), profile, current.clock(), current.kept.beside())
