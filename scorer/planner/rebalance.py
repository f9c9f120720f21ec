"""``rebalance``: which instances should move now, and why; nothing is changed.

The plan is that of one round of the command and of the rounds that planners do (`scorer.planning.balance.advice`). Of
several rounds each is a query, with the state of the one before (`scorer.planning.balance.rounds`). A program begins a
move by ``update`` with ``move``, with the generation that is named.
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import msgspec

from schemas.rpc.parameters import Rebalance
from schemas.rpc.request import InvalidRequest
from schemas.rpc.results import RebalanceResult
from schemas.values.errors import field_error
from scorer.planning.balance.advice import advice, told
from scorer.planning.balance.rounds import Rounds, rounds_of
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.rpc.methods.current import Current
from scorer.rpc.methods.parameters import read_params

_OWN = ("moves_max", "same")
"""Settings that are parameters of their own."""
_TYPES = {name: kind for name, kind in get_type_hints(Rebalancing).items() if name not in (*_OWN, "name")}


def rebalance(params: dict[str, Any], current: Current) -> RebalanceResult:
    """Return the moves of one plan."""
    asked: Rebalance = read_params(Rebalance, params)
    given = {name: value for name in _OWN if (value := getattr(asked, name)) is not None}
    profile = current.profiles.choose(asked.profile)
    try:
        profile = dataclasses.replace(profile, rebalance=profile.rebalance.with_given(_typed(asked.settings) | given))
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    inputs, rounds = current.ranking(profile), _rounds(asked, profile.rebalance)
    return told(advice(inputs, rounds), inputs, rounds)


def _rounds(asked: Rebalance, settings: Rebalancing) -> Rounds | None:
    """Return the state of the rounds before; None for a round alone. Raises InvalidRequest."""
    if asked.every_s is None:
        if asked.rounds:
            raise InvalidRequest("rounds: give every_s, the time between two rounds, too")
        return None
    try:
        return rounds_of(settings, asked.every_s, asked.rounds)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None


def _typed(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings of ``[rebalance]`` with their types; raises ValueError naming one."""
    found = {}
    for name, value in settings.items():
        if name not in _TYPES:
            raise ValueError(f"settings: no setting {name!r}; there are {', '.join(sorted(_TYPES))}")
        try:
            found[name] = msgspec.convert(value, _TYPES[name])
        except msgspec.ValidationError as error:
            raise ValueError(f"settings.{name}: {field_error(error)}") from None
    return found
