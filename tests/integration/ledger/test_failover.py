"""Servers behind real sentinels that die, freeze or are cut off: placing goes on, what was acknowledged is kept."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from scorer.client import AsyncClient, Client, WindwardError
from scorer.ledger.store.scripts import Ledger
from scorer.live.loader import WakeUps
from scorer.wire import AWAY, LOOK_S, Wire
from tests.bench.bench_scorers import CAPACITY
from tests.integration.scorer.test_rpc import scorer_process
from tests.support.pages import eventually
from tests.support.scenes import CUT_ALONE, CUT_WITH_ONE, FREEZE, KILL, Scene
from tests.support.sentinels import PASSWORD, SENTINEL_PASSWORD, Watched
from tests.support.witness import Witness, verdict_on
from tests.window_tables import publish, window_table

MACHINES = [f"m{number:02d}" for number in range(20)]


@pytest.fixture
def watched(tmp_path):
    """Yield a primary, its replica and a sentinel."""
    with Watched(tmp_path) as found:
        yield found


class Placer(threading.Thread):
    """Places, confirms and releases until it is told to stop; notes each call and what was answered."""

    def __init__(self, watched, names, number):
        super().__init__(daemon=True)
        self._client = Client(prefix=names.prefix, timeout_s=30, **watched.arguments)
        self._number = number
        self.stopping = threading.Event()
        self.said = []

    def run(self):
        """Place, under a new id each time; every third instance stays."""
        call, turn = Witness(self._client, self.said.extend), 0
        while not self.stopping.is_set():
            turn += 1
            name = f"p{self._number}-{turn}"
            with contextlib.suppress(WindwardError):
                generation = call("place", name, cpu=0.1).generation
                call("confirm", name, generation=generation)
                if turn % 3:
                    call("release", name, generation=generation)
        self._client.close()

    def placed_s(self):
        """Return when each placement was answered."""
        return [one.at_s for one in self.said if one.step == "place" and one.machine]


@pytest.mark.parametrize(
    "how",
    [pytest.param(signal.SIGKILL, id="killed"), pytest.param(signal.SIGSTOP, id="frozen", marks=pytest.mark.slow)],
)
def test_placing_goes_on_after_a_failover(watched, names, how):
    """Within 3 s of the sentinels' decision; nothing acknowledged is elsewhere, or twice; the sums are right."""
    wire = Wire(watched.arguments)
    publish(wire, names, [window_table(MACHINES, at=time.time() + 3600, capacity=CAPACITY)])
    scorers = [
        scorer_process(
            watched.url, names, "--name", f"s{number}", "--ledger-log-length", "1000000", env=watched.environ
        )
        for number in range(2)
    ]
    placers = [Placer(watched, names, number) for number in range(3)]
    with scorers[0], scorers[1]:
        for placer in placers:
            placer.start()
        eventually(lambda: all(len(placer.placed_s()) > 20 for placer in placers))
        wake_ups = WakeUps(watched.arguments, names, threading.Event())
        wake_ups.wait()
        old, decided_at = watched.fail(how)
        with contextlib.suppress(*AWAY):  # a connection that was closed is noticed, and another one answers
            wire.one("PING")
        assert time.monotonic() - decided_at < 2 * LOOK_S, "a connection to a server that stands still is waited for"
        eventually(lambda: wake_ups.wait() is None and wake_ups._messages and wake_ups._messages.connection.port != old)
        wake_ups.close()
        before = [len(placer.placed_s()) for placer in placers]
        eventually(lambda: all(len(one.placed_s()) > count + 20 for one, count in zip(placers, before, strict=True)))
        watched.signal(old, signal.SIGCONT)
        for placer in placers:
            placer.stopping.set()
            placer.join(60)
        again_s = [min(at_s for at_s in placer.placed_s() if at_s > decided_at) - decided_at for placer in placers]
        assert max(again_s) < 3, again_s
        wire.close()
        said = [one for placer in placers for one in placer.said]
        verdict = verdict_on(Ledger(wire, names, log_length=1_000_000), said, CAPACITY)
        assert not (verdict.doubled or verdict.over or verdict.wrong), verdict.faults
        lost = {fault.split()[1] for fault in verdict.lost}
        assert len(lost) <= 3, lost  # one call of each client: without WAIT an answer may be lost
    errors = {one.error for one in said if one.error}
    assert errors <= {"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "FAILED_PRECONDITION", "NOT_FOUND"}
    wire.close()


def test_every_way_in_takes_the_url(watched, names):
    """The asyncio client, the command line and doctor; the sentinels' password is needed, and a wrong name is told."""
    wire = Wire(watched.arguments)
    publish(wire, names, [window_table(MACHINES, at=time.time() + 3600, capacity=CAPACITY)])
    wire.close()
    own = f"redis+sentinel://:{PASSWORD}@127.0.0.1:1,{watched.url.partition('://')[2]}".replace(" ", "%20")
    both = f"{own}?sentinel_password={SENTINEL_PASSWORD}".replace(" ", "%20")
    environ = {**os.environ, **watched.environ, "WINDWARD_PREFIX": names.prefix}

    async def place():
        async with AsyncClient(both, names.prefix, timeout_s=30) as client:
            return (await client.place(id="a", cpu=1)).machine

    def run(*command):
        return subprocess.run(
            [sys.executable, "-m", "ops.cli.main", *command], env=environ, capture_output=True, text=True, check=False
        )

    ledger = ("--ledger-url", watched.url)
    with scorer_process(watched.url, names, *ledger, env=watched.environ):
        assert asyncio.run(place()) in MACHINES
        with Client(both, names.prefix, timeout_s=30) as client:
            assert client.place(id="a", cpu=1).repeated == 1
        assert json.loads(run("why", "a", "--json").stdout)["id"] == "a"

        def no_error():
            """Whether doctor has seen the scorer, and no error; its heartbeat may be of before it was ready."""
            found = json.loads(run("doctor", "--no-broker", "--json", *ledger).stdout)["findings"]
            return "scorer" in {one["area"] for one in found} and all(one["level"] != "error" for one in found)

        eventually(no_error)
        for url, said, code in (
            (own, "NOAUTH|Authentication", "UNAUTHENTICATED"),
            (both.replace("/main/", "/other/"), "No master found for 'ot", "UNAVAILABLE"),
        ):
            with Client(url, names.prefix, timeout_s=0.5) as client, pytest.raises(WindwardError, match=said) as error:
                client.health()
            assert error.value.code == code
    sentinel = f"redis://127.0.0.1:{watched.sentinel_ports[0]}"
    environ["WINDWARD_REDIS_PASSWORD"] = SENTINEL_PASSWORD
    done = run("scorer", "--redis-url", sentinel)
    assert done.returncode == 2
    assert "runs as a sentinel: give redis+sentinel://" in done.stderr


AGAIN_S = 3.0
"""After the sentinels' decision, or when as many replicas follow as answers wait for, every client has placed."""


@pytest.mark.parametrize(
    ("acknowledged_by", "failures"),
    [
        pytest.param(2, (KILL, FREEZE) * 3, id="all", marks=pytest.mark.slow),
        pytest.param(2, (CUT_ALONE, CUT_WITH_ONE) * 2, id="all-cut", marks=pytest.mark.slow),
        pytest.param(1, (KILL, FREEZE) * 3, id="one", marks=pytest.mark.slow),
    ],
)
def test_what_was_acknowledged_is_kept(tmp_path, names, acknowledged_by, failures):
    """Nothing is lost or doubled, no limit is broken, the sums are right; placing goes on within 3 s."""
    with Scene(tmp_path, names, acknowledged_by) as scene:
        for how in failures:
            scene.fail(how)
        verdict = scene.end()
    assert verdict.faults == []
    assert max(scene.again_s) < AGAIN_S, scene.again_s


@pytest.mark.slow
@pytest.mark.parametrize(("acknowledged_by", "how"), [(0, CUT_ALONE), (1, CUT_WITH_ONE)], ids=["none", "one"])
def test_what_a_cut_loses_is_named(tmp_path, names, acknowledged_by, how):
    """A primary that keeps as many replicas as answers wait for goes on beside the next one: what it did is lost."""
    with Scene(tmp_path, names, acknowledged_by) as scene:
        scene.fail(how)
        verdict = scene.end()
    assert verdict.lost
    assert not (verdict.doubled or verdict.over or verdict.wrong), verdict.faults
    assert max(scene.again_s) < AGAIN_S, scene.again_s
