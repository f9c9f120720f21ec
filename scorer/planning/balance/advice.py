"""The plan of a fleet by the rule that its profile names."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scorer.placement.choosing.steps import Steps, drain, quietly
from scorer.planning.balance.by_overload import Plan, rebalance_steps
from scorer.planning.balance.by_thresholds import leaving_steps
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
    return drain(advice_steps(inputs, rounds, pending, stay))


def advice_steps(
    inputs: RankingInputs, rounds: Rounds | None = None, pending: Mapping[str, str] | None = None,
    stay: Collection[str] = (),
) -> Steps[Plan]:  # fmt: skip
    """Return the result of `advice` in steps; the ledger must not change between them."""
    rule = leaving_steps if inputs.profile.rebalance.rule == "thresholds" else rebalance_steps
    return quietly(rule(inputs, rounds, pending, stay))
