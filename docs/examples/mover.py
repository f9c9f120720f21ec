"""Carries out the moves of `windward planner`, `drain --apply` and `plan --apply`. It needs `windward_client`.

    python mover.py ./move-instance

runs ``./move-instance INSTANCE SOURCE TARGET`` for each, one after the other; WINDWARD_REDIS_URL names the server. Any
number may run. A move is reserved, carried out, confirmed, and acknowledged in the end. Who dies in between leaves a
reservation that ends by itself; the message is delivered to another, or the instance is planned again.

WINDWARD_MOVER_FILE names a file, one for each mover, that holds the move in hand. A mover that died goes on with it
when it is started again: it runs ``./move-instance`` again, which must then finish what it began.

MOVER_HAND_OVER names a program for proposals of kind role, which are on a list of their own: it runs as
``$MOVER_HAND_OVER INSTANCE OTHER`` and lets the two exchange their roles (`redis_roles.py` is one). Without it they
are left to other movers.

After a refused move it goes on with the others, as `windward drain --apply` does: the scorer checks each target again,
and the planner's next round plans with what has become of them.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import redis
from windward_client import Client, WindwardError

WAIT_S = 2
"""How long one look at the list waits: less than the 5 s after which redis-py no longer waits for an answer."""

MOVE_S = 1800
"""How long a move may take: so long its target is held."""


def mover(command: list[str], count: int = -1) -> None:
    """Carry out so many proposals, or go on for ever."""
    url = os.environ.get("WINDWARD_REDIS_URL", "redis://127.0.0.1:6379/0")
    prefix = os.environ.get("WINDWARD_PREFIX", "windward")
    waiting, roles, taken, fence = (prefix + ":v1:{moves}:" + name for name in ("waiting", "roles", "taken", "fence"))
    hand_over = shlex.split(os.environ.get("MOVER_HAND_OVER", ""))
    in_hand = Path(os.environ.get("WINDWARD_MOVER_FILE") or os.devnull)
    with redis.Redis.from_url(url) as server, Client(url, prefix) as scorer:
        left = in_hand.read_bytes() if in_hand.exists() else b""
        while count:
            if left and server.lpos(taken, left) is not None:  # else it was withdrawn, or delivered again, meanwhile
                message = left
            else:
                message = server.blmove(roles, taken, 0.1, "RIGHT", "LEFT") if hand_over else None
                message = message or server.blmove(waiting, taken, WAIT_S, "RIGHT", "LEFT")
            left = b""
            if message is None:
                continue
            in_hand.write_bytes(message)
            move = json.loads(message)
            if int(server.get(fence) or 0) > move["fence"]:
                done = "overtaken"
            elif time.time() > move["expires_at"]:
                done = "expired"
            elif move.get("kind") == "role":
                done = exchange(scorer, hand_over, move)
            else:
                done = carry_out(scorer, command, move)
            known = server.lrem(taken, 1, message)  # 0: it was withdrawn, or delivered again, meanwhile
            print(move["instance"], move["source"], move["target"], done if known else f"{done}, withdrawn", flush=True)
            count -= 1


def carry_out(scorer: Client, command: list[str], move: dict) -> str:
    """Reserve the target, move the instance, confirm; return in a word what came of it."""
    instance, target = move["instance"], move["target"]
    try:
        begun = scorer.update(instance, machine=target, move=True, generation=move["generation"], ttl_s=MOVE_S)
    except WindwardError as error:  # another generation, moved or ended meanwhile, or no room there any more
        return f"refused: {error}"
    if begun.moving is None:
        return "moved"  # it was confirmed there, and not acknowledged
    source = "" if move["reason"] == "lost" else move["source"]  # dead: start the instance anew, copy nothing
    try:
        subprocess.run([*command, instance, source, target], check=True, timeout=MOVE_S)
    except (OSError, subprocess.SubprocessError) as error:
        scorer.update(instance, cancel_move=True, generation=move["generation"])
        return f"failed: {error}"
    try:
        scorer.confirm(instance, machine=target, generation=move["generation"], move=begun.moving.number)
    except WindwardError as error:  # it ended while it moved, or the move was cancelled
        return f"moved, not confirmed: {error}"
    return "moved"


def exchange(scorer: Client, command: list[str], move: dict) -> str:
    """Hand the role over and tell the ledger; return in a word what came of it."""
    instance, other = move["instance"], move["swap_role_with"]
    try:
        subprocess.run([*command, instance, other], check=True, timeout=MOVE_S)
        scorer.update(instance, swap_role_with=other, role=move["role"], generation=move["generation"])
    except (OSError, subprocess.SubprocessError, WindwardError) as error:
        return f"failed: {error}"
    return "handed over"


if __name__ == "__main__":
    if not sys.argv[1:] or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    mover(sys.argv[1:])
