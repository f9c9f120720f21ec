"""Answers of ``capacity``: how many more instances of a kind fit, from the scorer's own windows and ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from schemas.rpc.parameters import Capacity
from schemas.rpc.request import InvalidRequest, read_request
from schemas.rpc.results import CapacityResult
from scorer.placement.choosing.steps import Steps
from scorer.planning.capacity.room import Room, room_of_each
from scorer.ranking.inputs import RankingInputs
from scorer.rpc.methods.parameters import read_params
from scorer.rpc.methods.slices import by_parts
from scorer.snapshot.snapshot import Snapshot


def capacity(params: dict[str, Any], inputs_of: Callable[[str], RankingInputs]) -> Steps[CapacityResult]:
    """Return how many copies of a request fit, in steps between which other queries are answered.

    ``inputs_of`` returns the inputs by the name of a profile. Where a filter looks at the whole fleet (anti-affinity
    over a topology, a cluster's masters) copies would be placed one by one. That is no query's work: such a request
    is refused, and `windward capacity` counts it on its own copy of the fleet.
    """
    by = read_params(Capacity, params).by
    request = read_request({name: value for name, value in params.items() if name != "by"})
    inputs = inputs_of(request.profile)
    yield  # there may be no room for a long answer: nothing is ranked before
    found = room_of_each(request, inputs)
    yield
    if found is None:
        raise InvalidRequest(
            "a rule of this request looks at instances of other machines, so copies are placed one by one: "
            "the command `windward capacity` counts them"
        )
    counts = (yield from _by(by, found, inputs.snapshot)) if by else {}
    return CapacityResult(
        fit=found.total,
        at_least=found.at_least,
        machines_with_room=int((found.copies > 0).sum()),
        limits=list(found.limits),
        by=counts,
        profile=inputs.profile.name,
    )


def _by(key: str, found: Room, snapshot: Snapshot) -> Steps[dict[str, int]]:
    """Return copies by the values of a label, or by machine, most first."""
    counts: Counter[str] = Counter()
    copies = found.copies.tolist()

    def count(rows: Sequence[int]) -> None:
        for row in rows:
            value = snapshot.names[row] if key == "machine" else snapshot.rules.labels(row).get(key, "")
            counts[value] += copies[row]

    yield from by_parts(range(len(copies)), count)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
