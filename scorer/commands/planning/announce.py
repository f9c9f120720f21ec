"""Puts moves whose targets are reserved on the list from which a mover takes them, and takes them off again.

The list is the planner's (`schemas.messages.proposal`). A message of a command has the fence `COMMANDS`, above any
lease's number: no planner overtakes it, and a mover that compares fences carries it out. The target is reserved
already, so the mover's own ``update`` is the same move again. The message ends when the move does.

A planner's proposal for the same instance that no mover has taken is removed: two movers would run one move.

Written without a script, one message at a time: a message that is announced twice is one move, since its second
``update`` or its confirmation is refused.
"""

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import redis

from schemas.messages.proposal import READ_MAX, begun_move, exchange_of_roles, replaced, write_proposal
from schemas.process.redis_url import in_words
from schemas.process.tables import readable
from scorer.client import Moving
from scorer.commands.shared import ask
from scorer.planning.wanted.differences import Step
from scorer.settings import ClientSettings
from scorer.wire import AWAY


def announce(
    settings: ClientSettings, moves: Sequence[tuple[Step, Moving]], why: str, roles: Sequence[Mapping[str, Any]] = (),
    lasts_s: float = 0.0,
) -> bool:  # fmt: skip
    """Put the moves on the list, in their order; return whether this worked, with the reason on stderr if not.

    They stay reserved then, and can be confirmed by hand. ``roles``: steps of a plan that exchange roles, which stay on
    the list of these for ``lasts_s``.
    """
    if not moves and not roles:
        return False
    now_s = time.time()
    exchanges = [
        write_proposal(
            exchange_of_roles(
                one["id"],
                one["generation"],
                one["source"],
                one["swap_role_with"],
                one["role"],
                now_s + lasts_s,
                now_s,
                why,
            )
        )
        for one in roles
    ]
    messages = [
        write_proposal(
            begun_move(step.id, step.generation, step.source or "", moving.to, moving.until, moving.number, now_s, why)
        )
        for step, moving in moves
    ]
    try:
        _take_off(settings, {step.id for step, _ in moves} | {one["id"] for one in roles}, now_s, proposed=True)
        with ask.server(settings) as server:
            for key, several in ((settings.names.moves_waiting, messages), (settings.names.moves_roles, exchanges)):
                for message in several:
                    server.lpush(key, message)
    except (*AWAY, redis.ResponseError) as error:
        sys.stderr.write(f"the targets are reserved, but the moves are not on the list: {readable(in_words(error))}\n")
        return False
    return True


def withdraw(settings: ClientSettings, instances: Iterable[str]) -> None:
    """Remove the moves of these instances that commands put on the lists."""
    _take_off(settings, set(instances), time.time())


def _take_off(settings: ClientSettings, instances: set[str], now_s: float, *, proposed: bool = False) -> None:
    """Remove the commands' messages on these instances, and all expired messages of commands.

    ``proposed``: also a planner's waiting proposals for these instances.
    """
    taken = settings.names.moves_taken
    with ask.server(settings) as server:
        for key in (settings.names.moves_waiting, settings.names.moves_roles, taken):
            found = server.lrange(key, -READ_MAX, -1)
            for raw in replaced(found, instances, now_s, waiting=proposed and key != taken):
                server.lrem(key, 0, raw)
