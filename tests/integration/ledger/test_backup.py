"""The ledger written to a file and restored, as docs/backup.md says, by the shipped user of operators."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import redis

from schemas.rpc.request import read_request
from scorer.client import WindwardError
from scorer.ledger.store.backup import read_backup
from scorer.ledger.store.check import Check
from scorer.ledger.store.reconcile import InventoryError
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.wire import Wire
from tests.conftest import free_port, start_valkey, stop
from tests.integration.scorer.test_rpc import eventually
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
)
from tests.rows import each_row
from tests.support.in_process import run_command

ROOT = Path(__file__).parents[3]
ASKED = {"cpu": 0.5, "memory": "1G", "cluster": "shop", "labels": {"app": "web"}, "ports": [7000]}


@pytest.fixture
def operator(server: int) -> Callable[..., CompletedProcess[str]]:  # noqa: F811
    """A function that runs a command as the user of operators."""
    environ = {"WINDWARD_REDIS_URL": url(server), **environment("operator")}
    return lambda *words: run_command(*words, environ=environ)


def test_an_emptied_ledger_is_restored(
    server: int,  # noqa: F811
    admin: redis.Redis,  # noqa: F811
    operator: Callable[..., CompletedProcess[str]],
    tmp_path: Path,
) -> None:
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


def dumped(admin_of_server: redis.Redis) -> None:
    """Have the server write its dump, and wait for it."""
    admin_of_server.bgsave()
    eventually(lambda: not admin_of_server.info("persistence")["rdb_bgsave_in_progress"])


def test_the_servers_own_files_are_restored_in_the_order_of_the_page(tmp_path: Path) -> None:
    """By the user `admin`: the dump, which a server with an append-only file does not read, and that file."""
    lines = [(ROOT / f"ops/redis/{user}.acl").read_text() for user in ("admin", "operator")]
    users = tmp_path / "users.acl"
    digests = [hashlib.sha256(password(user).encode()).hexdigest() for user in ("admin", "operator")]
    users.write_text(
        "".join(one.replace("PASSWORD_SHA256", digest) for one, digest in zip(lines, digests, strict=True))
    )
    port = free_port()

    @contextmanager
    def running(name: str, *options: str, found: Path | None = None) -> Iterator[tuple[Ledger, redis.Redis, Path]]:
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


def lines_of(*records: dict[str, object], count: int = 1) -> list[bytes]:
    """Return a backup with these entries."""
    head = {"ledger": 1, "position": "1.0-7", "at": 5.0, "instances": count}
    return [json.dumps(one).encode() for one in (head, *records)]


RECORD = {"state": "confirmed", "generation": 7}
ONE = {"id": "a", "machine": "m1", "cpu": 1, "record": RECORD}


@each_row(
    ("lines", "words"),
    [
        ([], "line 0: a backup has a first line: it is cut short"),
        (lines_of(), "line 1: it says 1 instances, and has 0: it is cut short"),
        ([*lines_of(ONE)[:1], lines_of(ONE)[1][:20]], "line 2: Input data was truncated"),
        (lines_of(ONE)[1:], "line 1: Object missing required field `position`"),
        (lines_of(ONE | {"record": {"state": "ended"}}), "line 2: Invalid enum value 'ended'"),
        (lines_of({"id": "a", "machine": "m1"}), "line 2: Expected `object`, got `null`"),
        (lines_of(ONE | {"machine": ""}), "line 2: id and machine are required"),
        ([b'{"ledger": 2}'], "line 1: "),
    ],
)
def test_a_file_that_is_no_backup_is_refused(lines: list[bytes], words: str) -> None:
    """Whole, before anything is written, with the line that is wrong."""
    with pytest.raises(InventoryError) as error:
        read_backup(lines)
    assert str(error.value).startswith(words)
