"""Each process through many lost connections and readings of the whole ledger: its memory is flat, by its slope."""

import time
from contextlib import ExitStack

import psutil
import pytest
import redis

from scorer.client import Client
from scorer.ledger.record.instance import Instance
from scorer.ledger.store.scripts import Ledger
from tests.bench.soak import slope
from tests.effort import effort
from tests.integration.kubernetes.test_load_watcher import load_watcher, nodes
from tests.integration.observe.test_exporter import exporter, get
from tests.integration.scorer.test_rpc import FRESH_S, MACHINES, planner_process, scorer_process
from tests.support.extender_process import extender, order
from tests.support.pages import eventually
from tests.window_tables import publish, window_table

pytestmark = pytest.mark.slow

ROUNDS = effort(75, 1_000)
INSTANCES = 1_000
WARM = 0.4
"""The share of the rounds after which memory has to be flat."""
RISE_MAX = 50_000.0
"""Bytes that memory may rise in a round. A reading of 2,500 instances that was kept was 3.3 MB."""


def fill(wire, names):
    """Write a fleet, its instances, and as many that have left."""
    ledger = Ledger(wire, names)
    for part in range(0, INSTANCES, 200):
        some = [
            Instance(
                id=f"{what}-{number}", machine=MACHINES[number % 10], state="confirmed", amounts=(0.01, 1e6),
                cluster=f"c{number % 50}", labels={"app": f"a{number % 9}"},
            )
            for number in range(part, part + 200)
            for what in ("stays", "left")
        ]  # fmt: skip
        ledger.correct(some)
        ledger.correct([], [one.id for one in some if one.id.startswith("left")])


@pytest.mark.timeout(3600)
def test_memory_is_flat_through_lost_connections(valkey, names, wire, tmp_path):
    """All connections are cut, and each process answers again, which it does after it has read all; many times."""
    fill(wire, names)
    url = valkey.url
    with ExitStack() as running:
        start, server = running.enter_context, redis.Redis.from_url(url)
        processes = {
            "scorer": psutil.Process(start(scorer_process(url, names, "--log-level", "error")).pid),
            "planner": psutil.Process(start(planner_process(url, names, "--log-level", "error", "--every", "1")).pid),
        }
        process, exporter_port = start(exporter(url, "--prefix", names.prefix))
        processes["exporter"] = psutil.Process(process.pid)
        process, watcher_page = start(load_watcher(url, names))
        processes["load watcher"] = psutil.Process(process.pid)
        process, verbs, _ = start(extender(url, names, log=tmp_path / "extender.log"))
        processes["extender"] = psutil.Process(process.pid)
        client = start(Client(url, names.prefix, timeout_s=30))

        def answer_again():
            """Whether each process has read all and answers."""
            page = get(f"http://127.0.0.1:{exporter_port}/metrics")[2]
            return (
                client.health()["ready"]
                and client.capacity(cpu=1)["fit"] > 0
                and b'machine="m00"' in page
                and len(nodes(watcher_page)) == len(MACHINES)
                and len(order(verbs, MACHINES)) == len(MACHINES)
            )

        at, memory = list[float](), {name: list[float]() for name in processes}
        for number in range(ROUNDS):
            if number % 100 == 0:
                publish(wire, names, [window_table(MACHINES, at=time.time() + FRESH_S)])
            server.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            server.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            eventually(answer_again)
            at.append(number)
            for name, process in processes.items():
                memory[name].append(process.memory_info().rss)
    rises = {name: slope(at, of, WARM * ROUNDS)[0] for name, of in memory.items()}
    assert max(rises.values()) < RISE_MAX, rises
