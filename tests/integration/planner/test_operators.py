"""Queries of operators, on their own list: taken, given back and acted on once, whatever else the scorers do."""

import json
import time

import msgspec
import pytest

from schemas.messages.proposal import read_proposal
from schemas.names import Names
from schemas.rpc.envelope import Query
from scorer.client import AsyncClient, Client, WindwardError
from scorer.live.live_fleet import LiveFleet
from scorer.rpc.methods.records import CallError
from scorer.rpc.operator_rules import TRIES, OperatorRules
from tests.integration.scorer.test_rpc import FRESH_S, MACHINES, planner_process, scorer_process
from tests.support.in_process import run_command
from tests.support.pages import eventually
from tests.window_tables import publish, window_table


@pytest.fixture(scope="module")
def running(valkey, module_names):
    """One scorer and one planner on a fleet of ten machines."""
    publish(valkey.url, module_names, [window_table(MACHINES, at=time.time() + FRESH_S)])
    planner = planner_process(valkey.url, module_names, "--every", "0", "--drain-s", "0")
    with scorer_process(valkey.url, module_names) as process, planner:
        yield process


@pytest.fixture
def client(valkey, module_names, running):
    """A client of that scorer, on a fleet without operators' rules."""
    with Client(valkey.url, module_names.prefix, timeout_s=60) as client:
        eventually(lambda: client.health()["ready"] and planned(client))
        yield client
        client.uncordon(machines=["m*", "*"])


def planned(client):
    try:
        return client.rebalance().rule == "overload"
    except WindwardError:
        return False


def put(server, where, query_id, method, **params):
    server.lpush(where, json.dumps({"v": 1, "id": query_id, "method": method, "params": params}))


def answer(server, names, query_id):
    return json.loads(eventually(lambda: server.lpop(names.reply(query_id))))


def test_a_cordon_holds_for_the_next_placements(client):
    assert client.cordon(machines=["m0[1-9]"])["rules"] == {name: {"cordon": True} for name in MACHINES[1:]}
    assert client.rank(cpu=1)["feasible"] == 1
    assert client.place(cpu=1, dry_run=True)["machine"] == "m00"
    assert client.uncordon(selector="machine!=m00")["rules"] == {name: {} for name in MACHINES[1:]}
    assert client.rank(cpu=1)["feasible"] == 10


async def _cordoned(url, prefix):
    async with AsyncClient(url, prefix, timeout_s=60) as client:
        return (await client.cordon(machines=["m03"]))["rules"], (await client.uncordon(machines=["m03"]))["rules"]


def test_the_same_for_asyncio(client, valkey, module_names):
    import asyncio

    assert asyncio.run(_cordoned(valkey.url, module_names.prefix)) == ({"m03": {"cordon": True}}, {"m03": {}})


def test_a_wrong_machine_is_refused_in_words(client):
    for params, code in (({"machines": ["m77"]}, "NOT_FOUND"), ({"machines": [7]}, "INVALID_ARGUMENT")):
        with pytest.raises(WindwardError) as refused:
            client.call("cordon", params)
        assert refused.value.code == code


def test_a_query_that_is_sent_twice_acts_once(client, server, module_names):
    """It gets the answer that it got, and the machine stays as another query left it."""
    names = module_names
    put(server, names.operator_queries, "twice", "cordon", machines=["m02"])
    first = answer(server, names, "twice")
    assert first["ok"]
    client.uncordon(machines=["m02"])
    put(server, names.operator_queries, "twice", "cordon", machines=["m02"])
    assert answer(server, names, "twice") == first
    assert not server.hexists(names.operator, "m02")
    assert 0 < server.ttl(names.acted("cordon", "twice")) <= 121


def test_a_dead_scorers_queries_go_back_where_they_came_from(client, server, module_names):
    """One of operators is done; what came on the ordinary list does not get an operator's rights that way."""
    names = module_names
    server.zadd(names.scorers, {"dead": time.time() - 60})
    put(server, names.of_scorers.taken_of_operators("dead"), "op", "cordon", machines=["m05"])
    put(server, names.of_scorers.taken("dead"), "forged", "uncordon", machines=["m05"])
    assert answer(server, names, "op")["ok"]
    assert answer(server, names, "forged")["error"]["code"] == "PERMISSION_DENIED"
    assert server.hget(names.operator, "m05") == b'{"cordon":true}'
    eventually(lambda: not server.exists(names.of_scorers.taken_of_operators("dead"), names.of_scorers.taken("dead")))


def test_a_drain_plans_and_reserves(client, server, module_names):
    """What-if first: nothing changes. Then the machine takes no more, and each instance moves and is confirmed."""
    names = [f"leaves-{number}" for number in range(5)]
    for name in names:
        client.place(id=name, cpu=1, memory="1G", machine="m06").confirm()
    planned = client.drain(machines=["m06"])
    assert ({one.id for one in planned.moves}, planned.cordoned, planned.blocked) == ({*names}, False, [])
    assert not server.hexists(module_names.operator, "m06")
    assert [one for one in client.instances(machine="m06").instances if one.moving] == []
    put(server, module_names.operator_queries, "drain", "drain", machines=["m06"], apply=True)
    first = answer(server, module_names, "drain")
    rules = json.loads(server.hget(module_names.operator, "m06") or b"{}")
    assert rules == {"cordon": True, "drain": {"ttl_s": 3600.0}}
    moves = first["result"]["moves"]
    announced = [read_proposal(raw) for raw in server.lrange(module_names.moves_waiting, 0, -1)]
    assert {(one.instance, one.target) for one in announced if one} == {(one["id"], one["target"]) for one in moves}
    server.delete(module_names.moves_waiting)
    for one in moves:
        there = client.confirm(one["id"], machine=one["target"], generation=one["generation"], move=one["move"])
        assert there.machine == one["target"] != "m06"
    assert client.instances(machine="m06").total == 0
    put(server, module_names.operator_queries, "drain", "drain", machines=["m06"], apply=True)
    assert answer(server, module_names, "drain") == first
    assert client.drain(machines=["m06"], apply=True).moves == []
    for name in names:
        client.release(name)


def test_a_drain_past_its_deadline_changes_nothing(client, server, module_names):
    """The machine is neither cordoned nor is an instance moved."""
    client.place(id="late", cpu=1, machine="m07").confirm()
    query = {"v": 1, "id": "late", "method": "drain", "deadline": time.time() - 1, "params": {"machines": ["m07"]}}
    server.lpush(module_names.operator_queries, json.dumps(query))
    assert answer(server, module_names, "late")["error"]["code"] == "DEADLINE_EXCEEDED"
    assert not server.hexists(module_names.operator, "m07")
    assert client.release("late").state == "released"


def test_without_a_planner_a_scorer_says_so_at_once(valkey, names, server, wire):
    """What it answers itself it answers; the query with the rights of a deployer is refused by a planner, too."""
    publish(wire, names, [window_table(MACHINES, at=time.time() + FRESH_S)])
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=30) as client:
        eventually(lambda: client.health()["ready"])
        asked = [
            ("drain", {"machines": ["m01"], "apply": True}), ("plan", {"instances": []}), ("rebalance", {}),
            ("capacity", {"cpu": 1}),
        ]  # fmt: skip
        for method, params in asked:
            started = time.monotonic()
            with pytest.raises(WindwardError, match=r"UNAVAILABLE: no planner runs \(windward planner\)"):
                client.call(method, params)
            assert time.monotonic() - started < 5
        assert client.cordon(machines=["m01"])["rules"] == {"m01": {"cordon": True}}
        assert server.llen(names.planner_queries) == server.llen(names.planner_operator_queries) == 0
        with planner_process(valkey.url, names, "--every", "0"):
            eventually(lambda: planned(client))
            assert client.capacity(cpu=1).fit > 0
            put(server, names.planner_queries, "forged", "drain", machines=["m02"], apply=True)
            assert answer(server, names, "forged")["error"]["code"] == "PERMISSION_DENIED"
            put(server, names.of_planners.taken("dead"), "left", "capacity", cpu=1)
            server.zadd(names.planners, {"dead": time.time() - 60})
            assert answer(server, names, "left")["ok"], "what a dead planner had taken is answered"
        with pytest.raises(WindwardError, match="no planner runs"):
            eventually(lambda: client.capacity(cpu=1) and None)


def test_a_command_asks_the_scorer_and_does_without(client, server, valkey, module_names):
    """The same words and the same entries; an unknown name gets a hint either way."""
    absent = Names(f"{module_names.prefix}-absent")
    publish(valkey.url, absent, [window_table(MACHINES, at=time.time())])
    eventually(lambda: server.hlen(module_names.processes("scorer")))
    for names, acts in ((module_names, 2), (absent, 0)):
        before = len(server.keys(names.acted("*", "*")))
        common = ("--redis-url", valkey.url, "--prefix", names.prefix)
        done = run_command("machines", "cordon", "m0[12]", *common, environ={})
        assert (done.stdout, done.returncode) == ("m01: cordoned\nm02: cordoned\n", 0), done.stderr
        assert server.hgetall(names.operator) == dict.fromkeys((b"m01", b"m02"), b'{"cordon":true}')
        done = run_command("machines", "uncordon", "m0[12]", *common, environ={})
        assert done.stdout.splitlines()[0] == "m01: takes instances again; no operators' rules"
        assert server.hgetall(names.operator) == {}
        assert len(server.keys(names.acted("*", "*"))) - before == acts, "the scorer has done it, or none has"
        wrong = run_command("machines", "cordon", "m0l", *common, environ={})
        assert "`windward machines list -o name` has the names" in wrong.stderr


@pytest.fixture
def instances(client):
    """Six instances on two machines; one of them stays."""
    names = [f"there-{number}" for number in range(6)]
    for number, name in enumerate(names):
        labels = {"movable": "false"} if number == 5 else {}
        cpu, machine = 0.1 + number / 10, f"m0{6 + number % 2}"
        client.place(id=name, cpu=cpu, memory="1G", machine=machine, labels=labels).confirm()
    yield names
    for name in names:
        client.release(name)


UNEVEN = "rebalance", "--rule", "thresholds", "--deviation", "--high", "cpu=0", "--low", "cpu=0", "--rest-s", "0"
PLANNED = [
    ("drain", "m06"), ("drain", "m0[67]", "--json"), ("drain", "--selector", "machine=m07", "--force"),
    ("drain", "--consolidate", "2", "--json"), ("drain", "--consolidate", "3"),
    ("drain", "m06", "--profile", "kubernetes"),
    (*UNEVEN, "--json"),
    (*UNEVEN, "--same", "rack"),
    ("drain", "m06", "--profile", "MINE"), ("plan", "FILE"),
    ("plan", "FILE", "--prune", "--json"), ("plan", "FILE", "--prune", "--all-or-nothing"),
]  # fmt: skip


@pytest.mark.parametrize("words", PLANNED, ids=" ".join)
def test_a_command_prints_what_the_planner_plans(
    client, instances, valkey, module_names, server, words, tmp_path, monkeypatch
):
    """It reads no fleet; a profile's file goes with the query."""
    eventually(lambda: server.hlen(module_names.processes("scorer")))
    file = tmp_path / "wanted.jsonl"
    file.write_text('{"id": "there-0", "cpu": 2, "memory": "1G"}\n{"id": "new", "cpu": 1, "count": 2, "memory": "2G"}')
    mine = tmp_path / "mine.toml"
    mine.write_text('[[filters]]\nuse = "fits"\n')
    words = tuple({"FILE": str(file), "MINE": str(mine)}.get(word, word) for word in words)
    command = (*words, "--redis-url", valkey.url, "--prefix", module_names.prefix, "--timeout", "60")
    monkeypatch.setattr(LiveFleet, "open", classmethod(lambda *_: pytest.fail("the command reads the fleet")))
    done = run_command(*command, environ={})
    assert any(name in done.stdout for name in instances), done.stderr
    assert ("profile mine" in done.stdout) == (str(mine) in words)


# ---- the script alone


def changed(rules, query_id, deadline, **facts):
    query = Query(id=query_id, method="cordon", deadline=deadline)

    def said(after):
        return msgspec.json.encode(after)

    return rules.change(query, ["m1"], facts, said)


def test_a_frozen_scorer_writes_nothing(wire, server, names):
    """It wakes after the deadline: neither on what is there, nor on nothing, nor is the version raised."""
    rules = OperatorRules(wire, names)
    for stored in ({}, {"m1": '{"labels":{"a":"b"}}'}):
        if stored:
            server.hset(names.operator, "m1", stored["m1"])
        with pytest.raises(CallError, match="nothing was changed"):
            changed(rules, "late", time.time() - 0.01, cordon=True)
        assert server.hgetall(names.operator) == {k.encode(): v.encode() for k, v in stored.items()}
    assert not server.exists(names.operator_version, names.acted("cordon", "late"))


class Crossed(OperatorRules):
    """Another writes the same entry after each of the first reads."""

    left, server, names = 0, None, Names()

    def read(self, machines):
        found = super().read(machines)
        if self.left:
            self.left -= 1
            self.server.hset(self.names.operator, "m1", f'{{"labels":{{"left":"{self.left}"}}}}')
        return found


def test_what_another_wrote_meanwhile_stays(wire, server, names):
    """The entry is read again; after too many tries it is left, and said so."""
    rules = Crossed(wire, names)
    rules.server, rules.names, rules.left = server, names, 3
    changed(rules, "crossed", time.time() + 60, cordon=True)
    assert msgspec.json.decode(server.hget(names.operator, "m1") or b"") == {"labels": {"left": "0"}, "cordon": True}
    rules.left = TRIES
    with pytest.raises(CallError, match="changed by others"):
        changed(rules, "again", time.time() + 60, cordon=False)
    assert not server.exists(names.acted("cordon", "again"))
