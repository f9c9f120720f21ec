"""The plan of a fleet by the rule that its profile names."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from schemas.rpc.results import RebalanceMove, RebalanceResult
from scorer.ledger.record.instance import Instance
from scorer.planning.balance.by_overload import Plan, rebalance
from scorer.planning.balance.by_thresholds import leaving
from scorer.planning.balance.moves import Step
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


def told(plan: Plan, inputs: RankingInputs, rounds: Rounds | None = None) -> RebalanceResult:
    """Return a plan that was made from these inputs; an instance that finds no machine comes last, without a target.

    ``rounds``: the state that the plan has left, where it is one of several rounds.
    """
    settings = inputs.profile.rebalance
    moves = [_move(instance, step, plan) for instance, step in zip(plan.instances, plan.steps, strict=True)]
    moves += [
        RebalanceMove(id=one.id, generation=one.generation, source=one.machine, target=None, reason=reason)
        for one, reason in plan.unplaced
    ]
    return RebalanceResult(
        rule=settings.rule,
        objective=settings.objective,
        profile=inputs.profile.name,
        machines=len(inputs.snapshot),
        instances=len(inputs.ledger),
        at=inputs.now_s,
        movable=plan.movable,
        measured=plan.measured,
        moved_in_hour=plan.in_hour,
        hour_max=plan.hour_max,
        moves=moves,
        totals={name: list(pair) for name, pair in plan.totals.items()},
        std={name: list(pair) for name, pair in plan.spread.items()},
        rounds="" if rounds is None else rounds.text(),
    )


def _move(instance: Instance, step: Step, plan: Plan) -> RebalanceMove:
    loads = {
        side: {name: [_known(x) for x in step.utilization[at, :, k]] for k, name in enumerate(plan.resources)}
        for at, side in enumerate(("source", "target"))
    }
    overload = {
        "source": [step.source_before, step.source_after], "target": [step.target_before, step.target_after],
    }  # fmt: skip
    return RebalanceMove(
        id=instance.id, generation=instance.generation, source=instance.machine, target=plan.machines[step.target],
        gain=step.gain, cost=step.cost, copy_bytes=step.copy_bytes, copy_s=step.copy_s,
        reason=step.reason or _why(loads["source"]), overload=overload, utilization=loads,
    )  # fmt: skip


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _why(loads: dict[str, list[float | None]]) -> str:
    falls = {name: (before or 0.0, after or 0.0) for name, (before, after) in loads.items()}
    name, (before, after) = max(falls.items(), key=lambda item: item[1][0] - item[1][1])
    return f"{name} of the source {100 * before:.0f}% -> {100 * after:.0f}%"
