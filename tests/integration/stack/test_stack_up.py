"""``windward up`` and ``windward demo`` as a user runs them: real processes from start to end."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from ops.record.folder import steps
from ops.replay.recorded.recorded import read_recorded
from ops.stack.servers.local import LocalValkey
from ops.stack.servers.process import free_port, wait_until
from scorer.client import Client
from tests.support.fresh import all_fresh
from tests.support.in_process import refusal, run_command

BUNDLED = (
    ("settings.json", "settings"), ("versions.json", "redis"), ("processes.json", "stream-1"), ("redis.json", "Redis"),
)  # fmt: skip
"""Files of a bundle that are JSON, and something that each must have."""

WINDWARD = [sys.executable, "-P", "-m", "ops.cli.main"]
ANY_PORTS = ["--kafka-port", "0", "--redis-port", "0", "--metrics-port", "0"]


def environ():
    """This process's environment without settings of ours; windows are written less often, since tests share cores."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("WINDWARD_")}
    return others | {"WINDWARD_FLUSH_INTERVAL_S": "0.5"}


def descendants(pid):
    """Return all processes below one, dead or alive."""
    found = set()
    for line in subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.splitlines():
        child, parent = map(int, line.split())
        if parent == pid:
            found |= {child, *descendants(child)}
    return found


def gone(pids):
    """Whether none of these processes runs any more."""
    return not [
        pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


@contextmanager
def up(folder, *more, **extra):
    """Run ``windward up`` until it says that it is ready; kill it at the end if it still runs."""
    command = [*WINDWARD, "up", "--json", "--state-dir", str(folder / "state"), *more]
    with (folder / "notes").open("w") as notes:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=notes, text=True, env=environ() | extra, cwd=folder
        )
    try:
        said = process.stdout.readline()
        assert said, (folder / "notes").read_text()
        yield process, json.loads(said)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_interrupted_before_it_is_ready_exits_130(tmp_path, number):
    command = [*WINDWARD, "up", "--state-dir", str(tmp_path / "state"), *ANY_PORTS, "--no-exporter", "--no-agent"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ())
    assert process.stderr.readline().startswith("broker on ")
    started = descendants(process.pid)
    process.send_signal(number)
    out, notes = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert notes.endswith("stopped before everything was ready\n")
    assert started
    assert gone(started)


def test_up_places_restarts_what_dies_and_leaves_nothing_behind(tmp_path):
    """The stack answers; a scorer killed with -9 is started again; SIGTERM ends all with exit code 0.

    The servers that this shell asks, and its user there, are not those of the stack. A smaller fleet in the same folder
    is refused.
    """
    asked = {f"WINDWARD_{name}_URL": f"redis://127.0.0.1:{free_port()}/0" for name in ("REDIS", "LEDGER", "WINDOWS")}
    asked |= {"WINDWARD_KAFKA": f"127.0.0.1:{free_port()}", "WINDWARD_KAFKA_SECURITY": "SASL_PLAINTEXT"}
    asked |= {"WINDWARD_KAFKA_SASL_USERNAME": "doctor", "WINDWARD_KAFKA_SASL_PASSWORD": "secret"}
    asked |= {"WINDWARD_REDIS_USERNAME": "operator"}
    with up(tmp_path, *ANY_PORTS, "--machines", "20", "--backfill-s", "600", **asked) as (process, addresses):
        with Client(addresses["redis_url"], timeout_s=60) as client:
            assert all_fresh(client, 20), "up says ready when each machine is known by a recent sample"
            assert client.place(cpu=1, memory="1G", id="first")["placed"][0]["state"] == "reserved"
            pids = descendants(process.pid)
            assert len(pids) == 8
            scorer = next(pid for pid in pids if b"\0scorer\0" in Path(f"/proc/{pid}/cmdline").read_bytes())
            os.kill(scorer, signal.SIGKILL)
            assert client.place(cpu=1, memory="1G", id="first", timeout_s=60)["repeated"]
        assert "scorer-1 ended with -9; again in 1 s" in (tmp_path / "notes").read_text()
        pids = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert gone(pids)
    smaller = ["up", "--state-dir", str(tmp_path / "state"), *ANY_PORTS, "--machines", "7"]
    refused = subprocess.run([*WINDWARD, *smaller], capture_output=True, text=True, env=environ(), check=False)
    assert refused.returncode == 1
    assert "state has the data of 20 simulated machines, and 7 are started" in refused.stderr.splitlines()[-1]
    assert "give --machines 20 or another --state-dir, or begin anew: rm -r " in refused.stderr


@pytest.mark.slow
def test_everything_ends_with_a_stack_that_is_killed(tmp_path):
    """Kill -9 of ``windward up`` leaves no process: not a server, not a worker."""
    with up(tmp_path, *ANY_PORTS) as (process, _):
        pids = descendants(process.pid)
        assert len(pids) == 7
        process.kill()
        process.wait()
        wait_until(lambda: gone(pids), 10, "all processes are gone")


@pytest.mark.slow
def test_up_uses_servers_that_exist_with_their_password(tmp_path):
    """With --redis-url no Valkey is started; the password goes on by the environment and is in nobody's arguments."""
    with LocalValkey(password="not an argument", directory=tmp_path / "valkey") as valkey:
        more = ["--kafka-port", "0", "--metrics-port", "0", "--redis-url", valkey.url, "--prefix", "mine"]
        with up(tmp_path, *more, WINDWARD_REDIS_PASSWORD="not an argument") as (process, addresses):
            assert addresses["redis_url"] == valkey.url
            pids = descendants(process.pid)
            assert len(pids) == 6
            arguments = b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids)
            assert b"not an argument" not in arguments
            with redis.Redis.from_url(valkey.url, password="not an argument") as client:
                assert client.exists("mine:v1:partitions") == 1, "the stream app has written"
            _bundle_tells_all_but_secrets(tmp_path, addresses)


def _bundle_tells_all_but_secrets(folder, addresses):
    where = ["--redis-url", addresses["redis_url"], "--kafka", addresses["kafka"], "--prefix", "mine"]
    command = [*WINDWARD, "doctor", "--bundle", "b.tar.gz", "--log-dir", "state", *where]
    own = environ() | {"WINDWARD_REDIS_PASSWORD": "not an argument"}
    done = subprocess.run(command, capture_output=True, text=True, env=own, check=False, cwd=folder)
    assert "b.tar.gz: " in done.stderr, done.stderr
    with tarfile.open(folder / "b.tar.gz") as archive:
        texts = {one.name.partition("/")[2]: archive.extractfile(one).read().decode() for one in archive}
    assert "not an argument" not in "".join(texts.values())
    assert '"WINDWARD_REDIS_PASSWORD": "(set)"' in texts["settings.json"]
    assert {json.loads(texts[name])[kind] is not None for name, kind in BUNDLED} == {True}
    assert "windward_stream_" in next(text for name, text in texts.items() if "pages/stream-" in name)
    assert {"logs/stream-1.log", "logs/scorer-1.log", "logs/broker.log"} <= texts.keys()
    assert texts["report.txt"].splitlines()[-1] == done.stdout.splitlines()[-1]


def test_a_second_stack_in_the_same_folder_is_refused(tmp_path):
    """Two stacks never share state; the error is one line that names the setting."""
    with up(tmp_path, *ANY_PORTS, "--no-agent", "--streams", "0"):
        command = [*WINDWARD, "up", *ANY_PORTS, "--state-dir", str(tmp_path / "state")]
        second = subprocess.run(command, capture_output=True, text=True, env=environ(), check=False, timeout=60)
    assert second.returncode == 1
    assert second.stderr.splitlines() == [f"windward up: another stack runs in {tmp_path / 'state'}: give --state-dir"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        pytest.param(["--redis-url", "http://here"], "redis_url: expected a redis://", id="no-redis-url"),
        pytest.param(["--kafka", "nowhere"], "kafka: expected HOST:PORT", id="no-port"),
        pytest.param(["--machines", "-1"], "machines: ", id="negative-fleet"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(flags, said, tmp_path):
    assert refusal("up", "--state-dir", str(tmp_path / "state"), *flags).startswith(said)
    assert not (tmp_path / "state").exists()


def test_a_port_in_use_names_the_way_out(tmp_path):
    """The user learns how to use what listens there, or how to go elsewhere."""
    with LocalValkey(directory=tmp_path / "valkey") as valkey:
        flags = ["--kafka-port", "0", "--redis-port", str(valkey.port), "--state-dir", str(tmp_path / "state")]
        done = subprocess.run([*WINDWARD, "up", *flags], capture_output=True, text=True, env=environ(), check=False)
    assert done.returncode == 1
    assert f"something listens on 127.0.0.1:{valkey.port} already; use it by --redis-url, or give" in done.stderr


@pytest.mark.slow
def test_a_broker_that_does_not_answer_is_named(tmp_path):
    """With nobody at --kafka the stack does not start, and says which address it tried."""
    address = f"127.0.0.1:{free_port()}"
    flags = ["--kafka", address, "--redis-port", "0", "--state-dir", str(tmp_path / "state")]
    done = subprocess.run([*WINDWARD, "up", *flags], capture_output=True, text=True, env=environ(), check=False)
    assert done.returncode == 1
    assert f"windward up: kafka: {address} cannot be used" in done.stderr


@pytest.mark.slow
def test_a_recorded_stack_is_replayed_under_another_profile(tmp_path):
    """``up --record``, placements, ``replay``: another profile is asked about just these instances."""
    more = [*ANY_PORTS, "--no-exporter", "--no-agent", "--machines", "6", "--backfill-s", "300", "--record"]
    folder = tmp_path / "state" / "recording"
    with up(tmp_path, *more, WINDWARD_WRITE_S="1", WINDWARD_INSTANCES_INTERVAL_S="10") as (process, told):
        began_s = time.time()
        with Client(told["redis_url"], timeout_s=30) as client:
            assert all_fresh(client, 6)
            for name in ("a", "b", "c"):
                assert client.place(id=name, cpu=1, memory="1G", kind="redis")["machine"]
                client.confirm(name)
            client.release("c")

        def recorded():
            found = list(steps(folder, 0.0, 1e11))
            used = {step.pairs[row].partition("\t")[2] for step in found for row in step.usage.row}
            ended = [one for step in found for one in step.entry.instances if b'"released"' in one]
            return used >= {"a", "b"} and bool(ended)

        wait_until(recorded, 90, "usage and changes are recorded")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    times = ("--since", f"{began_s - 300:.0f}", "--until", f"{began_s + 180:.0f}")
    arguments = ("--record-dir", str(folder), *times, "--profile", "kubernetes", "--profile", "windward", "--json")
    done = run_command("replay", *arguments, environ=environ())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"kubernetes", "windward", "as recorded"} <= set(re.findall(r'"policy": "([^"]+)"', done.stdout))
    assert any("were not recorded" in line for line in found["missing"])
    world, missing = read_recorded(folder, began_s - 300, began_s + 180)
    assert sorted(world.instances) == ["a", "b", "c"]
    assert world.request(0).kind == "redis"
    assert not any("nor their machine" in line for line in missing)
