"""The RPC with real scorer processes: answers, errors, deadlines, crashes, restarts."""

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial

import pytest
import redis

from ops.stack.servers.local import LocalValkey
from ops.stack.servers.process import LocalProcess
from schemas.names import Names
from scorer.client import AsyncClient, Client, WindwardError
from tests.conftest import free_port, start_valkey, stop
from tests.support.fleet_label import without_fleet
from tests.support.forked import Forked
from tests.support.in_process import refusal, run_command
from tests.support.pages import eventually, get
from tests.window_tables import publish, window_table

MACHINES = [f"m{number:02d}" for number in range(10)]
FRESH_S = 600.0
"""How far ahead the samples of a fleet are that a whole file uses: a scorer refuses a machine without a newer one."""


@contextmanager
def scorer_process(url, names, *options, env=None, command="scorer", program=()):
    """Run a scorer, or the program in its place; end it afterwards, whatever became of it."""
    arguments = ["--redis-url", url, "--prefix", names.prefix, "--log-level", "warning", *options]
    environ = {**os.environ, **(env or {})}
    if program:
        process = subprocess.Popen([sys.executable, *program, *arguments], env=environ)
    else:
        process = Forked([command, *arguments], environ)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            stop(process)


planner_process = partial(scorer_process, command="planner")
"""The same of a planner."""


def ask_raw(server, names, query, query_id, wait_s=60):
    """Put a query as redis-cli would, and read its answer."""
    server.lpush(names.queries, query)
    return json.loads(eventually(lambda: server.lpop(names.reply(query_id)), wait_s))


@pytest.fixture(scope="module")
def running(valkey, module_names):
    """One scorer on a fleet of ten machines, from idle to busy."""
    loads = [0.05 + 0.05 * number for number in range(len(MACHINES))]
    at = time.time() + FRESH_S
    halves = [window_table(MACHINES[part], utilization=loads[part], at=at) for part in (slice(5), slice(5, 10))]
    publish(valkey.url, module_names, halves)
    with scorer_process(valkey.url, module_names) as process:
        yield process


@pytest.fixture
def client(valkey, module_names, running):
    with Client(valkey.url, module_names.prefix, timeout_s=60) as client:
        yield client


def test_a_torn_record_is_told_in_words(client, valkey, module_names):
    """Each step on its instance says which record cannot be read, and what to do; nothing else is refused."""
    server = redis.Redis.from_url(valkey.url)
    client.place(id="torn-1", cpu=0.1)
    key = module_names.ledger("instances")
    raw = server.hget(key, "torn-1")
    server.hset(key, "torn-1", raw[:40])
    for step in (client.confirm, client.release, lambda name: client.place(id=name, cpu=0.1)):
        with pytest.raises(WindwardError, match=r'record of "torn-1" cannot be read.*ledger check --repair') as refused:
            step("torn-1")
        assert refused.value.code == "FAILED_PRECONDITION"
    assert client.place(cpu=0.1, dry_run=True)["machine"]
    server.hset(key, "torn-1", raw)
    assert client.release("torn-1")["state"] == "released"
    server.close()


def put_together(server, names, params, count):
    """Put alike queries on the queue before there is a scorer, which then takes them together."""
    for number in range(count):
        query = {"v": 1, "id": f"q{number}", "method": "place", "deadline": time.time() + 60, "params": params}
        server.lpush(names.queries, json.dumps(query))


def answers_of(server, names, count):
    replies = [server.blpop([names.reply(f"q{number}")], timeout=60) for number in range(count)]
    return [json.loads(reply[1])["result"] for reply in replies]


def test_alike_queries_taken_together_are_answered_one_by_one(valkey, names, server):
    """Twelve deployers at once get the machines that twelve instances of one query would, each with its own terms."""
    loads = [0.05 + 0.05 * n for n in range(10)]
    publish(valkey.url, names, [window_table(MACHINES, utilization=loads, at=time.time() + 3)])
    params = {"cpu": 2, "memory": "4G"}
    put_together(server, names, params, 12)
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=60) as client:
        answers = answers_of(server, names, 12)
        for number, answer in enumerate(answers):
            assert (answer["id"], answer["repeated"]) == (f"q{number}", 0)
            assert answer["machine"] == answer["candidates"][0]["machine"]
            client.release(f"q{number}")
        batch = client.place(id="batch", count=12, **params)
    assert [answer["machine"] for answer in answers] == [one["machine"] for one in batch["placed"]]


def test_of_alike_queries_taken_together_the_ones_without_room_are_told_as_if_alone(valkey, names, server):
    """Room for two of three: the third is ranked after them; and `rank` shows the fleet with them on it."""
    publish(valkey.url, names, [window_table(["only"], at=time.time() + 3)])
    params = {"cpu": 6, "memory": "1G", "profile": "kubernetes"}
    put_together(server, names, params, 3)
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=60) as client:
        answers = answers_of(server, names, 3)
        looked = client.rank(**params)
        smaller = client.rank(**(params | {"cpu": 1}))
    assert [answer["machine"] for answer in answers] == ["only", "only", None]
    none = answers[2]
    assert (none["score"], none["feasible"], none["candidates"], none["missing"]) == (None, 0, [], 1)
    assert none["summary"] == none["reason"] == looked["summary"]
    assert looked["machine"] is None
    assert smaller["candidates"][0]["instances"] == 2


def test_life_of_an_instance(client):
    """Place, confirm, resize, move and release; each repeated call gives the same answer and changes nothing."""
    placed = client.place(id="life", cpu=1, memory="1G", ports=[6379], labels={"app": "x"})
    again = client.place(id="life", cpu=1, memory="1G", ports=[6379], labels={"app": "x"})
    assert placed["state"] == "reserved"
    assert {k: placed[k] for k in ("id", "machine", "reserved_at", "expires_at", "version")} == {
        k: again[k] for k in ("id", "machine", "reserved_at", "expires_at", "version")
    }
    assert (placed["repeated"], again["repeated"]) == (0, 1)
    confirmed = client.confirm("life")
    assert confirmed["state"] == "confirmed"
    assert client.confirm("life")["version"] == confirmed["version"]
    assert client.update("life", cpu=2, memory="2G")["amounts"][:2] == [2.0, 2e9]
    assert client.update("life", cpu=2, memory="2G")["repeated"]
    target = next(machine for machine in MACHINES if machine != placed["machine"])
    moved = client.update("life", machine=target)
    assert (moved["machine"], moved["moved_from"]) == (target, placed["machine"])
    assert moved["started_at"] > confirmed["started_at"]
    listed = client.instances(machine=target, labels={"app": "x"})
    assert [one["id"] for one in listed["instances"]] == ["life"]
    released = client.release("life")
    assert (released["state"], client.release("life")["version"]) == ("released", released["version"])
    assert client.instances(id="life")["instances"][0]["state"] == "released"
    anew = client.place(id="life", cpu=1, memory="1G", ports=[6379], labels={"app": "x"})
    assert (anew["state"], anew["repeated"]) == ("reserved", 0)
    assert anew["generation"] != placed["generation"] == released["generation"]
    client.release("life")


REFUSED = [
    ("confirm of an unknown id", "confirm", {"id": "nobody"}, "NOT_FOUND", "nobody"),
    ("release of an unknown id", "release", {"id": "nobody"}, "NOT_FOUND", "nobody"),
    ("update of an unknown id", "update", {"id": "nobody", "cpu": 1}, "NOT_FOUND", "nobody"),
    ("update of a reservation", "update", {"id": "held", "cpu": 1}, "FAILED_PRECONDITION", "reserved"),
    ("confirm on a foreign machine", "confirm", {"id": "held", "machine": "else"}, "FAILED_PRECONDITION", "is on"),
    ("release on a foreign machine", "release", {"id": "held", "machine": "else"}, "FAILED_PRECONDITION", "is on"),
    ("confirm of a released id", "confirm", {"id": "gone"}, "FAILED_PRECONDITION", "was released"),
    ("another request under an id", "place", {"id": "held", "cpu": 3}, "ALREADY_EXISTS", "held"),
    ("lifetime of nothing", "place", {"ttl_s": 0}, "INVALID_ARGUMENT", "ttl_s"),
    ("lifetime of a year", "place", {"ttl_s": 365 * 86400}, "INVALID_ARGUMENT", "ttl_s"),
    ("negative amount", "place", {"cpu": -1}, "INVALID_ARGUMENT", "cpu"),
    ("amount that is no number", "place", {"memory": "much"}, "INVALID_ARGUMENT", "memory"),
    ("infinite amount", "rank", {"cpu": "1e999"}, "INVALID_ARGUMENT", "cpu"),
    ("unknown field", "place", {"cpus": 1}, "INVALID_ARGUMENT", "cpus"),
    ("wrong type", "place", {"count": "three"}, "INVALID_ARGUMENT", "count"),
    ("too many", "place", {"count": 10_001}, "INVALID_ARGUMENT", "count"),
    ("too many in a list", "place", {"instances": [{}] * 10_001}, "INVALID_ARGUMENT", "instances"),
    ("a bad one in a list", "place", {"instances": [{}, {"cpu": -1}]}, "INVALID_ARGUMENT", "instances[1].cpu"),
    ("one id twice", "place", {"instances": [{"id": "a"}, {"id": "a"}]}, "INVALID_ARGUMENT", "'a'"),
    ("params that are no object", "place", [], "INVALID_ARGUMENT", "params"),
    ("unknown profile", "rank", {"profile": "nope"}, "INVALID_ARGUMENT", "profile"),
    ("unknown window", "rank", {"window_s": 17}, "INVALID_ARGUMENT", "window_s"),
    ("unknown method", "frobnicate", {}, "UNIMPLEMENTED", "frobnicate"),
    ("an id that cannot be printed", "place", {"id": "a\nb"}, "INVALID_ARGUMENT", "id"),
    ("role swap with itself", "update", {"id": "runs", "swap_role_with": "runs"}, "FAILED_PRECONDITION", "cluster"),
    ("growth beyond the machine", "update", {"id": "runs", "cpu": 900}, "RESOURCE_EXHAUSTED", "cpu"),
    ("move to a machine that is not there", "update", {"id": "runs", "machine": "x"}, "RESOURCE_EXHAUSTED", "runs"),
]


@pytest.mark.parametrize(
    ("method", "params", "code", "word"), [row[1:] for row in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_refusals_name_what_is_wrong(client, method, params, code, word):
    """Every bad call gets gRPC's code and a message with the field or id in it, and the ledger stays as it was."""
    client.place(id="held", cpu=0.1, ttl_s=3600)
    client.place(id="runs", cpu=0.1)
    client.confirm("runs")
    client.place(id="gone", cpu=0.1)
    client.release("gone")
    before = client.health()["ledger_change"]
    if isinstance(params, dict):
        with pytest.raises(WindwardError) as refused:
            client.call(method, params)
        assert refused.value.code == code
        assert word in refused.value.message
    assert client.health()["ledger_change"] == before


def test_dry_runs_change_nothing(client):
    """A dry run of each step answers as the step would, and the ledger's change number stays."""
    client.place(id="dry", cpu=1)
    before = client.health()["ledger_change"]
    assert client.place(id="dry-2", cpu=1, dry_run=True)["state"] == "reserved"
    assert client.place(cpu=1, count=3, dry_run=True)["missing"] == 0
    assert client.confirm("dry", dry_run=True)["state"] == "confirmed"
    assert client.release("dry", dry_run=True)["state"] == "released"
    assert client.health()["ledger_change"] == before
    client.confirm("dry")
    assert client.update("dry", cpu=2, dry_run=True)["amounts"][0] == 2.0
    assert client.instances(id="dry")["instances"][0]["cpu"] == 1.0
    client.release("dry")


def test_roles_swap_in_one_step(client):
    """After a failover master and replica exchange roles together; the same call again does not undo it."""
    for name, role in (("r-a", "master"), ("r-b", "replica")):
        client.place(id=name, cpu=0.1, cluster="shop", role=role, cluster_masters=3)
        client.confirm(name)
    client.update("r-a", swap_role_with="r-b")

    def roles():
        return {one["id"]: one["role"] for one in client.instances(cluster="shop")["instances"]}

    assert roles() == {"r-a": "replica", "r-b": "master"}
    client.update("r-a", cpu=0.2)
    again = client.update("r-a", swap_role_with="r-b")
    assert (again["repeated"], again["role"]) == (True, "replica")
    assert roles() == {"r-a": "replica", "r-b": "master"}
    client.update("r-b", swap_role_with="r-a")
    assert roles() == {"r-a": "master", "r-b": "replica"}
    for _ in range(2):
        client.update("r-a", swap_role_with="r-b", role="replica")
        assert roles() == {"r-a": "replica", "r-b": "master"}
    with pytest.raises(WindwardError, match="r-a"):
        client.update("r-b", swap_role_with="r-a", role="witness")
    for _ in range(2):
        client.update("r-b", role="replica")
    client.update("r-a", role="master")
    client.update("r-b", swap_role_with="r-a")
    assert roles() == {"r-a": "replica", "r-b": "master"}


def test_batches_all_or_nothing_and_in_part(client):
    """A batch that cannot be placed whole leaves nothing behind, or places what fits and says what is missing."""
    nothing = client.place(id="batch-a", cpu=7, count=60, all_or_nothing=True)
    assert (nothing["placed"], nothing["missing"]) == ([], 60)
    assert client.instances(id="batch-a-1")["instances"] == []
    part = client.place(id="batch-b", cpu=7, count=60)
    assert 0 < len(part["placed"]) < 60
    assert len(part["placed"]) + part["missing"] == 60
    assert "cpu" in part["reason"]
    again = client.place(id="batch-b", cpu=7, count=60)
    assert [one["machine"] for one in again["placed"]] == [one["machine"] for one in part["placed"]]
    for one in part["placed"]:
        client.release(one["id"])
    unlike = client.place(instances=[{"id": "u1", "cpu": 1}, {"id": "u2", "memory": "1G"}], all_or_nothing=True)
    assert [one["id"] for one in unlike["placed"]] == ["u1", "u2"]


def test_a_batch_repeated_keeps_to_its_number_of_machines(client):
    """Placed in part, then asked for again: the same answer, not an error, and no machine more than allowed."""
    for name, limits in (("wide", {"machines_min": 12}), ("narrow", {"machines_max": 1, "cpu": 4})):
        first = client.place(id=name, count=12, **limits)
        assert first["missing"]
        client.confirm(first["placed"][0]["id"])
        again = client.place(id=name, count=12, **limits)
        assert [one["machine"] for one in again["placed"]] == [one["machine"] for one in first["placed"]]
        assert again["missing"] == first["missing"]
        for one in first["placed"]:
            client.release(one["id"])


def test_an_ended_id_is_placed_anew_or_has_no_machine(client):
    """An answer names no machine on which nothing is held, also when the id was on one before."""
    request = {"id": "past", "cpu": 0.1, "ports": [7654]}
    client.release(client.place(**request)["id"])
    for number in range(10):
        client.place(id=f"block-{number}", ports=[7654])
    again = client.place(**request)
    assert (again["machine"], again["placed"], again["missing"]) == (None, [], 1)
    for number in range(10):
        client.release(f"block-{number}")


def test_a_batch_with_an_id_of_another_request_reserves_nothing(client):
    """The answer is an error, so none of the batch is held; once the other one has ended its id is free."""
    client.place(id="mine", cpu=0.1)
    batch = [{"id": "first", "cpu": 0.1}, {"id": "mine", "cpu": 0.2}]
    with pytest.raises(WindwardError, match=r"ALREADY_EXISTS.*mine"):
        client.place(instances=batch)
    assert client.instances(id="first")["total"] == 0
    client.release("mine")
    assert client.place(instances=batch)["missing"] == 0
    for one in batch:
        client.release(str(one["id"]))


def test_decisions_are_kept(client, server, module_names):
    """A placement is on the bounded stream of decisions with its terms; a repeat is not there twice."""
    client.place(id="kept", cpu=0.5)
    client.place(id="kept", cpu=0.5)
    found = [e for _, e in server.xrange(module_names.decisions) if e[b"ids"] == b"kept"]
    assert len(found) == 1
    assert json.loads(found[0][b"answer"])["candidates"]


MALFORMED = [
    ("method of the wrong type", '{"id":"w1","method":5}', "w1", "method"),
    ("deadline of the wrong type", '{"id":"w2","method":"rank","deadline":"soon"}', "w2", "deadline"),
    ("no method", '{"id":"w3"}', "w3", "method"),
    ("another major version", '{"v":2,"id":"w4","method":"rank"}', "w4", "v: 2"),
    ("cut short", '{"v":1,"id":"w5","method":"ra', "w5", "query"),
    ("params of the wrong type", '{"id":"w6","method":"rank","params":7}', "w6", "params"),
]


@pytest.mark.parametrize(("raw", "query_id", "word"), [r[1:] for r in MALFORMED], ids=[r[0] for r in MALFORMED])
def test_malformed_queries_are_answered(server, module_names, running, raw, query_id, word):
    """A query whose id can be read gets INVALID_ARGUMENT naming the field."""
    answer = ask_raw(server, module_names, raw, query_id)
    assert answer["error"]["code"] == "INVALID_ARGUMENT"
    assert word in answer["error"]["message"]


def test_garbage_is_dropped_and_the_next_query_answered(server, module_names, client):
    """What nobody can be answered for is counted, logged and forgotten."""
    bad_ids = ['{"id":"a b","method":"health"}', '{"id":"","method":"health"}']
    server.lpush(module_names.queries, b"\xff\x00garbage", "[]", "null", "{}", *bad_ids, "x" * 100_000)
    assert client.health()["ready"]
    assert server.llen(module_names.queries) == 0
    assert not list(server.scan_iter(f"{module_names.prefix}:v1:taken:*"))


def test_a_caller_whose_clock_is_off_is_answered_or_told(server, module_names, client):
    """A minute behind, its queries are past their deadline, and do nothing; a minute ahead they are answered."""
    late = {"v": 1, "id": "late", "method": "place", "deadline": time.time() - 55, "params": {"id": "late"}}
    error = ask_raw(server, module_names, json.dumps(late), "late", 5)["error"]
    assert (error["code"], error["retryable"]) == ("DEADLINE_EXCEEDED", True)
    assert "taken 55." in error["message"]
    assert "clock is behind" in error["message"]
    assert client.instances(id="late")["instances"] == []
    early = late | {"id": "early", "deadline": time.time() + 65, "method": "rank", "params": {}}
    assert ask_raw(server, module_names, json.dumps(early), "early", 5)["ok"]


@pytest.mark.parametrize("ahead_s", [10, -10])
def test_a_scorer_whose_clock_is_off_answers_and_says_so(ahead_s, valkey, module_names, running):
    """All default calls, by the server's time; health, page, metric and doctor name it."""
    port = free_port()
    clock = f"import runpy, time; now = time.time; time.time = lambda: now() + {ahead_s}"
    program = f"{clock}; runpy.run_module('scorer', run_name='__main__')"
    options = ("--metrics-port", str(port), "--name", f"off{ahead_s}")
    running.send_signal(signal.SIGSTOP)
    try:
        with (
            scorer_process(valkey.url, module_names, *options, program=("-c", program)),
            Client(valkey.url, module_names.prefix) as client,
        ):
            base = f"http://127.0.0.1:{port}"
            eventually(lambda: get(f"{base}/ready")[0] == 200)
            assert [client.place(cpu=0.001, ttl_s=1).missing for _ in range(16)] == [0] * 16
            assert client.health().clock_ahead_s == pytest.approx(ahead_s, abs=0.5)
            status, page = get(f"{base}/ready")
            assert (status, json.loads(page)["clock_ahead_s"]) == (200, pytest.approx(ahead_s, abs=0.5))
            assert (get(f"{base}/live")[0], get(f"{base}/else")[0]) == (200, 404)
            sign, metrics = "-" if ahead_s < 0 else r"\d", without_fleet(get(f"{base}/metrics")[1])
            assert re.search(rf"^windward_scorer_clock_ahead_seconds {sign}", metrics, re.MULTILINE)
            assert 'windward_scorer_queries_total{code="OK",method="health"} 1.0' in metrics
            assert "windward_scorer_query_duration_seconds_bucket" in metrics
            where = ("--no-broker", "--json", "--redis-url", valkey.url, "--prefix", module_names.prefix)
            doctor = [sys.executable, "-m", "ops.cli.main", "doctor", *where]
            said = subprocess.run(doctor, capture_output=True, text=True, timeout=60, check=False).stdout
            assert f"the clock of scorer off{ahead_s} is {ahead_s:+d}." in said
    finally:
        running.send_signal(signal.SIGCONT)


def test_async_client_runs_calls_side_by_side(valkey, module_names, running):
    async def ask():
        async with AsyncClient(valkey.url, module_names.prefix, timeout_s=60) as client:
            return await asyncio.gather(*[client.rank(cpu=1) for _ in range(50)], client.health())

    answers = asyncio.run(ask())
    assert all(answer["machine"] for answer in answers[:50])


def test_without_a_scorer_the_client_says_so(valkey, names, server):
    """The deadline passes, the error names server and prefix, and the query is taken back off the queue."""
    started = time.monotonic()
    with Client(valkey.url, names.prefix, timeout_s=0.3) as client, pytest.raises(WindwardError) as error:
        client.health()
    assert error.value.code == "DEADLINE_EXCEEDED"
    assert f"redis://127.0.0.1:{valkey.port} " in error.value.message
    assert names.prefix in error.value.message
    assert time.monotonic() - started < 2
    assert server.llen(names.queries) == 0


def test_without_a_server_the_client_says_so():
    """No connection until the deadline: UNAVAILABLE, retryable."""
    with Client(f"redis://127.0.0.1:{free_port()}/0", timeout_s=0.4) as client, pytest.raises(WindwardError) as error:
        client.health()
    assert error.value.code == "UNAVAILABLE"
    assert error.value.retryable


def test_an_idle_wait_outlives_socket_timeouts(valkey, names, server):
    """A scorer that starts only after the client has waited for longer than one blocking read still answers it."""
    publish(valkey.url, names, [window_table(MACHINES)])
    answers = []

    def ask():
        with Client(valkey.url, names.prefix, timeout_s=60) as client:
            answers.append(client.rank(cpu=1))

    def reads_that_ended():
        return int(server.info("commandstats").get("cmdstat_blpop", {"calls": 0})["calls"])

    before = reads_that_ended()
    waiting = threading.Thread(target=ask)
    waiting.start()
    eventually(lambda: reads_that_ended() > before)
    with scorer_process(valkey.url, names):
        waiting.join(60)
    assert answers[0]["machine"]


def test_a_killed_scorer_loses_nothing(valkey, names, server):
    """A query taken by a scorer that dies by -9 is answered by another before its deadline, and reserved once."""
    publish(valkey.url, names, [window_table(MACHINES, at=time.time() + 5)])
    quick = ("--heartbeat-s", "0.1", "--silent-s", "0.5")
    first = scorer_process(valkey.url, names, "--name", "first", *quick)
    with first as process, Client(valkey.url, names.prefix, timeout_s=60) as client:
        client.health()
        process.send_signal(signal.SIGSTOP)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(client.place(id="once", cpu=1)))
        asking.start()
        # The server serves its blocked read while the process stands still, or we do what that read would have done.
        eventually(
            lambda: (
                server.llen(names.of_scorers.taken("first"))
                or server.lmove(names.queries, names.of_scorers.taken("first"), "RIGHT", "LEFT")
            )
        )
        process.kill()
        with scorer_process(valkey.url, names, "--name", "second", *quick):
            asking.join(60)
            assert answers[0]["machine"]
            assert client.instances()["total"] == 1
    assert server.llen(names.of_scorers.taken("first")) == 0


def test_a_restarted_scorer_takes_up_its_own_queries(valkey, names, server):
    """What an earlier process of the same name had taken is answered when it is back; SIGTERM ends it with 0."""
    server.lpush(names.of_scorers.taken("again"), '{"id":"left","method":"health"}')
    with scorer_process(valkey.url, names, "--name", "again") as process:
        assert eventually(lambda: server.llen(names.reply("left")))
        eventually(lambda: server.zscore(names.scorers, "again"))
        process.terminate()
        assert process.wait(60) == 0
    assert server.zscore(names.scorers, "again") is None
    assert server.exists(names.of_scorers.taken("again")) == 0


def test_long_answers_keep_nobody_waiting(valkey, names, server):
    """Sixty at once: others wait for a part of one at most; some are made in time, and each of the others is told."""
    many = [f"m{number:03}" for number in range(500)]
    publish(valkey.url, names, [window_table(many, at=time.time() + FRESH_S)])
    running = scorer_process(valkey.url, names), planner_process(valkey.url, names, "--every", "0")
    with running[0], running[1], Client(valkey.url, names.prefix, timeout_s=30) as client:

        def waits(call):
            started = time.monotonic()
            call()
            return time.monotonic() - started

        eventually(lambda: client.health().ready)
        client.rank(cpu=0.5)
        eventually(lambda: server.zcard(names.planners))
        alone_s = min(waits(lambda: client.rank(cpu=1, explain=True, top=1000)) for _ in range(3))
        ids = [f"long{number}" for number in range(60)]
        params, deadline = {"explain": True, "top": 1000}, time.time() + 8
        query = {"v": 1, "method": "rank", "deadline": deadline}
        server.lpush(
            names.queries,
            *[json.dumps(query | {"id": one, "params": params | {"cpu": 1 + n / 100}}) for n, one in enumerate(ids)],
        )
        waited_s = [waits(lambda: client.place(cpu=0.01)) for _ in range(9)]
        waited_s += [waits(lambda: client.machines(limit=20)) for _ in range(3)]
        assert sorted(waited_s)[6] < alone_s / 2
        told = [server.blpop([names.reply(one)], timeout=10) for one in ids]
    answers = [json.loads(one[1]) for one in told if one]
    assert len(answers) == len(ids)
    codes = Counter(one["error"]["code"] if "error" in one else "OK" for one in answers)
    assert codes.keys() <= {"OK", "DEADLINE_EXCEEDED"}
    assert codes["OK"] >= 1


def test_sigterm_gives_a_long_batch_back(valkey, names, server):
    """After its time it ends in the middle of a batch; another scorer goes on, and each instance is reserved once."""
    publish(valkey.url, names, [window_table(MACHINES, at=time.time() + FRESH_S)])
    run = "import runpy; runpy.run_module('scorer', run_name='__main__')"
    program = ("-c", f"from scorer.rpc import loop; loop.STOP_S = 0.0; {run}")
    batch = [{"id": f"i{number}", "cpu": 1e-4 + number * 1e-9} for number in range(1500)]
    answers = []

    def ask():
        with Client(valkey.url, names.prefix, timeout_s=60) as client:
            answers.append(client.place(instances=batch))

    asking = threading.Thread(target=ask)
    with scorer_process(valkey.url, names, program=program) as process:
        asking.start()
        eventually(lambda: server.hlen(names.ledger("instances")))
        process.terminate()
        assert process.wait(10) == 0
    done = server.hlen(names.ledger("instances"))
    assert 0 < done < len(batch)
    assert (server.llen(names.queries), server.zcard(names.scorers)) == (1, 0)
    with scorer_process(valkey.url, names):
        asking.join(60)
    assert sorted(one.id for one in answers[0].placed) == sorted(one["id"] for one in batch)
    assert answers[0].repeated == done
    (change,) = server.hmget(names.ledger("head"), "change")
    assert int(change) == server.hlen(names.ledger("instances")) == len(batch)


def test_too_many_waiting_are_refused_at_once(valkey, names, server):
    """Past the queue's bound the newest queries get RESOURCE_EXHAUSTED and the oldest are answered."""
    for number in range(300):
        server.lpush(names.queries, json.dumps({"id": f"q{number}", "method": "health"}))
    with scorer_process(valkey.url, names, "--queue-length-max", "50", "--drain-max", "4"):
        eventually(lambda: all(server.llen(names.reply(f"q{n}")) for n in range(300)))
    codes = [json.loads(server.lindex(names.reply(f"q{n}"), 0)).get("error", {}).get("code") for n in range(300)]
    assert codes[0] is None
    assert codes[299] == "RESOURCE_EXHAUSTED"
    assert codes.count("RESOURCE_EXHAUSTED") >= 200


def test_redis_restarted_with_its_data(tmp_path):
    """Server killed and back from its append-only file: the scorer goes on by itself and the instance is there."""
    names = Names("restart")
    with LocalValkey(directory=tmp_path, append_only=True) as server:
        publish(server.url, names, [window_table(MACHINES, at=time.time() + 5)])
        running = scorer_process(server.url, names)
        with running as process, Client(server.url, names.prefix, timeout_s=60) as client:
            placed = client.place(id="stays", cpu=1)
            client.confirm("stays")
            server.kill()
            late = []
            asking = threading.Thread(target=lambda: late.append(client.place(id="during", cpu=1)))
            asking.start()
            server.start()
            asking.join(60)
            assert late[0]["machine"]
            assert client.instances(id="stays")["instances"][0]["machine"] == placed["machine"]
            assert client.instances()["total"] == 2
            server.kill()
            shutil.rmtree(tmp_path / "appendonlydir")
            server.start()
            assert eventually(client.health)["ready"]
            assert client.instances()["total"] == 0
            assert process.poll() is None


def test_a_cluster_is_refused_by_name(tmp_path):
    """A node of a Redis Cluster ends the scorer at once with 2 and one line that says so, for either server."""
    port = free_port()
    server = start_valkey(port, tmp_path, "--cluster-enabled", "yes", "--cluster-port", str(free_port()))
    url = f"redis://127.0.0.1:{port}/0"
    try:
        for option in (("--redis-url", url), ("--redis-url", f"redis://127.0.0.1:{free_port()}", "--ledger-url", url)):
            done = run_command("scorer", *option, environ={})
            assert done.returncode == 2
            assert f"{url} runs as a cluster: it can have the windows alone" in done.stderr.splitlines()[-1]
            assert "Traceback" not in done.stderr
    finally:
        stop(server)


def test_windows_and_ledger_come_and_go_apart(names, tmp_path):
    """Windows that come back empty are those known until they are refilled; an absent ledger is noted once."""
    windows, ledger = (LocalValkey(directory=tmp_path / name) for name in ("windows", "ledger"))
    arguments = ["--redis-url", windows.url, "--ledger-url", ledger.url, "--prefix", names.prefix]
    command, log = [sys.executable, "-m", "ops.cli.main", "scorer", *arguments], tmp_path / "scorer.log"

    def fill(machines):
        publish(windows.url, names, [window_table(machines, at=time.time() + 5)])

    with windows, ledger, LocalProcess("scorer", command, log=log):
        fill(MACHINES)
        with Client(windows.url, names.prefix, timeout_s=60) as client:
            eventually(lambda: client.place(id="stays", cpu=1)["machine"])
            assert client.place(id="stays", cpu=1)["repeated"] == 1
            with redis.Redis.from_url(ledger.url) as of_ledger, redis.Redis.from_url(windows.url) as of_windows:
                assert of_ledger.hlen(names.ledger("instances")) == 1
                assert of_windows.exists(names.ledger("instances")) == 0
            windows.restart()
            eventually(lambda: "its windows are lost" in log.read_text())
            assert client.health().machines_with_data == len(MACHINES)
            assert client.rank(cpu=1).machine in MACHINES
            assert client.instances()["total"] == 1
            fill(["fresh"])
            eventually(lambda: client.rank(cpu=1)["machine"] == "fresh")
            ledger.kill()
            with pytest.raises(WindwardError):
                client.call("place", {"id": "late", "cpu": 1}, timeout_s=1.5)
            ledger.start()
            eventually(lambda: client.health()["ledger_unaccepted"])  # it came back empty
            subprocess.run([sys.executable, "-m", "ops.cli.main", "ledger", "accept", *arguments], check=True)
            eventually(lambda: client.place(id="again", cpu=1)["machine"] == "fresh")
        text = log.read_text()
        assert "Traceback" not in text
        assert text.count("scorer.redis.away") == text.count("scorer.redis.back") == 2


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--redis-url", "http://x"), "redis_url"),
        (("--redis-url", "redis+sentinel://h:26379"), "redis+sentinel://HOST:PORT,HOST:PORT/NAME"),
        (("--redis-url", "redis+cluster://h:7000"), "a cluster can have the windows alone (windows_url)"),
        (("--redis-url", "redis://a:1,b:2/0"), "redis_url"),
        (("--ledger-url", "nonsense"), "ledger_url"),
        (("--ledger-url", "redis+cluster://h"), "ledger_url: expected a redis://"),
        (("--windows-url", "redis+cluster://h:7000/1"), "windows_url: not a URL that can be parsed"),
        (("--refresh-s", "0"), "refresh_s"),
        (("--name", "a b"), "name"),
        (("--silent-s", "0.5"), "silent_s"),
        (("--profile", "nope"), "profile"),
        (("--profiles", "/nonexistent.toml"), "nonexistent"),
        (("--metrics-port", "99999"), "metrics_port"),
    ],
)
def test_wrong_settings_are_refused_by_name(options, word):
    """A setting that cannot be used ends the command at once with 2 and one line that names it."""
    assert word in refusal("scorer", *options)
