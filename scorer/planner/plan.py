"""``plan``: the steps from the ledger's instances to those that are wanted; nothing is changed.

The steps are those of the command (`scorer.planning.wanted.wanted`). Each is a ``place``, an ``update`` or a
``release`` of a program's own, which names the step's generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from schemas.rpc.parameters import BATCH_MAX, Plan
from schemas.rpc.request import InvalidRequest
from schemas.rpc.results import PlanResult, PlanStep
from scorer.planning.wanted.requests import InvalidWanted, WantedRequests
from scorer.planning.wanted.steps import Action
from scorer.planning.wanted.wanted import compare, undoable
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.parameters import read_params

_ACTIONS: Sequence[Action] = [one for one in get_args(Action) if one not in ("cancel", "restore")]


def plan(params: dict[str, Any], current: Current) -> PlanResult:
    """Return the steps, in the order in which they are to be carried out."""
    given = params.get("instances")
    asked: Plan = read_params(Plan, params | {"instances": ()})
    if not isinstance(given, list):
        raise InvalidRequest("instances: expected a list of instances")
    if len(given) > BATCH_MAX:
        raise InvalidRequest(f"instances: {len(given)}, at most {BATCH_MAX}")
    if asked.prune_labels and not asked.prune:
        raise InvalidRequest("prune_labels: goes with prune")
    profile = current.profiles.choose(asked.profile)
    wanted = WantedRequests()
    try:
        for position, one in enumerate(given):
            wanted.add(f"instances[{position}]", one)
    except InvalidWanted as error:
        raise InvalidRequest(str(error)) from None
    inputs = current.ranking(profile)
    make = undoable if asked.release_last else compare
    found = make(wanted.all, inputs, prune=asked.prune, prune_labels=asked.prune_labels)
    return PlanResult(
        profile=profile.name,
        counts={action: found.count(action) for action in _ACTIONS},
        others=found.others,
        steps=[
            PlanStep(
                action=one.action, id=one.id, source=one.source, target=one.target, why=one.why,
                generation=one.generation, changes=dict(one.changes),
                record=msgspec.to_builtins(one.old) if asked.records and one.old else None,
            )
            for one in found.steps
        ],
        machines=len(inputs.snapshot),
        instances=len(inputs.ledger),
    )  # fmt: skip
