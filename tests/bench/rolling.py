"""Everything is restarted once under load, one process after the other: what callers and windows notice of it.

    python -m tests.bench.rolling [--machines 60] [--clients 4] [--deadline-s 10] [--kafka-server apache]

A local stack with two workers and two scorers, exporter and planner, and a simulated fleet. Clients place, confirm
and release meanwhile. Each process is ended as a unit would (SIGTERM), started again and awaited until it is ready: the
scorers, the workers, exporter and planner, then the servers. The wheel's broker keeps no topics over a restart, so
only brokers of Apache Kafka are restarted (``--kafka-server apache`` starts three of them).

Prints a line a process: how long it was away, the calls answered meanwhile, the longest of them. What must hold, and
the exit code says: every call is answered within its deadline; none is answered twice; each instance that a client was
told to hold is in the ledger, and no other; sums are right; every machine has all its slots of the last five minutes.
Before the servers are restarted no answer may be left over. A client that lost its connection asks again under the same
id, and may leave one of two equal answers.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ops.stack.servers.process import LocalError, wait_until
from ops.stack.stack import Stack, StackSettings
from schemas.names import Names
from schemas.tables.window_table import aligned
from scorer.client import Client, WindwardError
from scorer.ledger.store.check import Check
from scorer.ledger.store.scripts import Ledger
from scorer.live.windows_reader import read_windows
from scorer.wire import Wire
from streams.worker.topics import TopicSettings, ensure_topics
from tests.kafka.apache_kafka import ApacheKafka

HOLD = 30
"""Instances that a client holds at most."""
STEADY_S = 3.0
"""How long the load runs before the first process, and after each."""
SHORT_WINDOW_S = 300
SETTLE_S = 60.0
"""How long the windows may take after the last restart until they have all slots."""


@dataclass
class Caller:
    """One client: what it was told, and how long each call took."""

    number: int
    deadline_s: float
    held: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[float, float]] = field(default_factory=list)
    """When each call ended, and how long it took, s."""
    failures: list[str] = field(default_factory=list)

    def run(self, url, prefix, until):
        """Place, confirm and release until told to end."""
        turn = 0
        with Client(url, prefix, timeout_s=self.deadline_s) as client:
            while not until.is_set():
                turn += 1
                name = f"c{self.number}-{turn}"
                try:
                    self._turn(client, name)
                except WindwardError as error:
                    self.failures.append(f"{name}: {error}")

    def _turn(self, client, name):
        started = time.monotonic()
        answer = client.place(id=name, cpu=0.1, memory=1e8, ttl_s=600, top=1)
        started = self._note(started)
        if answer.machine is None:
            self.failures.append(f"{name}: no machine, {answer.reason}")
            return
        answer.confirm()
        self.held[name] = answer.machine
        started = self._note(started)
        if len(self.held) > HOLD:
            oldest = next(iter(self.held))
            client.release(oldest)
            del self.held[oldest]
            self._note(started)

    def _note(self, started):
        now = time.monotonic()
        self.calls.append((now, now - started))
        return now


@contextmanager
def called(url, prefix, clients, deadline_s):
    """Yield callers at work; they have ended after the block."""
    until = threading.Event()
    callers = [Caller(number, deadline_s) for number in range(clients)]
    threads = [threading.Thread(target=caller.run, args=(url, prefix, until)) for caller in callers]
    for thread in threads:
        thread.start()
    try:
        yield callers
    finally:
        until.set()
        for thread in threads:
            thread.join()


def rolled(stack, brokers):
    """Return the processes to restart, in order: what decides and folds first, servers last."""
    running = [*stack.supervisor.processes, *brokers]
    order = ("scorer", "stream", "exporter", "planner", "kafka-", "valkey")
    return [each for kind in order for each in running if each.name.startswith(kind)]


def restart(process):
    """End a process as a unit would, start it again, await it; return how long it was away, s."""
    started = time.monotonic()
    process.stop()
    process.start()
    return time.monotonic() - started


def left_over(wire, names):
    """Return the keys of answers that lie for a second: their callers had another one, or none."""
    found = set(wire.one("KEYS", names.reply("*")))
    time.sleep(1.0)
    return sorted(key.decode() for key in found & set(wire.one("KEYS", names.reply("*"))))


def gaps(stack, machines):
    """Return what the short windows lack of the fleet's slots; "" for nothing."""
    names = Names(stack.settings.prefix)
    with closing(Wire({"url": stack.redis_url})) as wire:
        found = read_windows(wire, names, stack.settings.partitions)
    tables = [windows.whole() for windows in found.windows]
    several = sum(len(table.machines) for table in tables)
    if several < machines:
        return f"{several} of {machines} machines have windows"
    for table in tables:
        coverage = aligned(table, "coverage")
        if coverage is not None and coverage.size and float(np.nanmin(coverage[0])) < 1.0:
            return f"a window of {SHORT_WINDOW_S} s is filled to {float(np.nanmin(coverage[0])):.2f}"
    return ""


def roll(stack, machines, clients, deadline_s, brokers=()):
    """Restart everything under load; print a line for each process, return what did not hold."""
    url, names = stack.redis_url, Names(stack.settings.prefix)
    wire = Wire({"url": url})
    wait_until(lambda: not gaps(stack, machines), SETTLE_S, "windows of all machines")
    faults = []
    with called(url, names.prefix, clients, deadline_s) as callers:
        time.sleep(STEADY_S)
        for process in rolled(stack, brokers):
            if process.name == "valkey":
                faults += [f"{key} holds an answer that no caller took" for key in left_over(wire, names)]
            begun = time.monotonic()
            away_s = restart(process)
            time.sleep(STEADY_S)
            during = [took for caller in list(callers) for ended, took in caller.calls if ended >= begun]
            longest = max(during, default=0.0)
            print(
                f"{process.name:12} away {away_s:5.1f} s, {len(during):5} calls, longest {longest:5.2f} s", flush=True
            )
    faults += [failure for caller in callers for failure in caller.failures]
    faults += [f"a call took {took:.1f} s" for caller in callers for _, took in caller.calls if took > deadline_s]
    wire.close()
    ledger = Ledger(wire, names)
    live = {name: one.machine for name, one in ledger.all_instances().items() if name.startswith("c")}
    held = {name: machine for caller in callers for name, machine in caller.held.items()}
    faults += [f"{name}: told {held.get(name)}, in the ledger {live.get(name)}"
               for name in sorted(held.keys() | live.keys()) if held.get(name) != live.get(name)]  # fmt: skip
    faults += [f"the ledger's sums: {one}" for one in Check(ledger).run().differences]
    try:
        wait_until(lambda: not gaps(stack, machines), SETTLE_S, "all slots")
    except LocalError:
        faults.append(gaps(stack, machines))
    calls = sum(len(caller.calls) for caller in callers)
    print(f"{calls} calls, {len(held)} instances held, {len(faults)} faults", flush=True)
    return faults


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=60)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--deadline-s", type=float, default=10.0)
    parser.add_argument("--kafka-server", choices=("tansu", "apache"), default="tansu")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        kafka = servers.enter_context(ApacheKafka(brokers=3)) if given.kafka_server == "apache" else None
        if kafka:
            made = {"replication": kafka.replication, "min_insync": kafka.min_insync}
            ensure_topics(TopicSettings(kafka=kafka.address, prefix="rolling", **made))
        settings = StackSettings(
            kafka=kafka.address if kafka else "", kafka_port=0, redis_port=0, metrics_port=0,
            state_dir=Path(folder), streams=2, scorers=2, agent=False,
            planner=True, machines=given.machines, prefix="rolling",
        )  # fmt: skip
        with Stack(settings, os.environ, say=lambda line: print(line, flush=True)) as stack:
            brokers = kafka.brokers if kafka else ()
            faults = roll(stack, given.machines, given.clients, given.deadline_s, brokers)
    print("\n".join(faults[:20]) or "every call was answered in time, once; nothing is lost; no slot is missing")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
