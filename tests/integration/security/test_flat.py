"""Memory is flat, by its slope: of each process through many lost connections, of scorer and planner by each call."""

import gc
import sys
import threading
import time
import tracemalloc
from contextlib import ExitStack, contextmanager
from unittest import mock

import numpy as np
import psutil
import pytest
import redis

from scorer import __main__ as scorer
from scorer.client import Client
from scorer.ledger.record.instance import Instance
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view import view
from scorer.planner import __main__ as planner
from scorer.settings import ScorerSettings
from tests.bench.soak import slope
from tests.effort import effort
from tests.integration.kubernetes.test_load_watcher import load_watcher, nodes
from tests.integration.observe.test_exporter import exporter, get
from tests.integration.scorer.test_rpc import FRESH_S, MACHINES, planner_process, scorer_process
from tests.support.extender_process import extender, order
from tests.support.in_process import run_command
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
        process, exporter_page = start(exporter(url, "--prefix", names.prefix))
        processes["exporter"] = psutil.Process(process.pid)
        process, watcher_page = start(load_watcher(url, names))
        processes["load watcher"] = psutil.Process(process.pid)
        process, verbs, _ = start(extender(url, names, log=tmp_path / "extender.log"))
        processes["extender"] = psutil.Process(process.pid)
        client = start(Client(url, names.prefix, timeout_s=30))

        def answer_again():
            """Whether each process has read all and answers."""
            page = get(f"{exporter_page}/metrics")[2]
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


SAFE = """survive = "machine"
[[filters]]
use = "machine_name"
[[filters]]
use = "fits"
[[scores]]
use = "least_allocated"
"""
PART = 6
"""Calls between two looks at memory: each has the collector look at all of it."""
LEFT_MAX = 2_000.0
"""Bytes that a call may leave. What-ifs whose patches did not end left 3,500 to 235,000, at ten machines."""


@contextmanager
def beside(main, url, names, *options):
    """Run a process in a thread of this one, whose memory is traced; yield what its SIGHUP does."""
    words = ["--redis-url", url, "--prefix", names.prefix, "--log-level", "error", "--metrics-port", "0", *options]
    with mock.patch("schemas.process.run.handle_signals") as handled:
        running = threading.Thread(target=main, args=(words, {}), daemon=True)
        running.start()
        eventually(lambda: handled.called)
    stop, read_again, _ = handled.call_args.args
    try:
        yield read_again
    finally:
        stop.set()
        running.join()


class Fleet:
    """A client of a scorer and a planner in this process; each method leaves the fleet as it was."""

    def __init__(self, client, url, names, read_again):
        self.client, self.server, self.read_again = client, redis.Redis.from_url(url), read_again
        self._names, self._at = names, ("--redis-url", url, "--prefix", names.prefix)

    def place(self, **request):
        asked = {"cpu": 0.5, "memory": "1G"} | ({"id": "new"} if "instances" not in request else {}) | request
        for one in self.client.place(**asked).placed:
            one.release()

    def live(self):
        """Place an instance, and have it grow, move and end."""
        self.client.place(id="lives", cpu=0.5, machine="m01").confirm()
        self.client.update("lives", cpu=1)
        self.client.update("lives", machine="m02", move=True)
        self.client.confirm("lives", machine="m02")
        self.client.release("lives")

    def drain(self):
        for one in self.client.drain(machines=["m03"], apply=True).moves:
            self.client.update(one.id, cancel_move=True)
        self.client.uncordon(machines=["m03"])

    def cordon(self):
        self.client.cordon(machines=["m0[1-4]"])
        self.client.uncordon(machines=["m0[1-4]"])

    def flush(self):
        """Write the windows: the last machine is dead."""
        tables = (
            window_table(MACHINES[:9], at=time.time() + FRESH_S),
            window_table(MACHINES[9:], at=time.time() - FRESH_S),
        )
        publish(self._at[1], self._names, tables)

    def command(self, *words):
        done = run_command(*words, *self._at, environ={})
        assert done.returncode == 0, done.stderr
        return done

    def rename(self):
        """Give a machine that is gone another name, and forget both."""
        self.client.cordon(machines=["old"], ahead=True)
        self.command("machines", "rename", "old", "new")
        self.server.hdel(self._names.operator, "old", "new")

    def __getattr__(self, name):
        return getattr(self.client, name)


WANTED = [{"id": f"wanted-{number}", "cpu": 0.5, "memory": "1G"} for number in range(20)]
MANY = [{"id": f"new-{number}", "cpu": 0.1 * (1 + number % 7)} for number in range(20)]
CALLS = {
    "place": lambda fleet: fleet.place(cluster="c1", anti_affinity=[{"instances": {"app": "a1"}}]),
    "place nowhere": lambda fleet: fleet.place(cpu=1_000),
    "place many": lambda fleet: fleet.place(count=20),
    "place many, all or nothing": lambda fleet: fleet.place(count=20, all_or_nothing=True),
    "place all different": lambda fleet: fleet.place(instances=MANY),
    "place all different, all or nothing": lambda fleet: fleet.place(instances=MANY, all_or_nothing=True),
    "survive": lambda fleet: fleet.place(profile="safe"),
    "survive, many": lambda fleet: fleet.place(profile="safe", count=20),
    "survive, all different": lambda fleet: fleet.place(profile="safe", instances=MANY),
    "survive, near the limit": lambda fleet: fleet.place(profile="safe", cpu=11, count=9),
    "live": Fleet.live,
    "rank, explained": lambda fleet: fleet.rank(cpu=1, memory="1G", explain=True),
    "capacity": lambda fleet: fleet.capacity(cpu=1, memory="1G", by="machine"),
    "capacity, if lost": lambda fleet: fleet.command("capacity", "--cpu", "1", "--if-lost", "rack=r1"),
    "plan": lambda fleet: fleet.plan(instances=WANTED, prune=True),
    "plan, release last": lambda fleet: fleet.plan(instances=WANTED, prune=True, release_last=True),
    "rebalance": lambda fleet: fleet.rebalance(),
    "drain": Fleet.drain,
    "drain, consolidating": lambda fleet: fleet.client.drain(consolidate=2),
    "drain, lost": lambda fleet: fleet.client.drain(machines=["m09"], lost=True),
    "cordon": Fleet.cordon,
    "rename": Fleet.rename,
    "lists": lambda fleet: (fleet.machines(), fleet.instances(violations=True), fleet.risk()),
    "flush": Fleet.flush,
    "profiles anew": lambda fleet: fleet.read_again(),
}


@pytest.fixture(scope="module")
def traced(valkey, module_names, tmp_path_factory):
    """A fleet whose two processes are threads of this one."""
    (folder := tmp_path_factory.mktemp("profiles")).joinpath("safe.toml").write_text(SAFE)
    publish(valkey.url, module_names, [window_table(MACHINES, at=time.time() + FRESH_S)])
    at, options = (valkey.url, module_names), ("--profiles", str(folder), "--leavers-most", "10")
    with (
        mock.patch.object(view, "CHANGES_MAX", 10), mock.patch.object(ScorerSettings, "block_s", 0.02),
        beside(scorer.main, *at, *options) as one, beside(planner.main, *at, *options, "--every", "1") as again,
        Client(valkey.url, module_names.prefix, timeout_s=60) as client,
    ):  # fmt: skip
        eventually(lambda: client.health()["ready"])
        fleet = Fleet(client, valkey.url, module_names, lambda: (one(), again()))
        for new in client.place(id="stays", count=200, cpu=0.5, memory="1G").placed:
            new.confirm()
        fleet.server.config_set("hz", 500)  # an idle process looks at the lists of operators that often
        fleet.flush()
        fleet.command("machines", "label", "m03", "rack=r1")
        eventually(lambda: client.rank(cpu=1)["feasible"] == 9)
        tracemalloc.start()
        for call in [*CALLS.values()] * 3:
            call(fleet)
        yield fleet
        fleet.server.config_set("hz", 10)
        sys.setswitchinterval(0.005)  # a scorer has set its own
        tracemalloc.stop()


def least_held(fleet, call):
    """Return the least memory in use after some calls, bytes; what a thread holds for a while is left out."""
    held = list[int]()
    for _ in range(PART):
        call(fleet)
        gc.unfreeze()  # what a command read of a ledger, which a process of its own keeps to its end
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    return min(held)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_nothing_in_memory(traced, name):
    """Scorer, planner and client together hold no more after some calls than before; a leak rises each time."""
    held = [least_held(traced, CALLS[name])]
    while len(held) < 5:
        held.append(least_held(traced, CALLS[name]))
        if held[-1] - held[-2] < PART * LEFT_MAX:
            return
    pytest.fail(f"{name}: rises by {np.diff(held) / PART} bytes a call")
