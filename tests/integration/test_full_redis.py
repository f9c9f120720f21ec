"""A Redis that is full: callers are told to come back, and it goes on when there is room again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import redis

from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.wire import Wire
from tests.conftest import free_port, start_valkey, stop
from tests.integration.test_rpc import eventually, scorer_process
from tests.window_tables import publish, window_table

pytestmark = pytest.mark.integration


def test_a_full_redis_is_unavailable_and_may_be_tried_again(names: Names, tmp_path: Path) -> None:
    """Of the server that holds the queries, and of a ledger's own; both recover without a restart."""
    ports = free_port(), free_port()
    servers = []
    for name, port in zip(("windows", "ledger"), ports, strict=True):
        (tmp_path / name).mkdir()
        servers.append(start_valkey(port, tmp_path / name, "--maxmemory-policy", "noeviction"))
    windows, ledger = (f"redis://127.0.0.1:{port}/0" for port in ports)
    try:
        wire = Wire({"url": windows})
        publish(wire, names, [window_table(["m1", "m2"], at=time.time())])
        wire.close()
        with (
            scorer_process(windows, names, "--ledger-url", ledger),
            Client(windows, names.prefix, timeout_s=10) as client,
        ):
            eventually(lambda: client.health()["ready"])
            for port, kinds in ((ports[0], {"UNAVAILABLE"}), (ports[1], {"UNAVAILABLE"})):
                with redis.Redis(port=port) as admin:
                    admin.config_set("maxmemory", "1")
                    with pytest.raises(WindwardError) as refused:
                        client.place(id=f"at-{port}", cpu=0.1)
                    assert refused.value.code in kinds
                    assert refused.value.retryable
                    admin.config_set("maxmemory", "0")
                assert eventually(lambda port=port: client.place(id=f"at-{port}", cpu=0.1))["machine"]
    finally:
        for server in servers:
            stop(server)
