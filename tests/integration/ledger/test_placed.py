"""The client's ``placed``: confirmed at the end of the block, released when it raises. And doctor on a live stack."""

import asyncio
import json
import os
import time

import pytest

from ops.cli import main as cli
from schemas.names import Names
from scorer.client import AsyncClient, Client
from tests.integration.scorer.test_rpc import FRESH_S, MACHINES, scorer_process
from tests.support.pages import eventually
from tests.window_tables import publish, window_table


@pytest.fixture(scope="module")
def where(valkey):
    """The server and the prefix of a scorer of ten machines."""
    names = Names(f"placed-{os.getpid()}")
    facts = {"v": 1, "type": "machine", "machine": MACHINES[0], "boot": 1, "at": time.time()}
    facts |= {"interfaces": {"names": "bond0, eno1"}}
    publish(valkey.url, names, [window_table(MACHINES, at=time.time() + FRESH_S, facts=1)], [{MACHINES[0]: facts}])
    with scorer_process(valkey.url, names):
        with Client(valkey.url, names.prefix, timeout_s=60) as scorer:
            eventually(lambda: scorer.health().ready)
        yield valkey.url, names.prefix


def state(scorer, one):
    return scorer.instances(id=one).instances[0].state


def test_what_was_placed_is_confirmed_at_the_end(where):
    with Client(*where, timeout_s=60) as scorer:
        with scorer.placed(id="block", cpu=1, memory="1G", count=2) as placement:
            assert len(placement.placed) == 2
            assert state(scorer, "block-1") == "reserved"
        assert [state(scorer, f"block-{n}") for n in (1, 2)] == ["confirmed", "confirmed"]
        with scorer.placed(cpu=10_000) as none:
            assert none.machine is None


def test_what_was_placed_is_released_when_the_block_raises(where):
    with Client(*where, timeout_s=60) as scorer:
        with pytest.raises(RuntimeError, match="did not start"), scorer.placed(id="fails", cpu=1):
            raise RuntimeError("did not start")
        assert state(scorer, "fails") == "released"


def test_the_same_for_asyncio(where):
    async def both():
        async with AsyncClient(*where, timeout_s=60) as scorer:
            async with scorer.placed(id="later", cpu=1) as placement:
                assert placement.machine in MACHINES
            with pytest.raises(RuntimeError):
                async with scorer.placed(id="late", cpu=1):
                    raise RuntimeError
            found = await scorer.instances()
            assert {one.id: one.state for one in found.instances}["later"] == "confirmed"
            assert "late" not in {one.id for one in found.instances}

    asyncio.run(both())


def test_doctor_finds_a_ghost_and_says_what_to_do(where, capsys, monkeypatch):
    """A word about a machine that is not there, exit code 1; JSON for programs; and a note on interfaces."""
    monkeypatch.setenv("WINDWARD_REDIS_URL", where[0])
    monkeypatch.setenv("WINDWARD_PREFIX", where[1])
    assert cli.main(["machines", "cordon", "ghost-1", "--ahead"]) == 0
    capsys.readouterr()
    assert cli.main(["doctor", "--no-broker", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    ghost = next(one for one in said["findings"] if one["area"] == "machines")
    assert "ghost-1" in ghost["found"]
    assert ghost["do"].endswith("`windward machines forget ghost-1` deletes the rules")
    by_names = f"names alone decide which interfaces count: bond0, eno1 on {MACHINES[0]}"
    assert by_names in [one["found"] for one in said["findings"] if one["level"] == "note"]
    assert {"Redis", "scorer", "clocks", "versions"} <= {one["area"] for one in said["findings"]}
    assert cli.main(["machines", "forget", "ghost-1"]) == 0
    assert cli.main(["top", "--once", "--limit", "3"]) == 0
    assert "10 machines" in capsys.readouterr().out


def test_doctor_without_servers_says_so(capsys):
    began = time.monotonic()
    assert cli.main(["doctor", "--redis-url", "redis://127.0.0.1:1/0", "--kafka", "127.0.0.1:1"]) == 1
    out = capsys.readouterr().out
    assert "ERROR    Kafka" in out
    assert "ERROR    Redis" in out
    assert time.monotonic() - began < 30


def test_up_names_a_dead_redis_at_once(capsys, tmp_path):
    began = time.monotonic()
    assert (
        cli.main(["up", "--redis-url", "redis://127.0.0.1:1/0", "--kafka-port", "0", "--state-dir", str(tmp_path)]) == 1
    )
    assert "redis_url: redis://127.0.0.1:1/0 cannot be used: " in capsys.readouterr().err
    assert time.monotonic() - began < 10
