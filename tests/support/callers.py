"""Clients that place, confirm, resize, move and release until stdin ends; what each call was told is a line of stdout.

python -m tests.support.callers FIRST COUNT             # WINDWARD_REDIS_URL and the like: where, as for a scorer
"""

import contextlib
import os
import random
import sys
import threading

import msgspec

from scorer.client import Client, WindwardError
from tests.bench.bench_scorers import SIZES
from tests.support.witness import Witness

HOLD = 15
"""Instances that a client holds at most."""
TIMEOUT_S = 20.0
_encode = msgspec.json.Encoder().encode


def caller(client, number, stopping):
    """Go on under a new id each time, whatever becomes of the last one."""
    dice, held, turn = random.Random(number), list[str](), 0
    call = Witness(client, tell)
    while not stopping.is_set():
        turn += 1
        with contextlib.suppress(WindwardError):
            one_turn(call, f"c{number}-{turn}", held, dice)


def one_turn(call, name, held, dice):
    """Place and confirm one instance; resize, move or release another now and then."""
    cpu, memory = dice.choice(SIZES)
    answer = call("place", name, cpu=cpu, memory=memory, ports=[6379 + dice.randrange(20)], ttl_s=20, top=1)
    if answer.machine is not None:
        call("confirm", name, generation=answer.generation)
        held.append(name)
    fate = dice.random()
    if held and fate < 0.1:
        call("update", dice.choice(held), cpu=dice.choice(SIZES)[0])
    elif held and fate < 0.3:
        move(call, dice.choice(held))
    if held and (answer.machine is None or len(held) > HOLD):
        call("release", held.pop(dice.randrange(len(held))))


def move(call, name):
    begun = call("update", name, machine="", move=True, ttl_s=20)
    if begun.moving is not None:
        call("confirm", name, machine=begun.moving.to, generation=begun.generation, move=begun.moving.number)


def tell(said):
    """Write a line for each; a line is one write, so threads do not mix theirs."""
    os.write(sys.stdout.fileno(), b"".join(_encode(one) + b"\n" for one in said))


def main():
    first, count = map(int, sys.argv[1:])
    given = {name: os.environ.get(f"WINDWARD_REDIS_{name.upper()}", "") for name in ("password", "sentinel_password")}
    stopping = threading.Event()
    with Client(os.environ["WINDWARD_REDIS_URL"], os.environ["WINDWARD_PREFIX"], TIMEOUT_S, **given) as client:
        threads = [
            threading.Thread(target=caller, args=(client, number, stopping)) for number in range(first, first + count)
        ]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        stopping.set()
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main()
