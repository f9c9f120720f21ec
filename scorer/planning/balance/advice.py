"""The plan of a fleet by the rule that its profile names."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scorer.planning.balance.by_overload import Plan, bounds_of, rebalance, wish_of
from scorer.planning.balance.by_thresholds import leaving
from scorer.planning.balance.rounds import Rounds
from scorer.ranking.inputs import RankingInputs


def advice(
    inputs: RankingInputs, rounds: Rounds | None = None, pending: Mapping[str, str] | None = None,
    stay: Collection[str] = (),
) -> Plan:  # fmt: skip
    """Return the moves by the profile's ``[rebalance]``; nothing is changed but the state in ``rounds``.

    ``rounds``: the state of earlier rounds; None: this is the only one. ``pending``: instance id to target, moves under
    way that count as made. ``stay``: ids of instances that do not move.
    """
    settings = inputs.profile.rebalance
    if settings.rule == "thresholds":
        return leaving(inputs, rounds, pending, stay)
    wish, bounds = wish_of(settings, stay), bounds_of(settings, len(inputs.ledger))
    return rebalance(inputs, wish, bounds, rounds, pending)
