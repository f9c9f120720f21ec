"""The shipped Redis users: each does its own work on a real server, and nothing else."""

import hashlib
import json
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from ops.record.ledger_log import LedgerLog
from ops.record.state import State
from ops.stack.servers.local import LocalBroker
from schemas.messages.process import KINDS
from schemas.messages.proposal import MoveProposal, read_proposal, write_proposal
from schemas.messages.sample import MachineFacts
from schemas.names import Names
from schemas.process.connections import RedisSettings
from schemas.process.presence import Presence
from schemas.rpc.request import read_request
from scorer.client import Client, WindwardError
from scorer.client.call import drive
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.live.loader import Loader
from scorer.wire import Wire
from tests.conftest import free_port, start_valkey, stop
from tests.integration.kubernetes.test_evictor import Scene as Evicting
from tests.integration.kubernetes.test_evictor import evictor
from tests.integration.kubernetes.test_pods import pods_process
from tests.integration.ledger.test_ledger import follower_of
from tests.integration.planner.test_planner import Fleet
from tests.integration.scorer.test_rpc import ask_raw, planner_process, scorer_process
from tests.support.extender_process import ask, extender, order
from tests.support.in_process import run_command
from tests.support.kube_api import kube_api
from tests.support.pages import eventually
from tests.support.pipeline import Pipeline, await_condition, make_samples
from tests.window_tables import publish, window_table

ROOT = Path(__file__).parents[3]
USERS = (
    "stream", "scorer", "deployer", "operator", "exporter", "record", "planner", "mover", "pods", "extender",
    "evictor", "doctor", "admin",
)  # fmt: skip
WITHOUT_WINDOWS = ("deployer", "record", "mover", "pods", "evictor", "admin")
NAMES = Names()
READ_THE_STREAM = ("operator", "scorer", "planner", "exporter", "extender")
"""Who reads windows reads what the stream's workers say of themselves."""
SHARED = {"load-watcher": "exporter"}
"""Processes that have no user of their own, and whose they use."""
HANDSHAKE = ("client|setinfo", "client|maint_notifications", "client|maint-notifications")
"""What redis-py tries and does without: an ACL of Redis 7.0 cannot allow the first, others do not know the last."""


def password(user):
    return f"{user}'s own"


def users_file(folder, users):
    """Return the file of shipped users, each with its password."""
    text = ""
    for user in users:
        digest = hashlib.sha256(password(user).encode()).hexdigest()
        text += (ROOT / f"ops/redis/{user}.acl").read_text().replace("PASSWORD_SHA256", digest)
    (folder / "users.acl").write_text(text)
    return folder / "users.acl"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The port of a server with the shipped users; the default user stays, for the test to look."""
    folder = tmp_path_factory.mktemp("users")
    port = free_port()
    process = start_valkey(port, folder, "--aclfile", str(users_file(folder, USERS)))
    yield port
    stop(process)


@pytest.fixture
def admin(server):
    with redis.Redis(port=server) as client:
        client.flushall()
        client.execute_command("ACL LOG RESET")
        yield client


@pytest.fixture
def ledger(server):
    wire = Wire({"url": url(server)})
    yield Ledger(wire, NAMES)
    wire.close()


def environment(user):
    """The settings that make a process this user."""
    return {"WINDWARD_REDIS_USERNAME": user, "WINDWARD_REDIS_PASSWORD": password(user)}


def become(monkeypatch, user):
    for name, value in environment(user).items():
        monkeypatch.setenv(name, value)


def url(port):
    return f"redis://127.0.0.1:{port}/0"


def denied(admin):
    """Return user, reason and object of everything that was refused, but for the handshake's frills."""
    entries = admin.acl_log()
    found = [(entry["username"], entry["reason"], entry["object"]) for entry in entries]
    return [each for each in found if each[2] not in HANDSHAKE]


@contextmanager
def scorer(port):
    """A scorer and a planner, each under its user, on a fleet of three machines."""
    publish(url(port), NAMES, [window_table(["m1", "m2", "m3"], at=time.time())])
    planner = planner_process(url(port), NAMES, "--every", "0", "--drain-s", "0.2", env=environment("planner"))
    with scorer_process(url(port), NAMES, env=environment("scorer")), planner, deployer(port) as client:
        eventually(lambda: client.health()["ready"])
        with redis.Redis(port=port) as server:
            eventually(lambda: server.zcard(NAMES.planners))
        assert client.capacity(cpu=1, labels={"a": "b"}).fit > 0, "a planner answers deployers, too"
        yield


def deployer(port, user="deployer"):
    return Client(url(port), username=user, password=password(user), timeout_s=30)


def test_usage_by_instance_is_where_users_of_the_windows_may_go(server, admin):
    """The stream app writes it, scorer, exporter, operator and planner read it; a deployer does not."""
    key = NAMES.instance_usage(3)
    for user in USERS:
        with redis.Redis.from_url(url(server), username=user, password=password(user)) as client:
            for allowed, act in (("stream", lambda: client.set(key, b"x")), (None, lambda: client.get(key))):
                if user == allowed or (allowed is None and user not in WITHOUT_WINDOWS):
                    act()
                else:
                    with pytest.raises(redis.exceptions.NoPermissionError):
                        act()


WORST = {
    "ends any instance itself": ("HDEL", NAMES.ledger("instances"), "x"),
    "puts queries": ("LPUSH", NAMES.queries, "x"),
    "puts operators' queries": ("LPUSH", NAMES.operator_queries, "x"),
    "turns a query into an operator's": ("LMOVE", NAMES.queries, NAMES.operator_queries, "RIGHT", "LEFT"),
    "takes off a query whose text it knows": ("LREM", NAMES.queries, 1, "x"),
    "forges an answer": ("LPUSH", NAMES.reply("x"), "x"),
    "takes an answer whose query it knows": ("BLPOP", NAMES.reply("x"), 0.01),
    "reads all instances": ("HSCAN", NAMES.ledger("instances"), 0),
    "reads all that changes": ("XRANGE", NAMES.ledger("log"), "-", "+"),
    "makes up load": ("SET", NAMES.windows(0), "x"),
    "changes rules": ("HSET", NAMES.operator, "x", "x"),
    "says what nodes are": ("HSET", NAMES.nodes, "x", "x"),
    "accepts a ledger": ("SET", NAMES.ledger_marker, "x"),
    "proposes moves": ("LPUSH", NAMES.moves_waiting, "x"),
    "steers replaced pods": ("HSET", NAMES.holds, "x", 1),
    "empties the server": ("FLUSHALL",),
    "changes the server's settings": ("CONFIG", "SET", "tcp-keepalive", 300),
}
"""By what a user may do at worst, as docs/security.md says it, one command that does it."""


def test_what_each_user_can_do_at_worst_is_on_the_page(server, admin):
    """Each cell of the table is tried: the command passes, or is refused."""
    lines = (ROOT / "docs/security.md").read_text().split("| at worst |")[1].splitlines()
    users, rows = [one.strip(" `") for one in lines[0].strip("| ").split("|")], {}
    for line in lines[2:]:
        if not line.startswith("|"):
            break
        what, *cells = [one.strip() for one in line.strip("|").split("|")]
        rows[what] = dict(zip(users, cells, strict=True))
    assert (sorted(users), rows.keys()) == (sorted(USERS), WORST.keys())
    wrong = list[str]()
    for user in users:
        with redis.Redis(port=server, username=user, password=password(user)) as client:
            for what, command in WORST.items():
                admin.flushall()
                try:
                    client.execute_command(*command)
                    can = "yes"
                except redis.exceptions.NoPermissionError:
                    can = ""
                if rows[what][user] != can:
                    wrong.append(f"{user} {what}: {can or 'no'}")
    assert not wrong


def test_no_query_gives_an_instance_the_marks_of_a_pod(server, admin, ledger):
    """Neither its label nor an id of its kind; nor does one take the label off, whoever may put queries."""
    labels = {"kubernetes": "east"}
    with scorer(server):
        ledger.correct([instance_of(read_request({"id": "u", "labels": labels}), "m1", 0.0)])
        for user in ("deployer", "mover", "evictor"):
            with deployer(server, user) as client:
                eventually(lambda client=client: client.instances(id="u").instances)
                asks = [
                    lambda client=client: client.place(id="pod:u", cpu=1),
                    lambda client=client: client.place(id="a", cpu=1, labels=labels),
                    lambda client=client: client.place(instances=[{"id": "a", "labels": labels}]),
                    lambda client=client: client.update("u", labels={"app": "x"}),
                ]
                for ask_one in asks:
                    with pytest.raises(WindwardError, match=r"as only the ids of pods do|the mark of pods"):
                        ask_one()
                assert client.instances(id="a").instances == []


@pytest.mark.parametrize("user", USERS)
def test_a_process_writes_the_heartbeats_of_its_kind(server, admin, user):
    """No user writes those of another; the operator reads all of them, who reads windows those of the stream."""
    credentials = {"url": url(server), "username": user, "password": password(user)}
    for what in KINDS:
        presence, own = Presence(what, NAMES, credentials, name=f"{user}-1"), SHARED.get(what, what) == user
        if own:
            presence.beat()
            assert admin.hexists(NAMES.processes(what), f"{user}-1")
        else:
            with pytest.raises(redis.exceptions.NoPermissionError):
                presence.beat()
        presence.stop()
        assert not admin.exists(NAMES.processes(what))
        with redis.Redis.from_url(**credentials) as client:
            if own or user in ("operator", "doctor") or (what == "stream" and user in READ_THE_STREAM):
                assert client.hgetall(NAMES.processes(what)) == {}
            else:
                with pytest.raises(redis.exceptions.NoPermissionError):
                    client.hgetall(NAMES.processes(what))
            for write in ("HSET", "HDEL"):
                if not own:
                    with pytest.raises(redis.exceptions.NoPermissionError):
                        client.execute_command(write, NAMES.processes(what), "a", *["x"] * (write == "HSET"))


def test_a_deployer_reaches_every_method(server, admin):
    """Scorer and deployer under their users: each method, expiry, the log, and nothing was refused to either."""
    with scorer(server), deployer(server) as client:
        assert client.rank(cpu=1)["machine"]
        place = {"cpu": 1, "memory": "1G", "cluster": "c", "role": "master", "ports": [7000]}
        assert client.place(id="a", **place)["machine"]
        assert client.place(id="short", cpu=1, ttl_s=1)["machine"]
        assert client.confirm("a")["state"] == "confirmed"
        assert client.update("a", cpu=2)["id"] == "a"
        without_deadline = {"v": 1, "id": "q", "method": "update", "params": {"id": "a", "cpu": 2}}
        for _ in range(2):  # the second time the ledger knows the query
            assert ask_raw(admin, NAMES, json.dumps(without_deadline), "q")["ok"]
        assert client.instances(id="a")["instances"]
        assert client.machines()["total"] == 3
        eventually(lambda: admin.zcard(NAMES.ledger("expiry")) == 0)  # the sweeper
        assert client.release("a")["state"] == "released"
        assert client.place(id="a", **place)
        assert client.health()["ready"]
    assert admin.xlen(NAMES.decisions)
    assert denied(admin) == []


READS = (("why", "m1"), ("top", "--once"), ("machines", "label", "m1", "a=b"), ("ledger", "check"))
"""Commands that ask Redis themselves."""


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_a_missing_right_is_no_server_that_is_away(server, admin, words):
    environ = {"WINDWARD_REDIS_URL": url(server), **environment("deployer")}
    for more, code in (({}, "PERMISSION_DENIED"), ({"WINDWARD_REDIS_PASSWORD": "old"}, "UNAUTHENTICATED")):
        done = run_command(*words, environ=environ | more)
        assert (done.returncode, f"{code}: " in done.stderr) == (1, True), done.stderr
        assert "no connection" not in done.stderr


def test_an_operator_has_its_commands(server, admin, tmp_path):
    """Labels, taints, cordons, an import, why, the ledger's repair, and all that a deployer has."""
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps([{"id": "found", "machine": "m1", "cpu": 1, "memory": "1G"}]))
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps({"id": "wanted", "cpu": 1}))
    commands = [
        ["machines", "label", "m1", "rack=a"], ["machines", "taint", "m1", "disk=slow:avoid"],
        ["machines", "cordon", "m2"], ["machines", "uncordon", "m2"], ["machines", "show", "m1"],
        ["machines", "forget", "m1", "--force"], ["machines"], ["place", "--id", "p", "--cpu", "1"], ["why", "p"],
        ["confirm", "p"], ["instances", "import", str(inventory), "--apply", "--reservations"],
        ["instances"], ["release", "found"], ["health"], ["rank", "--cpu", "1"],
        ["ledger", "check"], ["ledger", "check", "--repair"], ["ledger", "accept"], ["rebalance"], ["learned"],
        ["events"], ["drain", "m2", "--apply"], ["drain", "--undo", "m2"], ["plan", str(wanted), "--apply"],
    ]  # fmt: skip
    with scorer(server), deployer(server) as client:
        eventually(lambda: client.health().ledger_check is not None)  # else its own check is in the way of ours
        for command in commands:
            done = run_command(*command, environ={**environment("operator"), "WINDWARD_REDIS_URL": url(server)})
            assert done.returncode == (1 if command == ["learned"] else 0), (command, done.stderr)  # nothing is yet
    assert denied(admin) == []


def test_an_operator_cordons_by_query_and_a_deployer_does_not(server, admin):
    """The server lets operators alone push on their list; the same query on the ordinary list is refused in words."""
    with scorer(server), deployer(server) as client, deployer(server, "operator") as operator:
        assert operator.cordon(machines=["m1", "m2"])["rules"]["m1"] == {"cordon": True}
        eventually(lambda: client.rank(cpu=1)["feasible"] == 1)
        assert denied(admin) == []
        with pytest.raises(WindwardError, match="uncordon is for operators: this user may not push on") as refused:
            client.uncordon(machines=["m1"])
        assert refused.value.code == "PERMISSION_DENIED"
        with pytest.raises(WindwardError, match="PERMISSION_DENIED"):
            client.drain(machines=["m3"], apply=True)
        for method in ("plan", "rebalance"):
            with pytest.raises(WindwardError, match="PERMISSION_DENIED"):
                client.call(method, {"instances": []} if method == "plan" else {})
        assert operator.plan(instances=[]).steps == operator.rebalance().moves == []
        client.place(id="leaves", cpu=1, machine="m3").confirm()
        operator.uncordon(machines=["m1"])
        eventually(lambda: client.rank(cpu=1)["feasible"] == 2)
        proposed = MoveProposal(
            id="1-1-0", fence=1, at=1.0, expires_at=9e9, instance="leaves", generation=1, source="m3", target="m1",
            gain=1.0,
        )  # fmt: skip
        admin.lpush(NAMES.moves_waiting, write_proposal(proposed))
        drained = operator.drain(machines=["m3"], apply=True)
        assert [one.target for one in drained.moves] == ["m1"]
        waiting = [read_proposal(raw) for raw in admin.lrange(NAMES.moves_waiting, 0, -1)]
        assert [one.of_command for one in waiting if one] == [True], "a planner's is taken off"
        admin.delete(NAMES.moves_waiting)
        operator.uncordon(machines=["m3"])
        client.release("leaves")
        operator.cordon(machines=["m1"])
        query = {"v": 1, "id": "u", "method": "uncordon", "params": {"machines": ["m1"]}}
        error = ask_raw(admin, NAMES, json.dumps(query), "u")["error"]
        assert error["code"] == "PERMISSION_DENIED"
        assert "`queries:operators`, as a Redis user that may (`operator`" in error["message"]
        assert set(admin.hgetall(NAMES.operator)) == {b"m1", b"m2"}
        operator.uncordon(machines=["*1"], selector="machine=m2")
        assert admin.hgetall(NAMES.operator) == {}
        eventually(lambda: client.rank(cpu=1)["feasible"] == 3)
    assert {one[:2] for one in denied(admin)} == {("deployer", "key")}


def test_a_stream_worker_writes_and_resumes(server, admin, tmp_path, monkeypatch):
    """Windows, state and facts are written, and read again by the next worker."""
    become(monkeypatch, "stream")
    samples = make_samples(4, 12)
    facts = MachineFacts(v=1, machine="m000", boot=1, at=samples[-1].at, labels={"rack": "a"})
    with LocalBroker(log=tmp_path / "broker.log") as broker:
        pipeline = Pipeline(broker, url(server), NAMES, tmp_path)
        try:
            worker = pipeline.start_worker()
            pipeline.publish(samples[:24])
            pipeline.publish([facts], keep=False)
            pipeline.await_folded(25)
            worker.stop()
            pipeline.start_worker()
            pipeline.publish(samples[24:])
            pipeline.await_folded(49)
            newest = {f"m{m:03d}": max(s.at for s in samples if s.machine == f"m{m:03d}") for m in range(4)}
            await_condition(lambda: {m: row["at"] for m, row in pipeline.rows().items()} == newest, "the tables")
            await_condition(lambda: any(admin.hgetall(NAMES.facts(p)) for p in range(4)), "the facts")
        finally:
            pipeline.close()
    assert denied(admin) == []


def test_a_planner_proposes_and_a_mover_takes(server, admin):
    """Each under its user: lease, plan, lists; take, look at the fence, acknowledge, ask a scorer. None was refused."""
    fleet = Fleet(url(server), Wire({"url": url(server)}), NAMES)
    for _ in range(2):
        fleet.daemon(url(server), "one", every=0.01, wire=Wire(RedisSettings(
            redis_url=url(server), redis_username="planner", redis_password=password("planner"),
        ).redis_arguments())).turn(time.time())  # fmt: skip
    assert len(fleet.waiting) == 2
    with redis.Redis.from_url(url(server), username="mover", password=password("mover")) as mover:
        raw = mover.blmove(NAMES.moves_waiting, NAMES.moves_taken, 1, "RIGHT", "LEFT")
        assert int(mover.get(NAMES.moves_fence)) == json.loads(raw)["fence"]
        assert mover.lpos(NAMES.moves_taken, raw) == 0
        assert mover.blmove(NAMES.moves_roles, NAMES.moves_taken, 0.01, "RIGHT", "LEFT") is None
        assert mover.lrem(NAMES.moves_taken, 1, raw) == 1
        mover.lpush(NAMES.queries, "{}")
        with pytest.raises(redis.exceptions.NoPermissionError):
            mover.set(NAMES.moves_fence, 9)
    assert [each for each in denied(admin) if each[0] == "planner"] == []
    fleet.wire.close()


@pytest.mark.parametrize("user", USERS)
def test_who_may_read_events(server, admin, ledger, user):
    """Who deploys, moves or operates; deployer and mover read that stream and nothing else of the ledger."""
    ledger.open()
    with deployer(server, user) as client:
        if user in ("deployer", "mover", "operator"):
            assert list(client.events(follow=False)) == []
            step = client.events()._log.more()
            assert drive(step, client._do) == [], "it waited, and was not refused"
        else:
            with pytest.raises(WindwardError, match=r"(?i)PERMISSION_DENIED: .*no permissions"):
                list(client.events(since=0.0))
    refused = [each for each in denied(admin) if each[0] == user]
    assert bool(refused) == (user not in ("deployer", "mover", "operator"))
    if user in ("deployer", "mover"):
        with redis.Redis(port=server, username=user, password=password(user)) as there:
            others = ("XREAD", "STREAMS", NAMES.decisions, "0"), ("HMGET", NAMES.ledger("instances"), "a")
            for command in (*others, ("XTRIM", NAMES.ledger("log"), "MAXLEN", "0")):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    there.execute_command(*command)


def test_an_exporter_reads_windows_and_ledger(server, admin):
    with scorer(server), deployer(server) as client:
        client.place(id="a", cpu=1)
    arguments = {"url": url(server), "username": "exporter", "password": password("exporter")}
    wire = Wire(arguments)
    assert len(Loader(wire, NAMES).refresh()) == 3
    follower = follower_of(Ledger(wire, NAMES))
    assert follower.loaded
    assert "a" in follower.view.instances
    assert wire.one("INFO", "memory")
    wire.close()
    assert denied(admin) == []


def test_an_extender_has_a_user_of_its_own(server, admin, ledger, monkeypatch):
    """It reads windows and ledger, reserves what it binds, and nothing that it does is refused."""
    become(monkeypatch, "extender")
    publish(url(server), NAMES, [window_table(["m1", "m2"], at=time.time())])
    with kube_api() as api, extender(url(server), NAMES, "--mode", "bind", "--api-url", api.url) as (_, port, _):
        api.put("a", "", phase="Pending")
        eventually(lambda: set(order(port, ["m1", "m2"])) == {"m1", "m2"})
        eventually(lambda: admin.hlen(NAMES.processes("extender")))
        body = {"PodName": "pod-a", "PodNamespace": "shop", "PodUID": "a", "Node": "m1"}
        api.refuses = 409
        assert "409" in ask(port, "bind", body)[1]["Error"]
        assert not ledger.all_instances()
        api.refuses = 0
        assert ask(port, "bind", body) == (200, {})
        assert ledger.all_instances().keys() == {"a"}
    assert denied(admin) == []


def test_an_evictor_has_a_user_of_its_own(server, admin, monkeypatch):
    """It takes proposals, puts queries, and nothing that it does is refused."""
    with scorer(server), deployer(server) as client, kube_api() as api:
        scene = Evicting(url(server), NAMES, api, client, admin)
        scene.run("a", "m1")
        scene.propose("a", "m2", source="m1")
        become(monkeypatch, "evictor")
        with evictor(url(server), NAMES, api.url, "--apply"):
            eventually(lambda: scene.held() == ["m2"])
            eventually(lambda: admin.hlen(NAMES.processes("evictor")))
            scene.client.release("a")
            scene.run("b", "m3")
            eventually(lambda: scene.lists() == (0, 0))
    assert denied(admin) == []


def test_pods_are_followed_by_a_user_of_their_own(server, admin, ledger, monkeypatch):
    """It writes the ledger, reads no window, puts no query, and nothing that it does is refused."""
    become(monkeypatch, "pods")
    with kube_api() as api:
        configured = "b" * 32
        notes = {"kubernetes.io/config.hash": configured, "kubernetes.io/config.mirror": configured}
        api.put("a", annotations=notes, ownerReferences=[{"kind": "Node", "name": "n1", "controller": True}])
        api.put("c")
        api.put_node("n1")
        with pods_process(url(server), NAMES, "--api-url", api.url):
            eventually(lambda: admin.hexists(NAMES.nodes, "n1"))
            eventually(lambda: ledger.all_instances().keys() == {configured, "c"})
            eventually(lambda: admin.hlen(NAMES.processes("pods")))
            api.put("c", cpu="2")
            api.delete("a")
            eventually(lambda: ledger.all_instances().keys() == {"c"})
    assert denied(admin) == []


def test_a_recorder_reads_ledger_facts_and_decisions(server, admin):
    wire = Wire({"url": url(server), "username": "record", "password": password("record")})
    state, ledger_log = State(wire, NAMES), LedgerLog(Ledger(wire, NAMES))
    assert state.read_decisions() == ([], None)
    with scorer(server), deployer(server) as client:
        client.place(id="a", cpu=1)
        assert ledger_log.read(1.0).full
        client.place(id="b", cpu=1)
        eventually(lambda: ledger_log.read(2.0).records)
        eventually(lambda: state.read_decisions()[0])
    state.read_machines()
    assert wire.one("INFO", "server")
    wire.close()
    assert denied(admin) == []


DANGEROUS = [("KEYS", "*"), ("SCAN", "0"), ("FLUSHALL",), ("FLUSHDB",), ("CONFIG", "GET", "*"), ("SHUTDOWN",),
             ("ACL", "LIST"), ("MONITOR",), ("CLIENT", "LIST"), ("CLIENT", "KILL", "ID", "1"),
             ("SUBSCRIBE", "x"), ("PUBLISH", "x", "y"), ("SCRIPT", "FLUSH"), ("SAVE",), ("REPLICAOF", "NO", "ONE"),
             ("GET", "foreign"), ("HGETALL", "foreign"), ("SET", "foreign", "x"), ("DEL", "foreign"),
             ("LPUSH", "foreign", "x"), ("EVAL", "return redis.call('SET', 'foreign', 'x')", "0"),
             ("EVAL", "return redis.call('KEYS', '*')", "0"), ("GET", "other:v1:partitions")]  # fmt: skip
OF_ADMIN = {("CONFIG", "GET", "*"), ("SHUTDOWN",)}
"""What stops the server or tells its settings is admin's work (docs/backup.md); the server of the test lives on."""
OWN = [
    ("deployer", ("EVAL", "return 1", "0")), ("deployer", ("BLPOP", NAMES.queries, "0.01")),
    ("deployer", ("LRANGE", NAMES.queries, "0", "-1")), ("deployer", ("LPUSH", NAMES.reply("x"), "forged")),
    ("deployer", ("DEL", NAMES.queries)), ("deployer", ("GET", NAMES.windows(0))),
    ("deployer", ("HGETALL", NAMES.operator)), ("stream", ("EVAL", "return 1", "0")),
    ("scorer", ("DEL", NAMES.operator)), ("scorer", ("LPUSH", NAMES.operator_queries, "x")),
    ("operator", ("LPUSH", NAMES.of_scorers.taken_of_operators("x"), "x")),
    ("operator", ("GET", NAMES.acted("drain", "x"))), ("deployer", ("LPUSH", NAMES.planner_queries, "x")),
    ("operator", ("LPUSH", NAMES.planner_queries, "x")), ("planner", ("LPUSH", NAMES.planner_operator_queries, "x")),
    ("scorer", ("LRANGE", NAMES.planner_queries, "0", "-1")), ("scorer", ("LPUSH", NAMES.queries, "x")),
    ("scorer", ("DEL", NAMES.decisions)), ("scorer", ("LRANGE", NAMES.moves_taken, "0", "-1")),
    ("scorer", ("LREM", NAMES.moves_taken, "0", "x")), ("operator", ("GET", NAMES.first_taken("x"))),
    ("scorer", ("EXPIRE", NAMES.ledger_marker, "1")), ("operator", ("BLPOP", NAMES.queries, "0.01")),
    ("exporter", ("EVAL", "return 1", "1", NAMES.ledger("head"))), ("record", ("GET", NAMES.windows(0))),
    ("deployer", ("PUBLISH", NAMES.changed, "0")), ("scorer", ("PUBLISH", "other", "0")),
    ("stream", ("SUBSCRIBE", NAMES.changed)), ("deployer", ("SUBSCRIBE", NAMES.changed)),
]  # fmt: skip


@pytest.mark.parametrize("user", USERS)
def test_a_user_may_do_nothing_else(server, user, subtests):
    """Foreign keys, other users' keys, and what stops or empties a server; who writes what, the next test has."""
    refused = r"(?i)no permissions|can't run this command|ACL failure|script"
    commands = [command for command in DANGEROUS if user != "admin" or command not in OF_ADMIN]
    with redis.Redis(port=server, username=user, password=password(user)) as client:
        for command in [*commands, *(command for owner, command in OWN if owner == user)]:
            with subtests.test(" ".join(command)), pytest.raises(redis.ResponseError, match=refused):
                client.execute_command(*command)


WRITERS = {
    NAMES.ledger("instances"): {"scorer", "planner", "operator", "pods", "extender"},
    NAMES.ledger("leases"): {"scorer", "operator", "planner", "pods", "extender"},
    NAMES.windows(0): {"stream"}, NAMES.state(0): {"stream"}, NAMES.operator: {"operator", "scorer", "planner"},
    NAMES.nodes: {"pods"}, NAMES.operator_version: {"operator", "scorer", "planner", "pods"},
    NAMES.operator_queries: {"operator", "scorer"}, NAMES.acted("drain", "x"): {"scorer", "planner"},
    NAMES.moves_waiting: {"operator", "planner", "mover", "evictor"},
    NAMES.moves_roles: {"operator", "planner", "mover"},
    NAMES.queries: {"deployer", "operator", "mover", "scorer", "evictor", "doctor"},
    NAMES.decisions: {"scorer", "planner"},
    NAMES.moves_fence: {"planner"}, NAMES.planner_operator_queries: {"scorer", "planner"},
    NAMES.reply("x"): {"scorer", "planner", "deployer", "operator", "mover", "evictor", "doctor"},
    NAMES.ledger_marker: {"scorer", "operator"}, "foreign": set(), "other:v1:{ledger}:instances": set(),
}  # fmt: skip
"""Who may change what; callers and the scorer take off the lists of queries and answers, which is a write."""


def test_every_command_of_the_server_for_every_user(server, admin):
    """Whatever writes a key is refused to all but its writers; nothing but a write and a read of keys is allowed.

    XREAD names its keys after its options; `test_who_may_read_events` has it.
    """
    harmless = {"ping", "hello", "auth", "select", "client", "info", "time", "eval", "evalsha", "publish", "subscribe",
                "reset", "quit", "wait", "asking", "multi", "exec", "discard", "watch", "unwatch", "xread"}  # fmt: skip
    commands = admin.command()
    tries = []
    for name, about in commands.items():
        words = [name] if not about.get("subcommands") else []
        arguments = ["1"] * max(abs(about["arity"]) - 1, 0)
        if words and about["first_key_pos"] > 0:
            for key in WRITERS:
                filled = [key if at + 1 == about["first_key_pos"] else one for at, one in enumerate(arguments)]
                writes = "write" in about["flags"]
                tries += [(user, name, key, filled) for user in USERS if writes]
        elif name not in harmless:
            tries += [(user, name, "", arguments) for user in USERS]
    pipe = admin.pipeline(transaction=False)
    for user, name, _, arguments in tries:
        pipe.execute_command("ACL", "DRYRUN", user, name, *arguments)
    answers = pipe.execute(raise_on_error=False)
    allowed = [one[:3] for one, answer in zip(tries, answers, strict=True) if answer in (b"OK", "OK", True)]
    assert len(tries) > 5_000
    of_admin = {name for user, name, key in allowed if user == "admin" and not key}
    assert of_admin == {"bgrewriteaof", "bgsave", "lastsave", "shutdown"}
    allowed = [one for one in allowed if one[0] != "admin" or one[1] not in of_admin]
    assert [one for one in allowed if one[0] not in WRITERS.get(one[2], set())] == []
    assert {user for user, _, key in allowed if key == NAMES.ledger("leases")} == WRITERS[NAMES.ledger("leases")]


def test_a_scorer_may_wait_for_replicas(server):
    for user in USERS:
        with redis.Redis(port=server, username=user, password=password(user)) as client:
            if user in ("scorer", "planner"):
                assert client.set(NAMES.ledger("waited"), "")
                assert client.wait(0, 1) == 0
            else:
                with pytest.raises(redis.exceptions.NoPermissionError):
                    client.wait(0, 1)


def test_nobody_gets_in_without_a_password(server):
    """Nor with another user's; a file that was not given one is refused by the server."""
    for wrong in ("", "PASSWORD_SHA256", password("stream")):
        with redis.Redis(port=server, username="scorer", password=wrong) as client, pytest.raises(redis.RedisError):
            client.ping()
    with redis.Redis(port=server) as client, pytest.raises(redis.ResponseError, match="Error in ACL SETUSER"):
        client.execute_command("ACL", "SETUSER", "x", "on", "#PASSWORD_SHA256")
