"""What it costs to keep what was acknowledged: placements a second by what the ledger's server and the scorer wait for.

    python -m tests.bench.bench_acknowledged [--rounds 7] [--seconds 2] [--clients 8] [--machines 500]

One server with two replicas on this host, and a scorer for each count of replicas. The ways are measured in turn in
each round, so that other work on the machine slows all of them. Prints placements a second (median), the time of one
(median) and the ratio of each way to the first, by round, with its interval. The disk is that of the temporary folder.
"""

import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from ops.stack.servers.process import free_port
from schemas.names import Names
from scorer.client import Client
from scorer.wire import Wire
from tests.bench.pairs import ratio_of, read_options
from tests.bench.servers import machine_names, own_scorer
from tests.conftest import start_valkey, stop
from tests.support.pages import eventually
from tests.window_tables import publish, window_table

PLAIN = {"appendonly": "no", "appendfsync": "everysec", "min-replicas-to-write": "0"}
WAYS = {
    "nothing": ({}, 0),
    "AOF everysec": ({"appendonly": "yes"}, 0),
    "AOF always": ({"appendonly": "yes", "appendfsync": "always"}, 0),
    "min-replicas-to-write 2": ({"min-replicas-to-write": "2"}, 0),
    "acknowledged by 1": ({}, 1),
    "acknowledged by 2": ({}, 2),
    "AOF always, acknowledged by 2": ({"appendonly": "yes", "appendfsync": "always"}, 2),
}
"""By name: settings of the server beside `PLAIN`, and the replicas that a scorer waits for."""


def measure(url, prefix, clients, seconds):
    """Return placements a second, and the median time of one in milliseconds; each is released again."""
    until, times = time.monotonic() + seconds, list[float]()

    def work():
        with Client(url, prefix, timeout_s=30) as client:
            while time.monotonic() < until:
                started = time.perf_counter()
                answer = client.place(cpu=0.01, top=1)
                times.append(time.perf_counter() - started)
                answer.release()

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(times) / seconds, median(times) * 1e3


def main():
    asked = read_options(__doc__, rounds=7, seconds=2, clients=8, machines=500)
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    found = {way: [] for way in WAYS}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for number, options in enumerate([(), *[("--replicaof", f"127.0.0.1 {port}")] * 2]):
            (folder / str(number)).mkdir()
            own = free_port() if number else port
            server = start_valkey(own, folder / str(number), "--repl-diskless-sync-delay", "0", *options)
            stack.callback(stop, server)
        wire = Wire({"url": url})
        eventually(lambda: wire.ask([("SET", "first", ""), ("WAIT", 2, 100)])[1] == 2)
        for count in range(3):
            names = Names(f"by{count}")
            publish(wire, names, [window_table(machine_names(asked.machines), at=time.time() + 3600)])
            stack.enter_context(own_scorer(url, "--prefix", names.prefix, "--acknowledged-by", str(count)))
            with Client(url, names.prefix, timeout_s=60) as client:
                client.place(cpu=0.01).release()
        for number in range(asked.rounds + 1):
            for way, (settings, count) in WAYS.items():
                for name, value in (PLAIN | settings).items():
                    wire.one("CONFIG", "SET", name, value)
                eventually(lambda: b"aof_rewrite_in_progress:0" in wire.one("INFO", "persistence"))
                one = measure(url, f"by{count}", asked.clients, asked.seconds)
                if number:  # the first round is not counted
                    found[way].append(one)
        wire.close()
    first = [rate for rate, _ in found["nothing"]]
    for way, figures in found.items():
        ratio = ratio_of([rate / base for (rate, _), base in zip(figures, first, strict=True)])
        rate, one_ms = (median(column) for column in zip(*figures, strict=True))
        print(f"{way:30} {rate:6.0f} a second, {one_ms:5.1f} ms each, {ratio} of the first")
    return 0


if __name__ == "__main__":
    sys.exit(main())
