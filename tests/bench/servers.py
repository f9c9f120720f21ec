"""What benchmarks of the scorer share: a server, the names of a fleet, a scorer process."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from schemas.names import Names
from scorer.client import Client
from scorer.wire import Wire
from tests.bench.fleet_writer import fleet_writer
from tests.conftest import free_port, start_valkey, stop


@contextmanager
def own_server():
    """Yield the URL of a server that ends with the block, and a connection to it."""
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        server = start_valkey(port, Path(directory))
        url = f"redis://127.0.0.1:{port}/0"
        wire = Wire({"url": url})
        try:
            yield url, wire
        finally:
            wire.close()
            stop(server)


@contextmanager
def own_scorer(url, *options):
    """Yield a scorer on that server, as it is by default, that ends with the block."""
    command = [sys.executable, "-m", "scorer", "--redis-url", url, "--log-level", "warning", *options]
    scorer = subprocess.Popen(command)
    try:
        yield scorer
    finally:
        stop(scorer, wait_s=20)


def server_process(wire):
    lines = wire.one("INFO", "server").decode().splitlines()
    return int(next(line.partition(":")[2] for line in lines if line.startswith("process_id:")))


def processor_us(process):
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


def machine_names(count):
    return [f"machine-{number:05d}" for number in range(count)]


BEFORE_MAX = 10_000
"""Two instances a machine are in the ledger throughout, and at most so many."""
TOGETHER = 500
END_S = 120.0


@dataclass(frozen=True)
class Rig:
    url: str
    wire: Wire
    server: int
    scorer: int
    tell: Callable[[str], Mapping[str, float]]
    """Tells the writer of windows ``go`` or ``pause``."""
    before: int
    """Instances that are in the ledger throughout."""

    def processors(self):
        """Return the processor time of scorer and server, us."""
        return {"scorer": processor_us(self.scorer), "server": processor_us(self.server)}

    def refresh(self):
        """Have a sample of every machine written, and no more."""
        self.tell("go")
        self.tell("pause")

    def release(self, instances):
        """Release instances and wait for the end of all that were not there before."""
        names = Names()
        for first in range(0, len(instances), TOGETHER):
            part = instances[first : first + TOGETHER]
            queries = [
                {"v": 1, "id": f"end-{one}", "method": "release", "deadline": time.time() + 60, "params": {"id": one}}
                for one in part
            ]
            self.wire.ask([("LPUSH", names.queries, json.dumps(query)) for query in queries])
            self.wire.ask([("BLPOP", names.reply(f"end-{part[-1]}"), 60)], 60.0)
        self.await_the_end()

    def await_the_end(self):
        """Wait until only the instances of before are left."""
        until = time.monotonic() + END_S
        while (live := self.wire.one("HLEN", Names().ledger("instances"))) > self.before:
            assert time.monotonic() < until, f"{live - self.before} instances are left"
            time.sleep(0.05)


@contextmanager
def own_rig(machines):
    with own_server() as (url, wire), fleet_writer(url, machines) as tell, own_scorer(url) as scorer:
        with Client(url, timeout_s=60) as client:
            client.health()
            before, part = min(BEFORE_MAX, 2 * machines), min(1_000, 2 * machines)
            for number in range(before // part):
                placed = client.place(id=f"before-{number}", cpu=0.1, memory="100M", count=part, ttl_s=86_400)
                assert not placed["missing"], placed["reason"]
        yield Rig(url, wire, server_process(wire), scorer.pid, tell, before // part * part)
