"""Puts moves whose targets are reserved, and exchanges of roles, on the lists from which a mover takes them.

The lists are the planner's (`schemas.messages.proposal`). A message of a command has the fence `COMMANDS`, above any
lease's number: no planner overtakes it, and a mover that compares fences carries it out. The target is reserved
already, so the mover's own ``update`` is the same move again. The message ends when the move does.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import redis

from schemas.messages.proposal import begun_move, exchange_of_roles
from schemas.process.redis_url import in_words
from schemas.process.tables import readable
from scorer.client import Moving
from scorer.planning.wanted.differences import Step
from scorer.rpc.operators import operator_rules
from scorer.settings import ClientSettings
from scorer.wire import AWAY, Wire


def announce(
    settings: ClientSettings, moves: Sequence[tuple[Step, Moving]], why: str, roles: Sequence[Mapping[str, Any]] = (),
    lasts_s: float = 0.0,
) -> bool:  # fmt: skip
    """Put the moves on the list, in their order; return whether this worked, with the reason on stderr if not.

    They stay reserved then, and can be confirmed by hand. ``roles``: steps of a plan that exchange roles, which stay on
    the list of these for ``lasts_s``.
    """
    now_s = time.time()
    messages = [
        begun_move(step.id, step.generation, step.source or "", moving.to, moving.until, moving.number, now_s, why)
        for step, moving in moves
    ]
    for one in roles:
        named = (one["id"], one["generation"], one["source"], one["swap_role_with"], one["role"])
        messages.append(exchange_of_roles(*named, now_s + lasts_s, now_s, why))
    if not messages:
        return False
    try:
        with closing(Wire(settings.redis_arguments())) as wire:
            operator_rules.announce(wire, settings.names, messages, now_s)
    except (*AWAY, redis.ResponseError) as error:
        sys.stderr.write(f"the targets are reserved, but the moves are not on the list: {readable(in_words(error))}\n")
        return False
    return True
