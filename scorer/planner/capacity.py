"""Answers of ``capacity``: how many more instances of a kind fit, from the planner's own windows and ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from schemas.rpc.parameters import Capacity
from schemas.rpc.request import InvalidRequest, read_request
from schemas.rpc.results import CapacityResult
from scorer.planning.capacity.room import Room, room_of_each
from scorer.ranking.inputs import RankingInputs
from scorer.rpc.methods.parameters import read_params
from scorer.snapshot.snapshot import Snapshot


def capacity(params: dict[str, Any], inputs_of: Callable[[str], RankingInputs]) -> CapacityResult:
    """Return how many copies of a request fit; ``inputs_of`` returns the inputs by the name of a profile.

    Where a filter looks at the whole fleet (anti-affinity over a topology, a cluster's masters) copies would be placed
    one by one. That is no query's work: such a request is refused, and `windward capacity` counts it on its own copy of
    the fleet.
    """
    by = read_params(Capacity, params).by
    request = read_request({name: value for name, value in params.items() if name != "by"})
    inputs = inputs_of(request.profile)
    found = room_of_each(request, inputs)
    if found is None:
        raise InvalidRequest(
            "a rule of this request looks at instances of other machines, so copies are placed one by one: "
            "the command `windward capacity` counts them"
        )
    return CapacityResult(
        fit=found.total,
        at_least=found.at_least,
        machines_with_room=int((found.copies > 0).sum()),
        limits=list(found.limits),
        by=_by(by, found, inputs.snapshot) if by else {},
        profile=inputs.profile.name,
    )


def _by(key: str, found: Room, snapshot: Snapshot) -> dict[str, int]:
    """Return copies by the values of a label, or by machine, most first."""
    counts: Counter[str] = Counter()
    for row, copies in enumerate(found.copies.tolist()):
        counts[snapshot.names[row] if key == "machine" else snapshot.rules.labels(row).get(key, "")] += copies
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
