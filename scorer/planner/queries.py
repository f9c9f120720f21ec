"""The queries that change nothing: ``rebalance``, ``plan`` and ``capacity``, a function each of the fleet's inputs.

The inputs are the planner's replica, or a file of a command (`scorer.commands.shared.fleet_file`). A rebalancing
is one round by itself (`scorer.planning.balance.advice`). A program begins a move by ``update`` with ``move``, and the
generation that is named. Each step of a plan is a ``place``, an ``update`` or a ``release`` of the program's own.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args, get_type_hints

import msgspec

from schemas.rpc.parameters import BATCH_MAX, Capacity, Plan, Rebalance
from schemas.rpc.request import InvalidRequest, read_request
from schemas.rpc.results import CapacityResult, PlanResult, RebalanceResult
from schemas.values.errors import field_error
from scorer.planning.balance.advice import advice
from scorer.planning.room import counts_by, room_of_each
from scorer.planning.wanted.requests import InvalidWanted, WantedRequests
from scorer.planning.wanted.wanted import Action, compare, undoable
from scorer.ranking.inputs import InputsOf
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.rpc.methods.records import read_params

_OWN = ("moves_max", "same")
"""Settings that are parameters of their own."""
_TYPES = {name: kind for name, kind in get_type_hints(Rebalancing).items() if name not in (*_OWN, "name")}


def rebalance(params: dict[str, Any], inputs_of: InputsOf) -> RebalanceResult:
    asked: Rebalance = read_params(Rebalance, params)
    given = {name: value for name in _OWN if (value := getattr(asked, name)) is not None}
    inputs = inputs_of(asked.profile, asked.profile_text)
    profile = inputs.profile
    try:
        profile = dataclasses.replace(profile, rebalance=profile.rebalance.with_given(_typed(asked.settings) | given))
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    return advice(inputs.by(profile))


def _typed(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of ``[rebalance]`` converted to their types; raises ValueError naming one."""
    found = {}
    for name, value in settings.items():
        if name not in _TYPES:
            raise ValueError(f"settings: no setting {name!r}; there are {', '.join(sorted(_TYPES))}")
        try:
            found[name] = msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError as error:
            raise ValueError(f"settings.{name}: {field_error(error)}") from None
    return found


_ACTIONS: Sequence[Action] = [one for one in get_args(Action) if one not in ("cancel", "restore")]


def plan(params: dict[str, Any], inputs_of: InputsOf) -> PlanResult:
    """Return the steps, in the order in which they are to be carried out."""
    given = params.get("instances")
    asked: Plan = read_params(Plan, params | {"instances": ()})
    if not isinstance(given, list):
        raise InvalidRequest("instances: expected a list of instances")
    if len(given) > BATCH_MAX:
        raise InvalidRequest(f"instances: {len(given)}, at most {BATCH_MAX}")
    if asked.prune_labels and not asked.prune:
        raise InvalidRequest("prune_labels: goes with prune")
    inputs = inputs_of(asked.profile, asked.profile_text)
    wanted = WantedRequests()
    try:
        for position, one in enumerate(given):
            wanted.add(f"instances[{position}]", one)
    except InvalidWanted as error:
        raise InvalidRequest(str(error)) from None
    make = undoable if asked.release_last else compare
    found = make(wanted.all, inputs, prune=asked.prune, prune_labels=asked.prune_labels)
    return PlanResult(
        profile=inputs.profile.name,
        counts={action: found.count(action) for action in _ACTIONS},
        others=found.others,
        steps=[one if asked.records else msgspec.structs.replace(one, record=None) for one in found.steps],
        machines=len(inputs.snapshot),
        instances=len(inputs.ledger),
    )


def capacity(params: dict[str, Any], inputs_of: InputsOf) -> CapacityResult:
    """Return how many copies of a request fit.

    Where a filter depends on the whole fleet (anti-affinity over a topology, a cluster's masters) copies would be
    placed one by one. That is no query's work: such a request is refused, and `windward capacity` counts it on its own
    copy of the fleet.
    """
    by = read_params(Capacity, params).by
    request = read_request({name: value for name, value in params.items() if name != "by"})
    inputs = inputs_of(request.profile, "")
    found = room_of_each(request, inputs)
    if found is None:
        raise InvalidRequest(
            "a rule, or survive, looks at instances of other machines, so copies are placed one by one: "
            "the command `windward capacity` counts them"
        )
    return CapacityResult(
        fit=found.total,
        at_least=found.at_least,
        machines_with_room=int((found.copies > 0).sum()),
        limits=list(found.limits),
        by=counts_by(by, dict(zip(found.machines, found.copies.tolist(), strict=True)), inputs.snapshot) if by else {},
        profile=inputs.profile.name,
    )
