"""A Redis that is full or refuses writes: callers are told to come back, and it goes on when it takes writes again."""

import threading
import time
from typing import NamedTuple

import pytest
import redis

from ops.stack.servers.local import LocalValkey
from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.commands.shared.ask import DirectClient
from tests.integration.scorer.test_rpc import scorer_process
from tests.support.pages import eventually
from tests.window_tables import publish, window_table


class Servers(NamedTuple):
    """The server of the queries, and that of the ledger."""

    windows: redis.Redis
    ledger: redis.Redis
    client: Client
    url: str
    names: Names


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """A scorer with a ledger server of its own."""
    names = Names("full")
    windows, ledger = (LocalValkey(directory=tmp_path_factory.mktemp("server")) for _ in range(2))
    with windows, ledger:
        publish(windows.url, names, [window_table(["m1", "m2"], at=time.time())])
        with (
            scorer_process(windows.url, names, "--ledger-url", ledger.url),
            Client(windows.url, names.prefix, timeout_s=10) as client,
            redis.Redis(port=windows.port) as of_windows,
            redis.Redis(port=ledger.port) as of_ledger,
        ):
            eventually(lambda: client.health()["ready"])
            yield Servers(of_windows, of_ledger, client, windows.url, names)


def placed(servers, name):
    """Place; return whether a machine was found."""
    return bool(servers.client.place(id=name, cpu=0.1).machine)


@pytest.mark.parametrize("which", ["windows", "ledger"])
def test_a_full_redis_is_unavailable_and_may_be_tried_again(servers, which):
    """Of the server that holds the queries, and of a ledger's own; both recover without a restart."""
    admin = getattr(servers, which)
    admin.config_set("maxmemory", "1")
    with pytest.raises(WindwardError) as refused:
        servers.client.place(id=f"full-{which}", cpu=0.1, timeout_s=1)
    assert (refused.value.code, refused.value.retryable) == ("UNAVAILABLE", True)
    admin.config_set("maxmemory", "0")
    assert eventually(lambda: placed(servers, f"full-{which}"))


def let_it_write(server):
    server.replicaof("NO", "ONE")
    server.config_set("min-replicas-to-write", 0)


@pytest.mark.parametrize("how", ["NOREPLICAS", "READONLY"])
def test_a_ledger_that_refuses_writes_for_now_is_unavailable(servers, how):
    """As in a failover: placing may be tried again, reading is answered; nothing is a fault of Windward's."""
    if how == "READONLY":
        servers.ledger.replicaof("127.0.0.1", 1)
    else:
        servers.ledger.config_set("min-replicas-to-write", 1)
    try:
        with pytest.raises(WindwardError) as refused:
            servers.client.place(id=how, cpu=0.1, timeout_s=1)
        assert (refused.value.code, refused.value.retryable) == ("UNAVAILABLE", True)
        assert servers.client.rank(cpu=0.1).machine
        waiting = threading.Timer(0.5, let_it_write, (servers.ledger,))
        waiting.start()
        assert placed(servers, f"{how}-waits"), "a call outlasts what ends before its deadline"
        waiting.join()
    finally:
        let_it_write(servers.ledger)
    assert eventually(lambda: placed(servers, how))


@pytest.mark.parametrize("kind", [Client, DirectClient])
def test_a_call_waits_for_a_server_that_refuses_writes(servers, kind):
    with kind(servers.url, servers.names.prefix, timeout_s=0.3) as hurried:
        servers.windows.config_set("min-replicas-to-write", 1)
        with pytest.raises(WindwardError) as refused:
            hurried.place(id="hurried", cpu=0.1)
        assert (refused.value.code, refused.value.retryable) == ("UNAVAILABLE", True)
        assert "NOREPLICAS" in refused.value.message
    waiting = threading.Timer(0.3, servers.windows.config_set, ("min-replicas-to-write", 0))
    waiting.start()
    assert placed(servers, f"patient-{kind.__name__}")
    waiting.join()
