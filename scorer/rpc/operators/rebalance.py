"""``rebalance``: which instances should move now, and why; nothing is changed.

The plan is that of one round of the command and of the daemon (`scorer.planning.balance.advice`), made in steps on a
copy of the ledger. The longest step takes 13 to 24 ms with 5,000 machines and 100,000 instances
(`tests/bench/bench_steps.py`). A program begins a move by ``update`` with ``move``, with the generation that is named.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from schemas.rpc.parameters import Rebalance
from schemas.rpc.request import InvalidRequest
from schemas.rpc.results import RebalanceMove, RebalanceResult
from scorer.placement.choosing.steps import Steps
from scorer.placement.choosing.trial import settle
from scorer.planning.balance.advice import advice_steps
from scorer.planning.balance.by_overload import Plan
from scorer.planning.balance.proposals import why
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.parameters import read_params
from scorer.rpc.operators.moment import moment


def rebalance(params: dict[str, Any], current: Current) -> Steps[RebalanceResult]:
    """Return the moves of one plan."""
    asked: Rebalance = read_params(Rebalance, params)
    yield  # there may be no room for a long answer: nothing is planned before
    given = {name: value for name in ("moves_max", "same") if (value := getattr(asked, name)) is not None}
    profile = current.profiles.choose(asked.profile)
    try:
        profile = dataclasses.replace(profile, rebalance=profile.rebalance.with_given(given))
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    inputs = yield from moment(current, profile)
    yield
    yield from settle(inputs)
    plan = yield from advice_steps(inputs)
    return RebalanceResult(
        rule=profile.rebalance.rule,
        objective=profile.rebalance.objective,
        profile=profile.name,
        at=inputs.now_s,
        movable=plan.movable,
        measured=plan.measured,
        moved_in_hour=plan.in_hour,
        hour_max=plan.hour_max,
        moves=_moves(plan),
        totals={name: list(pair) for name, pair in plan.totals.items()},
        std={name: list(pair) for name, pair in plan.spread.items()},
    )


def _moves(plan: Plan) -> list[RebalanceMove]:
    moves = [
        RebalanceMove(
            id=one.id, generation=one.generation, source=one.machine, target=plan.machines[step.target],
            gain=step.gain, cost=step.cost, copy_bytes=step.copy_bytes, copy_s=step.copy_s,
            reason=why(step),
        )
        for one, step in zip(plan.instances, plan.steps, strict=True)
    ]  # fmt: skip
    return moves + [
        RebalanceMove(id=one.id, generation=one.generation, source=one.machine, target=None, reason=reason)
        for one, reason in plan.unplaced
    ]
