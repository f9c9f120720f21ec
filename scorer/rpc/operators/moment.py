"""The fleet of one moment, for a plan that is made in steps: between two steps other queries change the ledger."""

from __future__ import annotations

from dataclasses import replace

from scorer.placement.choosing.steps import Steps
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.seen import machines_of
from scorer.rpc.methods.current import Current


def moment(current: Current, profile: Profile) -> Steps[RankingInputs]:
    """Return what rankings by a profile are made from, as it is now; its ledger is a copy.

    The rows that the scorer has of its own ledger are copied with it; those that it lacks are made in steps.
    """
    now = current.ranking(profile)
    machines_of(now)
    ledger = now.ledger.copy()
    inputs = replace(now, ledger=ledger, tables=now.tables.of_copy(now.ledger, ledger))
    yield
    for load_model in profile.load_models:
        machines_of(inputs, load_model)
        yield
    return inputs
