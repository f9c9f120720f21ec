"""What is delivered again, late, or by two workers never acts on another reservation than it was meant for."""

import json
import threading
import time
import uuid
from collections.abc import Callable
from types import SimpleNamespace

import msgspec
import pytest

from schemas.rpc.envelope import DEADLINE_S
from schemas.rpc.request import read_request
from scorer.ledger.record.instance import request_digest
from scorer.ledger.record.transition import NO_QUERY, Call, Candidate, Wanted
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.metrics import Metrics
from scorer.rpc.loop import Rpc
from scorer.settings import ScorerSettings
from scorer.wire import ServerClock, Wire
from tests.integration.scorer.test_rpc import scorer_process
from tests.support.pages import eventually
from tests.window_tables import publish, window_table


@pytest.fixture(scope="module")
def running(valkey, module_names):
    publish(valkey.url, module_names, [window_table(["m0", "m1", "m2"], at=time.time() + 120)])
    with scorer_process(valkey.url, module_names) as process:
        yield process


class Caller:
    """Puts queries on the list as they are, any number of times, and reads their answers."""

    def __init__(self, server, names):
        self.server, self.names = server, names

    def query(self, method, *, deadline=None, query_id="", **params):
        """Return a query; its deadline is 60 s ahead unless given."""
        deadline = time.time() + 60 if deadline is None else deadline
        query_id = query_id or uuid.uuid4().hex
        return json.dumps({"v": 1, "id": query_id, "method": method, "deadline": deadline, "params": params}).encode()

    def send(self, query):
        self.server.lpush(self.names.queries, query)
        reply = self.server.blpop([self.names.reply(json.loads(query)["id"])], timeout=60)
        return dict(json.loads(reply[1]))

    def ask(self, method, **params):
        answer = self.send(self.query(method, **params))
        assert answer["ok"], answer
        return dict(answer["result"])

    def refused(self, query):
        """Deliver a query; return the code of its error."""
        answer = self.send(query)
        assert not answer["ok"], answer
        assert "result" not in answer
        return str(answer["error"]["code"])


@pytest.fixture
def caller(server, module_names, running):
    return Caller(server, module_names)


def new_id():
    return f"db-{uuid.uuid4().hex[:10]}"


def live(caller, instance_id):
    (one,) = caller.ask("instances", id=instance_id)["instances"]
    return one["state"], one["generation"]


def test_a_release_delivered_again_leaves_the_name_placed_anew(caller):
    """The second delivery tells what the first did, and ends nothing."""
    name = new_id()
    first = caller.ask("place", id=name, cpu=1)
    release = caller.query("release", id=name)
    assert caller.send(release)["result"]["repeated"] is False
    second = caller.ask("place", id=name, cpu=1)
    again = caller.send(release)["result"]
    assert (again["state"], again["generation"], again["repeated"]) == ("released", first["generation"], True)
    assert live(caller, name) == ("reserved", second["generation"])
    caller.ask("release", id=name)
    caller.ask("place", id=name, cpu=1)
    assert caller.refused(release) == "ABORTED"  # the record of that release is gone
    assert live(caller, name)[0] == "reserved"


def test_a_late_duplicate_of_a_place_reserves_nothing_after_confirm_and_release(caller):
    """A query that placed once never does again: ABORTED, however often it comes."""
    name = new_id()
    place = caller.query("place", id=name, cpu=1)
    first = caller.send(place)["result"]
    assert caller.send(place)["result"]["generation"] == first["generation"]
    caller.ask("confirm", id=name)
    assert caller.send(place)["result"]["state"] == "confirmed"
    caller.ask("release", id=name)
    for _ in range(2):
        assert caller.refused(place) == "ABORTED"
    assert live(caller, name) == ("released", first["generation"])
    second = caller.ask("place", id=name, cpu=1)
    assert caller.refused(place) == "ABORTED"
    caller.ask("confirm", id=name)
    assert caller.refused(place) == "ABORTED"
    assert live(caller, name) == ("confirmed", second["generation"])


def test_a_worker_whose_reservation_ran_out_cannot_confirm_anothers(caller):
    """A's expires, B places under the same name, A confirms by its generation: refused; B's stays and is confirmed."""
    name = new_id()
    of_a = caller.ask("place", id=name, cpu=1, ttl_s=0.2)
    eventually(lambda: live(caller, name)[0] == "expired")
    of_b = caller.ask("place", id=name, cpu=1)
    for method, more in (("confirm", {}), ("release", {}), ("update", {"cpu": 2})):
        query = caller.query(method, id=name, generation=of_a["generation"], **more)
        assert caller.refused(query) == "FAILED_PRECONDITION", method
    assert live(caller, name) == ("reserved", of_b["generation"])
    assert caller.ask("confirm", id=name, generation=of_b["generation"])["generation"] == of_b["generation"]
    assert caller.ask("update", id=name, cpu=2, generation=of_b["generation"])["generation"] == of_b["generation"]


def test_a_batch_of_which_half_has_ended(caller):
    """The same query names only what is held; a new one holds the live ones and places the ended ones anew."""
    name = new_id()
    place = caller.query("place", id=name, cpu=0.1, count=4)
    first = {one["id"]: one["generation"] for one in caller.send(place)["result"]["placed"]}
    for number in (2, 4):
        caller.ask("release", id=f"{name}-{number}")
    again = caller.send(place)["result"]
    assert {one["id"]: one["generation"] for one in again["placed"]} == {
        f"{name}-{number}": first[f"{name}-{number}"] for number in (1, 3)
    }
    assert (again["missing"], again["missing_ids"]) == (2, [f"{name}-2", f"{name}-4"])
    assert "ended" in again["reason"]
    fresh = {one["id"]: one["generation"] for one in caller.ask("place", id=name, cpu=0.1, count=4)["placed"]}
    assert [fresh[one] == first[one] for one in first] == [True, False, True, False]
    for one in first:
        caller.ask("release", id=one)
    assert caller.refused(place) == "ABORTED"
    whole = caller.query("place", id=name, cpu=0.1, count=2, all_or_nothing=True)
    caller.send(whole)
    caller.ask("release", id=f"{name}-1")
    assert caller.refused(whole) == "ABORTED"
    assert live(caller, f"{name}-1")[0] == "released"


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"count": 3, "cpu": 0.01}, id="a count"),
        pytest.param({"instances": [{"cpu": 0.01}, {"cpu": 0.02}, {"memory": "1M"}]}, id="unlike instances"),
    ],
)
def test_a_batch_without_ids_has_those_of_its_query(caller, asked):
    """Delivered again it reserves none anew, neither what is held nor what has ended; another query has other ids."""
    query = caller.query("place", **asked)
    name = json.loads(query)["id"]
    first = caller.send(query)["result"]
    assert [one["id"] for one in first["placed"]] == [f"{name}-{n}" for n in (1, 2, 3)]
    again = caller.send(query)["result"]
    assert (again["placed"], again["repeated"], again["missing"]) == (first["placed"], 3, 0)
    caller.ask("release", id=f"{name}-2")
    half = caller.send(query)["result"]
    assert [one["id"] for one in half["placed"]] == [f"{name}-1", f"{name}-3"]
    assert (half["placed"], half["missing"], half["missing_ids"]) == (
        [first["placed"][0], first["placed"][2]], 1, [f"{name}-2"],
    )  # fmt: skip
    other = caller.ask("place", **asked)
    assert not {one["id"] for one in other["placed"]} & {one["id"] for one in first["placed"]}
    for one in (1, 3):
        caller.ask("release", id=f"{name}-{one}")
    assert caller.refused(query) == "ABORTED"


def test_an_update_delivered_again_is_not_done_again(caller):
    """Others changed the instance since: the second delivery leaves that as it is."""
    name = new_id()
    caller.ask("place", id=name, cpu=1)
    caller.ask("confirm", id=name)
    same, grow = caller.query("update", id=name, cpu=1), caller.query("update", id=name, cpu=2)
    assert caller.send(same)["result"]["repeated"] is True
    assert caller.send(grow)["result"]["amounts"][0] == 2.0
    for query in (same, grow):
        caller.ask("update", id=name, cpu=3)
        again = caller.send(query)["result"]
        assert (again["repeated"], again["amounts"][0]) == (True, 3.0)


def test_the_lifetime_is_no_other_request(caller):
    """Asked again with another lifetime the same reservation is answered, its end unchanged; more cores are another."""
    name = new_id()
    first = caller.ask("place", id=name, cpu=1, ttl_s=50)
    again = caller.ask("place", id=name, cpu=1, ttl_s=500, top=9)
    assert (again["expires_at"], again["repeated"]) == (first["expires_at"], 1)
    assert caller.refused(caller.query("place", id=name, cpu=2)) == "ALREADY_EXISTS"


def test_without_a_deadline_a_query_is_good_for_a_minute(caller, server):
    """It is answered, and remembered as one with a deadline is; given back long after it was taken it does nothing."""
    name = new_id()
    place = caller.query("place", id=name, cpu=1, deadline=0)
    query_id = json.loads(place)["id"]
    assert caller.send(place)["ok"]
    assert 0 < server.ttl(caller.names.first_taken(query_id)) <= 2 * DEADLINE_S
    key = caller.names.ledger("queries") + f":{query_id}"
    assert DEADLINE_S < server.ttl(key) <= 2 * DEADLINE_S
    caller.ask("release", id=name)
    assert caller.refused(place) == "ABORTED"
    old = caller.query("place", id=name, cpu=1, deadline=0)
    server.set(caller.names.first_taken(json.loads(old)["id"]), repr(time.time() - DEADLINE_S - 1))
    server.lpush(caller.names.queries, old)
    caller.ask("health")
    assert live(caller, name)[0] == "released"


def test_a_deadline_far_ahead_is_an_hour(caller, server):
    place = caller.query("place", id=new_id(), cpu=1, deadline=time.time() + 365 * 86400)
    assert caller.send(place)["ok"]
    assert server.ttl(caller.names.ledger("queries") + f":{json.loads(place)['id']}") <= 3600 + 61


class Releases:
    """The service of a scorer that only releases; it may stand still before it acts."""

    METHODS = ("release",)

    def __init__(self, ledger, before):
        self._ledger, self._before = ledger, before
        self.stop = threading.Event()

    def steps(self, query):
        self._before()
        call = Call(query.id, query.deadline)
        self._ledger.release(json.loads(bytes(query.params))["id"], call=call)
        self.stop.set()
        return b"{}"
        yield

    def reads(self):
        return []

    writes = reads

    def known(self, _=None):
        return False

    accept = taken = prepare = lost = between = known


class Freezing(Wire):
    """A connection after whose first taking the scorer stands still."""

    taken: Callable[[], None] | None = None

    def ask(self, commands, *more):
        answers = super().ask(commands, *more)
        if commands[0][0] == "BLMOVE" and answers[0] and self.taken:
            self.taken, call = None, self.taken
            call()
        return answers


@pytest.mark.parametrize("where", ["before it reads the query", "before it acts"])
def test_a_frozen_scorer_does_not_act_a_second_time(where, valkey, server, wire, names):
    """It took a query without a deadline; another answered it, and the name was placed anew before it woke."""
    now, clock_key = SimpleNamespace(s=time.time()), names.key("clock")
    ledger = Ledger(wire, names, time_source=f"{{redis.call('GET', '{clock_key}'), '0'}}")
    server.set(clock_key, int(now.s))
    request = read_request({"id": "a", "cpu": 1})
    ledger.reserve([wanted("a", request, NO_QUERY)])
    query = {"v": 1, "id": "q", "method": "release", "params": {"id": "a"}}
    server.lpush(names.queries, json.dumps(query))
    nothing, metrics = (lambda: None), Metrics()

    def scorer(name, on, before):
        service = Releases(ledger, before)
        clock = ServerClock(lambda: now.s, lambda: now.s)
        return Rpc(on, service, metrics, ScorerSettings(name=name, prefix=names.prefix), clock), service

    def meanwhile():
        """Another scorer gets the query back and answers; two minutes later the server remembers nothing of it."""
        server.lmove(names.of_scorers.taken("frozen"), names.queries)
        other, service = scorer("other", Wire({"url": valkey.url}), nothing)
        other.run(service.stop)
        assert ledger.all_instances() == {}
        ledger.reserve([wanted("a", request, NO_QUERY)._replace(ttl_s=3600.0)])
        now.s += 126
        server.set(clock_key, int(now.s))
        for key in (names.ledger("queries") + ":q", names.first_taken("q")):
            assert 0 < server.ttl(key) < 126
            server.delete(key)
        frozen_service.stop.set()

    frozen_wire = Freezing({"url": valkey.url})
    reading = where == "before it reads the query"
    frozen, frozen_service = scorer("frozen", frozen_wire, nothing if reading else meanwhile)
    frozen_wire.taken = meanwhile if reading else None
    frozen.run(frozen_service.stop)
    assert [one.state for one in ledger.all_instances().values()] == ["reserved"]


# ---- the scripts alone


def wanted(instance_id, request, call):
    """Return an instance that may go to one machine."""
    record = msgspec.structs.replace(instance_of(request, "", 0.0, instance_id), request=request_digest(request))
    return Wanted(record, request.ttl_s, [Candidate("m0", -1)], call)


def test_past_its_deadline_by_the_servers_clock_a_step_does_nothing(ledger):
    """A scorer that was frozen wakes with a query in its hand: each step says that it is late, and writes nothing."""
    late, good = Call("q1", time.time() - 0.01), Call("q2", time.time() + 60)
    request = read_request({"cpu": 1})
    assert ledger.reserve([wanted("a", request, late)]).outcomes[0].kind == "late"
    assert ledger.reserve([wanted("a", request, good)]).outcomes[0].kind == "placed"
    assert ledger.confirm("a", call=late).outcomes[0].kind == "late"
    assert ledger.release("a", call=late).outcomes[0].kind == "late"
    found = ledger.find("a")
    assert (found.state, found.version) == ("reserved", 1)


def test_a_query_given_back_by_a_dead_scorer_acts_on_what_it_acted_on(caller, server):
    """It released, died before it took the query off its list, and the name was placed anew: that one stays."""
    name = new_id()
    caller.ask("place", id=name, cpu=1)
    release = caller.query("release", id=name)
    caller.send(release)
    second = caller.ask("place", id=name, cpu=1)
    dead = new_id()
    server.lpush(caller.names.of_scorers.taken(dead), release)
    server.zadd(caller.names.scorers, {dead: time.time() - 100})
    reply = server.blpop([caller.names.reply(json.loads(release)["id"])], timeout=20)
    assert json.loads(reply[1])["result"]["repeated"] is True
    assert live(caller, name) == ("reserved", second["generation"])
