"""Placements while scorers are killed and frozen and Redis is frozen: what was acknowledged is there, once.

    python -m tests.bench.chaos [--seconds 180] [--scorers 4] [--clients 8] [--machines 200] [--seed 1]
        [--spare-redis]

Clients place, confirm, move and release under a name of their own each time; some moves are left half way. Every
second or so a scorer is killed (and started again), frozen for up to three seconds, or Redis is frozen for up to one.
In the end every answer is compared with the ledger's log, the ledger and its sums (`tests.support.history`); none is
moving. SLOWLOG tells every script of 50 ms or more. The exit code says whether all of it held. A Redis that is frozen
in the middle of a command counts the time as the command's: SLOWLOG is judged with --spare-redis alone, by which it is
not frozen. It counts the time, too, for which a busy machine gave Redis no processor. So a script of constant work
(about 1 ms) is run beside, as a measure: scripts of the ledger are judged slow that took `SLOW_US` and three times the
longest of those.
"""

import itertools
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.ledger.store.scripts import Ledger
from scorer.wire import AWAY, Wire
from tests.bench.bench_scorers import CAPACITY, Deployer
from tests.bench.pairs import read_options
from tests.conftest import free_port, start_valkey, stop
from tests.support.history import Told
from tests.support.witness import verdict_on
from tests.window_tables import publish, window_table

SLOW_US = 50_000
MEASURE = "local sum = 0 for i = 1, 30000 do sum = sum + i % 7 end return sum"
"""Constant work, in Lua."""


def client_process(url, number, until, out):
    """Treat instances as the deployers of `tests.bench.bench_scorers` do, until then; put what was answered."""
    with Client(url, timeout_s=8) as client:
        deployer = Deployer(client, number)
        for turn in itertools.count(1):
            if time.time() >= until:
                break
            try:
                deployer.place(turn)
            except WindwardError as error:
                deployer.answers[error.code] += 1
    out.put((deployer.answers, deployer.told))


def measure_process(url, until):
    """Run the script of constant work until then; SLOWLOG has it as EVAL, the ledger's as EVALSHA."""
    wire = Wire({"url": url})
    while time.time() < until:
        try:
            wire.one("EVAL", MEASURE, 0)
        except AWAY:
            wire.close()
        time.sleep(0.02)


def longest(slow, command):
    """Return the longest of a command's entries in SLOWLOG, in milliseconds."""
    return max((entry[2] for entry in slow if entry[3][0] == command), default=0) / 1e3


def disturb(scorers, start, server, until, dice, spare):
    done = Counter()
    while time.time() < until - 5:
        time.sleep(dice.uniform(0.3, 1.5))
        place, kind = dice.randrange(len(scorers)), dice.random() * (0.75 if spare else 1)
        if kind < 0.35:
            scorers[place].send_signal(signal.SIGKILL)
            scorers[place].wait()
            scorers[place] = start(place)
            done["scorers killed"] += 1
        elif kind < 0.75:
            scorers[place].send_signal(signal.SIGSTOP)
            time.sleep(dice.uniform(0.1, 3.0))
            scorers[place].send_signal(signal.SIGCONT)
            done["scorers frozen"] += 1
        else:
            server.send_signal(signal.SIGSTOP)
            time.sleep(dice.uniform(0.05, 1.0))
            server.send_signal(signal.SIGCONT)
            done["Redis frozen"] += 1
    return done


def main():
    asked = read_options(__doc__, seconds=180, scorers=4, clients=8, machines=200, seed=1, spare_redis=False)
    port, names = free_port(), Names()
    url = f"redis://127.0.0.1:{port}/0"
    environ = {
        **os.environ, "WINDWARD_REDIS_URL": url, "WINDWARD_LOG_LEVEL": "error", "WINDWARD_HEARTBEAT_S": "0.2",
        "WINDWARD_SILENT_S": "1", "WINDWARD_LEDGER_LOG_LENGTH": "10000000",
    }  # fmt: skip

    def start(number):
        return subprocess.Popen([sys.executable, "-m", "scorer", "--name", f"s{number}-{time.time_ns()}"], env=environ)

    with tempfile.TemporaryDirectory() as directory:
        server = start_valkey(port, Path(directory))
        wire = Wire({"url": url})
        publish(
            wire, names,
            [window_table([f"m{n:04d}" for n in range(asked.machines)], utilization=0.0, capacity=CAPACITY,
                          at=time.time() + 3600)],
        )  # fmt: skip
        wire.one("CONFIG", "SET", "slowlog-log-slower-than", SLOW_US)
        scorers = [start(number) for number in range(asked.scorers)]
        try:
            with Client(url, timeout_s=60) as client:
                client.health()
            until = time.time() + asked.seconds
            out = multiprocessing.Queue()
            clients = [
                multiprocessing.Process(target=client_process, args=(url, number, until, out), daemon=True)
                for number in range(asked.clients)
            ]
            beside = multiprocessing.Process(target=measure_process, args=(url, until), daemon=True)
            for process in (*clients, beside):
                process.start()
            done = disturb(scorers, start, server, until, random.Random(asked.seed), asked.spare_redis)
            counts, said = Counter[str](), list[Told]()
            for _ in clients:
                one, told = out.get(timeout=120)
                counts, said = counts + one, said + told
            time.sleep(4)  # moves that were left half way end by themselves
            verdict = verdict_on(Ledger(wire, names, log_length=10_000_000), said, CAPACITY)
            slow = wire.one("SLOWLOG", "GET", 128)
        finally:
            for process in scorers:
                process.kill()
                process.wait()
            stop(server)
    print(f"{asked.seconds} s, {dict(done)}; clients: {dict(counts)}")
    print(f"{verdict.changes} changes, {verdict.acknowledged} acknowledged")
    names = sorted({entry[3][0] for entry in slow})
    ours, measured = longest(slow, b"EVALSHA"), longest(slow, b"EVAL")
    print(f"SLOWLOG of {SLOW_US / 1000:.0f} ms and more: {len(slow)} commands"
          + "".join(f", {name.decode()} up to {longest(slow, name):.0f} ms" for name in names)
          + f"; EVAL is constant work, {measured:.0f} ms at most")  # fmt: skip
    too_slow = ours > max(SLOW_US / 1e3, 3 * measured)
    print("\n".join(verdict.faults[:20]) or "nothing was lost or doubled, no machine over its limits, sums are right")
    return 1 if verdict.faults or (too_slow and asked.spare_redis) else 0


if __name__ == "__main__":
    sys.exit(main())
