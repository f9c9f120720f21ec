"""``windward demo`` without a terminal; and every process of a local stack restarted under load."""

import os
import re
import subprocess
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from ops.stack.servers.process import wait_until
from ops.stack.stack import Stack, StackSettings
from schemas.names import Names
from schemas.tables.window_table import aligned
from scorer.client import Client, WindwardError
from scorer.ledger.store.scripts import Ledger
from scorer.live.windows_reader import read_windows
from scorer.wire import Wire
from tests.effort import effort
from tests.integration.stack.test_stack_up import WINDWARD, environ, gone
from tests.support.witness import Witness, verdict_on


@pytest.mark.slow
@pytest.mark.long
def test_the_demo_shows_the_whole_stack_at_work(tmp_path):
    """Windows fill, machines are ranked, refusals explained, a burst is spread; all processes are gone after it."""
    machines = effort(60, 200)
    started = time.monotonic()
    done = subprocess.run(
        [*WINDWARD, "demo", "--prefix", "shown", "--machines", str(machines)],
        capture_output=True,
        text=True,
        env=environ(),
        check=False,
        timeout=150,
        cwd=tmp_path,
    )
    shown = done.stdout
    assert done.returncode == 0, shown + done.stderr
    assert time.monotonic() - started < 120
    assert re.search(
        rf"{machines + 1} machines seen +windows covered: 5 min 100% +15 min 100% +60 min (99|100)%", shown
    )
    assert "(real)" in shown
    assert re.search(r"machine +score +risk +cpu +cpu then", shown)
    assert re.search(rf"no machine fits +0/{machines + 1} feasible: \d+ ", shown)
    assert "50 of 50 reserved" in shown
    windward = re.search(r"^Windward +(\d+) +(\d+)", shown, re.MULTILINE)
    assert int(windward[1]) >= 8
    assert int(windward[2]) <= effort(
        20, 12
    )  # the simulated load follows the time of day: 13 of 50 at nine, by 60 machines
    cooled = re.search(r"^(sim-\d+) +(\d+)% +(\d+)% +6 +\d$", shown, re.MULTILINE)
    assert cooled is not None, "the hot machine before and after the plan"
    assert int(cooled[3]) < int(cooled[2])
    assert re.search(rf"6 instances of [\d.]+ cores were sent to {cooled[1]}", shown)
    assert re.search(r"all 7 processes are gone", shown)
    assert not list(tmp_path.iterdir())
    running = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if b"=shown\0" in read(path)]
    assert gone(set(running))


def read(path):
    """Return a file's content, nothing when it is gone or not ours."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


MACHINES, HOLD, DEADLINE_S = 30, 30, 10.0
STEADY_S = 3.0
"""How long the load runs before the first process, and after each."""
SETTLE_S = 60.0
"""How long the windows may take until they have all slots."""


class Caller(threading.Thread):
    """A client that places, confirms and releases until it is told to end; notes each answer, and how long it took."""

    def __init__(self, url, prefix, number):
        super().__init__(daemon=True)
        self._client, self._number = Client(url, prefix, timeout_s=DEADLINE_S), number
        self.said, self.took_s, self.stopping = [], [], threading.Event()
        self._witness = Witness(self._client, self.said.extend)

    def run(self):
        held = []
        while not self.stopping.is_set():
            name = f"c{self._number}-{len(self.took_s)}"
            self._call("place", name, cpu=0.1, memory=1e8, ttl_s=600, top=1)
            self._call("confirm", name)
            held.append(name)
            if len(held) > HOLD:
                self._call("release", held.pop(0))
        self._client.close()

    def _call(self, step, name, **params):
        started = time.monotonic()
        with suppress(WindwardError):  # it is noted
            self._witness(step, name, **params)
        self.took_s.append(time.monotonic() - started)


def left_over(wire, names):
    """Return the keys of answers that lie for a second: their callers had another one, or none."""
    found = set(wire.one("KEYS", names.reply("*")))
    time.sleep(1.0)
    return found & set(wire.one("KEYS", names.reply("*")))


def all_slots(stack, names):
    """Return whether each machine has all slots of the last five minutes."""
    with closing(Wire({"url": stack.redis_url})) as wire:
        found = read_windows(wire, names, stack.settings.partitions)
    tables = [windows.whole() for windows in found.windows]
    filled = [float(np.nanmin(aligned(table, "coverage")[0])) for table in tables if table.machines]
    return sum(len(table.machines) for table in tables) >= MACHINES and min(filled) == 1.0


@pytest.mark.slow
def test_everything_is_restarted_under_load(tmp_path):
    """Scorers, workers, exporter, planner, Redis: each call is answered in time and once, no slot is missing.

    Each process is ended as a unit would, and started again. The wheel's broker keeps no topics over a restart. Before
    Redis is restarted no answer is left over; a client that lost its connection asks again and may leave an equal one.
    """
    settings = StackSettings(
        kafka_port=0, redis_port=0, metrics_port=0, state_dir=tmp_path, streams=2, scorers=2, agent=False,
        planner=True, machines=MACHINES, prefix="rolling",
    )  # fmt: skip
    names = Names(settings.prefix)
    with Stack(settings, os.environ) as stack, closing(Wire({"url": stack.redis_url})) as wire:
        wait_until(lambda: all_slots(stack, names), SETTLE_S, "windows of all machines")
        callers = [Caller(stack.redis_url, names.prefix, number) for number in range(3)]
        for caller in callers:
            caller.start()
        time.sleep(STEADY_S)
        order = ("scorer", "stream", "exporter", "planner", "valkey")
        for process in [one for kind in order for one in stack.supervisor.processes if one.name.startswith(kind)]:
            if process.name == "valkey":
                assert not left_over(wire, names)
            process.stop()
            process.start()
            time.sleep(STEADY_S)
        for caller in callers:
            caller.stopping.set()
            caller.join()
        said = [one for caller in callers for one in caller.said]
        assert {(one.error, bool(one.machine)) for one in said} == {("", True)}
        assert max(took_s for caller in callers for took_s in caller.took_s) <= DEADLINE_S
        wire.close()
        assert verdict_on(Ledger(wire, names), said, ()).faults == []
        wait_until(lambda: all_slots(stack, names), SETTLE_S, "all slots")
