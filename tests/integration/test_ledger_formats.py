"""The ledger's format: a newer one is refused in words; what is stored says the same in records and sums."""

from __future__ import annotations

import time

import pytest

from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.ledger.record.instance import Instance, machines_of
from scorer.ledger.store.reader import FORMAT, UnknownFormat
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.integration.test_ledger import sums_in
from tests.integration.test_rpc import scorer_process
from tests.window_tables import publish, window_table

pytestmark = pytest.mark.integration


def check_sums(wire: Wire, ledger: Ledger) -> dict[str, Instance]:
    """Assert that rows, counts, clusters and expiry say what the records say; return the records."""
    live = ledger.all_instances()
    model: dict[str, dict[tuple[str, str], int]] = {}
    for on, one in [(machine, each) for each in live.values() for machine in machines_of(each)]:
        here = model.setdefault(on, {})
        for name, amount in (
            ("instances", 1), ("cpu", round(1e6 * (one.amounts[0] or 0))), ("memory", round(one.amounts[1] or 0)),
            ("maxmemory", round(one.maxmemory)),
        ):  # fmt: skip
            if amount:
                key = (one.priority_class, name)
                here[key] = here.get(key, 0) + amount
    flat = wire.one("HGETALL", ledger.machines)
    assert {k.decode(): sums_in(v) for k, v in zip(flat[::2], flat[1::2], strict=True)} == model
    flat = wire.one("HGETALL", ledger.counts)
    ports = {k.decode(): int(v) for k, v in zip(flat[::2], flat[1::2], strict=True) if b" port " in k}
    assert ports == {f"{on} port {port}": 1 for one in live.values() for on in machines_of(one) for port in one.ports}
    roles = [int(v) for k, v in zip(flat[::2], flat[1::2], strict=True) if b" role " in k]
    assert sum(roles) == sum(len(machines_of(one)) for one in live.values() if one.cluster and one.role)
    waiting = {name.decode() for name in wire.one("ZRANGE", ledger.expiry, 0, -1)}
    assert waiting == {one.id for one in live.values() if one.state == "reserved"}
    return live


def test_a_newer_ledger_is_refused_in_words(wire: Wire, names: Names, valkey: Valkey) -> None:
    """A scorer says which format is there and which it knows, writes nothing, and serves when it may again."""
    publish(wire, names, [window_table(["m0"], at=time.time() + 60)])
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=30) as client:
        client.place(id="a", cpu=1)
        key = names.ledger("current")
        wire.one("HSET", key, "format", FORMAT + 1)
        before = {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")}
        for call in (lambda: client.place(id="b", cpu=1), lambda: client.confirm("a"), lambda: client.rank(cpu=1)):
            with pytest.raises(WindwardError) as refused:
                call()
            assert refused.value.code == "UNAVAILABLE"
            assert f"has format {FORMAT + 1}, this release knows format {FORMAT}" in refused.value.message
        health = client.health()
        assert not health["ready"]
        assert f"has format {FORMAT + 1}" in health["ledger_refusal"]
        with pytest.raises(UnknownFormat, match=f"format {FORMAT + 1}"):
            Ledger(wire, names).release("a")
        assert {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")} == before
        wire.one("HSET", key, "format", FORMAT)
        assert client.confirm("a")["state"] == "confirmed"
        assert client.health()["ready"]
