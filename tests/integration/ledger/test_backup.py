"""The ledger written to a file and restored, as docs/backup.md says, by the shipped user of operators."""

import json
import shutil
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import redis

from schemas.names import Names
from schemas.rpc.request import read_request
from scorer.client import Client, WindwardError
from scorer.ledger.record.transition import FORMAT, Candidate, Change, UnknownFormat
from scorer.ledger.store import scripts
from scorer.ledger.store.backup import read_backup
from scorer.ledger.store.check import Check
from scorer.ledger.store.reconcile import InventoryError
from scorer.ledger.store.scripts import Ledger, script_text
from scorer.ledger.view.view import instance_of
from scorer.wire import Wire
from tests.conftest import free_port, start_valkey, stop
from tests.integration.ledger.test_ledger import follower_of, simple
from tests.integration.scorer.test_rpc import scorer_process
from tests.integration.security.test_redis_users import (
    NAMES,
    admin,  # noqa: F401 - a fixture
    denied,
    deployer,
    environment,
    password,
    scorer,
    server,  # noqa: F401 - a fixture
    url,
    users_file,
)
from tests.scorer.ledger.golden_ledger import GOLDEN, clock, dump, fill, load, newest, wanted
from tests.support.in_process import run_command
from tests.support.pages import eventually
from tests.window_tables import publish, window_table

ROOT = Path(__file__).parents[3]
ASKED = {"cpu": 0.5, "memory": "1G", "cluster": "shop", "labels": {"app": "web"}, "ports": [7000]}


@pytest.fixture
def operator(server):  # noqa: F811
    """A function that runs a command as the user of operators."""
    environ = {"WINDWARD_REDIS_URL": url(server), **environment("operator")}
    return lambda *words: run_command(*words, environ=environ)


def test_an_emptied_ledger_is_restored(
    server,  # noqa: F811
    admin,  # noqa: F811
    operator,
    tmp_path,
):
    """All that was there at the export is there, as it was; scorers place again, and callers' generations hold."""
    file = str(tmp_path / "ledger.jsonl")
    with scorer(server), deployer(server) as client:
        for number in range(3):
            client.place(id=f"db-{number}", machine=f"m{number + 1}", **ASKED)
            client.confirm(f"db-{number}", started_at=1_790_000_000.5 + number)
        client.place(id="waits", cpu=1, ttl_s=600)
        client.place(id="ends", cpu=1)
        client.release("ends")
        done = operator("ledger", "export", file)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"4 instances in {file}\n"
        before = {one.id: one for one in client.instances().instances}
        client.place(id="later", cpu=1)
        admin.delete(*admin.keys(f"{NAMES.prefix}:v1:{{ledger}}:*"))
        with pytest.raises(WindwardError, match="has begun anew") as refused:
            eventually(lambda: client.place(cpu=1, dry_run=True) and False)
        assert refused.value.code == "FAILED_PRECONDITION"
        done = operator("ledger", "restore", file, "--into-empty", "--json")
        assert done.returncode == 0, done.stderr
        assert {name: json.loads(done.stdout)[name] for name in ("written", "known", "expired")} == {
            "written": 4, "known": 0, "expired": 0,
        }  # fmt: skip
        assert operator("ledger", "accept").returncode == 0
        eventually(lambda: len(client.instances().instances) == 4)
        after = {one.id: one for one in client.instances().instances}
        assert after.keys() == before.keys()
        for name, one in before.items():
            same = ["id", "machine", "state", "cluster", "labels", "ports", "cpu", "memory", "started_at"]
            same += ["generation"] if one.state == "confirmed" else []
            assert [after[name][field] for field in same] == [one[field] for field in same]
        assert after["waits"].expires_at == pytest.approx(before["waits"].expires_at, abs=5.0)
        assert client.place(id="db-0", machine="m1", **ASKED)["repeated"]
        assert client.confirm("waits")["state"] == "confirmed"
        assert client.release("db-1", generation=before["db-1"].generation)["state"] == "released"
        assert operator("ledger", "check").returncode == 0
        # again: what is there stays; an inventory's import reads the file, too
        done = operator("ledger", "restore", file)
        assert done.stdout.startswith("1 restored, 3 were there, 0 reservations have expired since")
        done = operator("ledger", "restore", file, "--into-empty")
        assert (done.returncode, "the ledger has 4 instances, and is not empty" in done.stderr) == (1, True)
        done = operator("instances", "import", file)
        assert done.stdout.splitlines()[-1].startswith("0 added, 0 changed, 0 gone, 4 unchanged")
        assert client.place(cpu=1)["machine"]
    assert [one for one in denied(admin) if one[0] == "operator"] == []


def dumped(admin_of_server):
    admin_of_server.bgsave()
    eventually(lambda: not admin_of_server.info("persistence")["rdb_bgsave_in_progress"])


def test_a_torn_record_is_named_and_the_rest_exported(valkey, wire, names, tmp_path):
    """One record that cannot be read costs no other one its backup; the exit code says that one is missing."""
    ledger, file = Ledger(wire, names), tmp_path / "ledger.jsonl"
    ledger.reserve([simple(f"a{n}") for n in range(4)])
    on_one_line = wire.one("HGET", ledger.instances, "a3").replace(b"\n", b"")
    wire.one("HSET", ledger.instances, "a1", b"{", "a3", on_one_line)
    environ = {"WINDWARD_REDIS_URL": valkey.url, "WINDWARD_PREFIX": names.prefix}
    done = run_command("ledger", "export", str(file), environ=environ)
    assert (done.returncode, done.stderr) == (1, "")
    words = "its record is damaged; see windward ledger check"
    assert done.stdout.splitlines()[1:] == [f"a1: {words}", f"a3: {words}"]
    head, found = read_backup(file.read_bytes().splitlines())
    assert (head.instances, sorted(one.id for one in found)) == (2, ["a0", "a2"])


def test_the_servers_own_files_are_restored_in_the_order_of_the_page(tmp_path):
    """By the user `admin`: the dump, which a server with an append-only file does not read, and that file."""
    users = users_file(tmp_path, ("admin", "operator"))
    port = free_port()

    @contextmanager
    def running(name, *options, found=None):
        """Start a server in a folder, perhaps with a kept file; yield the ledger as operators see it, and the admin."""
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        if found is not None:
            (shutil.copytree if found.is_dir() else shutil.copy)(found, folder / found.name)
        conf = ("--include", str(ROOT / "ops/redis/ledger.conf"), "--aclfile", str(users), "--save", "3600 1")
        process = start_valkey(port, folder, *conf, *options)
        wire = Wire({"url": url(port), "username": "operator", "password": password("operator")})
        with redis.Redis(port=port, username="admin", password=password("admin")) as boss:
            try:
                yield Ledger(wire, NAMES), boss, folder
            finally:
                wire.close()
                stop(process)

    with running("first") as (ledger, boss, first):
        ledger.correct([instance_of(read_request({"id": f"i-{n}", "cpu": 1}), f"m{n % 3}", 0.0) for n in range(30)])
        before = ledger.all_instances()
        dumped(boss)
        assert boss.acl_load()
        shutil.copy(first / "dump.rdb", tmp_path / "dump.rdb")
    with running("wrong", found=tmp_path / "dump.rdb") as (ledger, _, _):
        assert ledger.all_instances() == {}
    with running("right", "--appendonly", "no", found=tmp_path / "dump.rdb") as (ledger, boss, right):
        assert ledger.all_instances() == before
        boss.config_set("appendonly", "yes")
        eventually(lambda: not boss.info("persistence")["aof_rewrite_in_progress"])
        assert boss.info("persistence")["aof_last_bgrewrite_status"] == "ok"
    with running("right") as (ledger, _, _):
        assert ledger.all_instances() == before
        assert Check(ledger).run().differences == []
    with running("append-only", found=right / "appendonlydir") as (ledger, _, _):
        assert ledger.all_instances() == before


def lines_of(*records, count=1):
    head = {"ledger": 1, "position": "1.0-7", "at": 5.0, "instances": count}
    return [json.dumps(one).encode() for one in (head, *records)]


RECORD = {"state": "confirmed", "generation": 7}
ONE = {"id": "a", "machine": "m1", "cpu": 1, "record": RECORD}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "the file is empty"),
        (lines_of(), "line 1: it says 1 instances, and has 0: it is cut short"),
        ([*lines_of(ONE)[:1], lines_of(ONE)[1][:20]], "line 2: Input data was truncated"),
        (lines_of(ONE)[1:], "line 1: Object missing required field `position`"),
        (lines_of(ONE | {"record": {"state": "ended"}}), "line 2: Invalid enum value 'ended'"),
        (lines_of({"id": "a", "machine": "m1"}), "line 2: Expected `object`, got `null`"),
        (lines_of(ONE | {"machine": ""}), "line 2: id and machine are required"),
        (
            [b'{"ledger": 2, "position": "", "at": 0, "instances": 0}'],
            "line 1: the file has form 2, of another release",
        ),
    ],
)
def test_a_file_that_is_no_backup_is_refused(lines, words):
    """Whole, before anything is written, with the line that is wrong."""
    with pytest.raises(InventoryError) as error:
        read_backup(lines)
    assert str(error.value).startswith(words)


def test_what_the_scripts_write_is_the_golden_ledger(wire, names):
    """Every key, record, sum and log entry; a change of the format has to write the file anew."""
    fill(wire, names)
    assert dump(wire, names) == json.loads((GOLDEN / f"ledger.v{FORMAT}.json").read_text())


def goes_on(wire, names, folder):
    """Load the newest golden ledger of a folder; read it, take every kind of step on it, and end all that is there."""
    load(wire, names, json.loads(newest(folder).read_text()))
    ledger = Ledger(wire, names, time_source=clock(20))
    follower = follower_of(ledger)
    follower.require()
    live = ledger.all_instances()
    assert follower.view.instances == live
    assert live["moves"].moving is not None
    assert live.keys() == {"reserved", "plain", "stays", "moves", "grows", "left", "found"}
    assert (live["grows"].moving is not None, live["grows"].labels) == (True, {"app": "é", "moving": '"new":{\n}}'})
    assert len(ledger.leavers()) == len(follower.view.leavers) == 3
    assert Check(ledger).run().differences == []
    assert ledger.reserve([wanted("reserved", "m1")]).outcomes[0].kind == "known"
    assert ledger.reserve([wanted("more", "m1")]).outcomes[0].reasons == ("port 6379 taken",)
    assert ledger.release("expired").outcomes[0].kind == "repeat"
    assert ledger.confirm("reserved", generation=1).outcomes[0].kind == "done"
    assert ledger.confirm("moves", machine="m8", move=live["moves"].moving.number).outcomes[0].kind == "done"
    (grown,) = ledger.confirm("grows", machine="m9").changes
    assert (grown.maxmemory, grown.labels) == (9.0, live["grows"].labels)
    (left,) = ledger.begin_move(live["left"], [Candidate("m1", -1)], 60.0).changes
    ledger.update([Change(left, msgspec.structs.replace(left, ports=(1,)), [Candidate("m9", -1), Candidate("m1", -1)])])
    assert ledger.rename("m0", "m4", ledger.machine_versions()["m0"], ["stays"])
    follower.poll()
    assert follower.view.instances == ledger.all_instances()
    assert Check(ledger).run().differences == []
    late = Ledger(wire, names, time_source=clock(7200))
    for one in ledger.all_instances():
        late.release(one)
    ended = [late.find(name) for name in live]
    assert {one.state for one in ended if one} == {"released", "expired"}
    parts = ("instances", "expiry", "machines", "counts", "clusters", "moving")
    assert [wire.one("EXISTS", names.ledger(part)) for part in parts] == [0] * len(parts)


def test_the_newest_golden_ledger_is_read_and_written(wire, names):
    """A scorer of this release goes on with it where the one that wrote it stopped."""
    goes_on(wire, names, GOLDEN)


def of_format_2(folder):
    """Write the golden ledger of this format, and one of a format that might follow, which has more of everything."""
    state = json.loads(newest().read_text())
    (folder / "ledger.v1.json").write_text(json.dumps(state))
    state["head"] |= {"format": "2", "newer": "x"}
    state["instances"] = {
        name: record.replace('"generation":', '"newer":[{"x":null}],"generation":').replace("\n", ' "tape":7,\n', 1)
        for name, record in state["instances"].items()
    }
    state["newer"] = {"a": "1"}
    (folder / "ledger.v2.json").write_text(json.dumps(state))


def test_a_format_that_follows_is_read_and_written_by_its_release(wire, names, tmp_path, monkeypatch):
    """With an invented format 2 the same steps take its golden ledger; left at format 1, a release is refused."""
    of_format_2(tmp_path)
    with pytest.raises(UnknownFormat, match="has format 2, this release knows format 1"):
        goes_on(wire, Names(f"{names.prefix}-refused"), tmp_path)
    monkeypatch.setattr(scripts, "script_text", partial(script_text, FORMAT="'2'"))
    monkeypatch.setattr(scripts, "_FORMAT", b"2")
    goes_on(wire, names, tmp_path)
    assert wire.one("HGET", names.ledger("head"), "newer") == b"x"


def test_a_newer_ledger_is_refused_in_words(wire, names, valkey):
    """A scorer says which format is there and which it knows, writes nothing, and serves when it may again."""
    publish(wire, names, [window_table(["m0"], at=time.time() + 60)])
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=30) as client:
        client.place(id="a", cpu=1)
        key = names.ledger("head")
        wire.one("HSET", key, "format", 2)
        before = {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")}
        calls = [
            lambda: client.place(id="b", cpu=1, timeout_s=1),
            lambda: client.confirm("a", timeout_s=1),
            lambda: client.rank(cpu=1, timeout_s=1),
        ]
        for call in calls:
            with pytest.raises(WindwardError) as refused:
                call()
            assert refused.value.code == "UNAVAILABLE"
            assert "has format 2, this release knows format 1" in refused.value.message
        health = client.health()
        assert not health["ready"]
        assert "has format 2" in health["ledger_refusal"]
        ledger, one = Ledger(wire, names), wanted("c", "m0")
        steps = [
            lambda: ledger.reserve([one]), lambda: ledger.confirm("a"), lambda: ledger.release("a"),
            lambda: ledger.update([Change(one.instance, one.instance, [])]), lambda: ledger.cancel_move(one.instance),
            ledger.expire, ledger.open, lambda: ledger.correct([one.instance]), lambda: ledger.lease("x", "y", 1.0),
            lambda: ledger.rename("m0", "m1", 1, ["a"]),
        ]  # fmt: skip
        for step in steps:
            with pytest.raises(UnknownFormat, match="format 2"):
                step()
        assert {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")} == before
        wire.one("HSET", key, "format", 1)
        assert client.confirm("a")["state"] == "confirmed"
        assert client.health()["ready"]
