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
from scorer.live.loader import WakeUps
from scorer.wire import AWAY, LOOK_S, Wire
from tests.bench.bench_scorers import CAPACITY
from tests.integration.scorer.test_rpc import scorer_process
from tests.support.pages import eventually
from tests.support.scenes import CUT_ALONE, CUT_WITH_ONE, FREEZE, KILL, Scene
from tests.support.sentinels import PASSWORD, SENTINEL_PASSWORD, Watched
from tests.window_tables import publish, window_table

MACHINES = [f"m{number:02d}" for number in range(20)]


@pytest.fixture
def watched(tmp_path):
    """Yield a primary, its replica and a sentinel."""
    with Watched(tmp_path) as found:
        yield found


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


def test_a_connection_to_the_old_primary_is_not_waited_for(watched, names):
    """That of a loader's wake-ups, and a wire: each is at the next primary soon after the sentinels' decision."""
    wire, wake_ups = Wire(watched.arguments), WakeUps(watched.arguments, names, threading.Event())
    wire.one("PING")
    wake_ups.wait()
    old, decided_at = watched.fail(signal.SIGSTOP)
    with contextlib.suppress(*AWAY):  # a connection that was closed is noticed, and another one answers
        wire.one("PING")
    assert time.monotonic() - decided_at < 2 * LOOK_S
    eventually(lambda: wake_ups.wait() is None and wake_ups._messages and wake_ups._messages.connection.port != old)
    wake_ups.close()
    wire.close()


AGAIN_S = 3.0
"""After the sentinels' decision, or when as many replicas follow as answers wait for, every client has placed."""


@pytest.mark.parametrize(
    ("acknowledged_by", "failures", "loses"),
    [
        pytest.param(0, (KILL,), None, id="none"),
        pytest.param(0, (FREEZE,), None, id="none-frozen", marks=pytest.mark.slow),
        pytest.param(2, (KILL, FREEZE) * 3, False, id="all", marks=pytest.mark.slow),
        pytest.param(2, (CUT_ALONE, CUT_WITH_ONE) * 2, False, id="all-cut", marks=pytest.mark.slow),
        pytest.param(1, (KILL, FREEZE) * 3, False, id="one", marks=pytest.mark.slow),
        # a primary that keeps as many replicas as answers wait for goes on beside the next one: what it did is lost
        pytest.param(0, (CUT_ALONE,), True, id="none-cut", marks=pytest.mark.slow),
        pytest.param(1, (CUT_WITH_ONE,), True, id="one-cut", marks=pytest.mark.slow),
    ],
)
def test_what_was_acknowledged_is_kept(tmp_path, names, acknowledged_by, failures, loses):
    """Nothing is doubled, no limit is broken, the sums are right; placing goes on within 3 s; what is lost is named."""
    with Scene(tmp_path, names, acknowledged_by) as scene:
        for how in failures:
            scene.fail(how)
        verdict = scene.end()
    assert not (verdict.doubled or verdict.over or verdict.wrong), verdict.faults
    assert loses in (None, bool(verdict.lost)), verdict.lost
    assert max(scene.again_s) < AGAIN_S, scene.again_s
