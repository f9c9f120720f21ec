"""The plan of a drain as the result of the method ``drain``, which the command prints, too. Pure."""

from __future__ import annotations

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.results import DrainLine, DrainResult, Emptied, Emptying
from scorer.ledger.record.instance import Instance
from scorer.planning.anew import Anew
from scorer.planning.drain.consolidate import Consolidated
from scorer.planning.drain.drain import Drained
from scorer.ranking.inputs import RankingInputs


def drain_result(drained: Drained, inputs: RankingInputs, emptying: Emptying | None = None) -> DrainResult:
    """Return the plan: the moves in their order, the instances that leave already, and those that stay."""
    return DrainResult(
        drained=list(drained.machines),
        cordoned=False,
        profile=inputs.profile.name,
        machines=len(inputs.snapshot),
        instances=len(inputs.ledger),
        moves=[_planned(one) for one in drained.moves],
        moving=[
            msgspec.structs.replace(_line(one), target=one.moving.to, until=one.moving.until, move=one.moving.number)
            for one in drained.leaving
            if one.moving
        ],
        blocked=[_planned(one) for one in drained.blocked],
        emptying=emptying,
    )


def consolidate_result(found: Consolidated, wanted: int, inputs: RankingInputs) -> DrainResult:
    """Return the plan that empties machines: each that would be empty, with the cost of its moves."""
    emptied = [Emptied(machine=one.machine, memory=one.memory_bytes, instances=one.instances) for one in found.machines]
    emptying = Emptying(wanted=wanted, tried=found.tried, left=dict(found.left), machines=emptied)
    return drain_result(found.drained, inputs, emptying)


def _planned(one: Anew) -> DrainLine:
    return msgspec.structs.replace(_line(one.instance), target=one.target, reason=one.why)


def _line(one: Instance) -> DrainLine:
    amounts = {name: amount for name, amount in zip(RESOURCES, one.amounts, strict=True) if amount is not None}
    return DrainLine(id=one.id, generation=one.generation, source=one.machine, amounts=amounts)
