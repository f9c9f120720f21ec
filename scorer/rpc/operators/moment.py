"""The fleet of one moment, for a plan that is made in steps: between two steps other queries change the ledger."""

from __future__ import annotations

from dataclasses import replace

from schemas.rpc.request import Request
from scorer.placement.choosing.steps import Steps
from scorer.placement.choosing.trial import prepare
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import see
from scorer.rpc.methods.current import Current


def moment(current: Current, profile: Profile) -> Steps[RankingInputs]:
    """Return what rankings by a profile are made from, as it is now; its ledger is a copy.

    What the scorer keeps of its own ledger holds for the copy, too, and is copied with it. Where it keeps nothing for
    this profile, or not enough since the last snapshot, the columns are made in steps.
    """
    now = current.ranking(profile)
    see(Request(), now)
    ledger = now.ledger.copy()
    inputs = replace(now, ledger=ledger, kept=now.kept.of_copy(now.ledger, ledger))
    yield
    yield from prepare(inputs)
    return inputs
