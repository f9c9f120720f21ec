"""The pages of real processes under a client that means ill."""

import resource
import socket
import sys
import time

import psutil
import pytest

from ops.stack.servers.process import LocalProcess
from scorer.client import Client
from tests.conftest import free_port
from tests.integration.scorer.test_rpc import scorer_process
from tests.support.pages import eventually, get
from tests.window_tables import publish, window_table

IDLE = 1_100
"""More than the 1,024 descriptors that a process has by default."""


@pytest.fixture
def descriptors():
    """Let this process, not the one under test, hold so many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = IDLE + 500
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"only {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_idle_connections_do_not_stop_a_scorer(valkey, names, descriptors):
    """1,100 are opened and kept: queries and scrapes are answered, few descriptors are held, all are closed in time."""
    publish(valkey.url, names, [window_table(["m1", "m2"], at=time.time())])
    port = free_port()
    idle = []
    with scorer_process(valkey.url, names, "--metrics-port", str(port)) as process:
        eventually(lambda: get(f"http://127.0.0.1:{port}/ready")[0] == 200)
        scorer = psutil.Process(process.pid)
        before = scorer.num_fds()
        try:
            for _ in range(IDLE):
                idle.append(socket.create_connection(("127.0.0.1", port), 10))
            with Client(valkey.url, names.prefix, timeout_s=5) as client:
                for number in range(20):
                    assert client.place(id=f"i{number}", cpu=0.01)["machine"]
                valkey.connect().client_kill_filter(_type="normal")  # it has descriptors for new connections, too
                assert eventually(client.health)["ready"]
            assert scorer.num_fds() < before + 60
            assert get(f"http://127.0.0.1:{port}/metrics")[0] == 200
            eventually(lambda: not connected(scorer, port), 30)
        finally:
            for connection in idle:
                connection.close()


def connected(process, port):
    """How many connections to a port of its own a process holds."""
    return sum(1 for each in process.net_connections("tcp") if each.laddr.port == port and each.status != "LISTEN")


def test_an_agent_has_the_same_pages():
    """Live without a broker, not ready without a delivery, no page where none is."""
    port = free_port()
    command = [sys.executable, "-m", "ops.cli.main", "agent", "--nic-speed", "10G"]
    command += ["--kafka", f"127.0.0.1:{free_port()}", "--metrics-port", str(port)]
    base = f"http://127.0.0.1:{port}"
    with LocalProcess("agent", command):
        eventually(lambda: get(f"{base}/live")[0] == 200)
        assert get(f"{base}/ready")[0] == 503
        status, text = get(f"{base}/metrics")
        assert (status, "windward_agent_records_total" in text, "process_open_fds" in text) == (200, True, True)
        assert get(f"{base}/else")[0] == 404
