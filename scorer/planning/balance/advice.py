"""The plan of a fleet by the rule that its profile names."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scorer.planning.balance.by_overload import Plan, rebalance
from scorer.planning.balance.by_thresholds import leaving
from scorer.planning.balance.rounds import Rounds
from scorer.ranking.inputs import RankingInputs


def advice(
    inputs: RankingInputs, rounds: Rounds | None = None, pending: Mapping[str, str] | None = None,
    stay: Collection[str] = (),
) -> Plan:  # fmt: skip
    """Return the moves by the profile's ``[rebalance]``; nothing is changed but the state in ``rounds``.

    ``rounds``: the state of earlier rounds; None: a machine gives as soon as it is over. ``pending``: instance id to
    target, moves under way that count as made. ``stay``: ids of instances that do not move.
    """
    rule = leaving if inputs.profile.rebalance.rule == "thresholds" else rebalance
    return rule(inputs, rounds, pending, stay)
