"""This release beside the one before: taking over its ledger, its clients, and the way back."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.ledger import runner
from scorer.ledger.follower import Follower
from scorer.ledger.instance import Instance, machines_of
from scorer.ledger.limits import Limit, total
from scorer.ledger.reader import UnknownFormat
from scorer.ledger.scripts import Ledger
from scorer.ledger.transition import Candidate, Wanted
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.integration.test_ledger import amounts_of, sums_in
from tests.integration.test_rpc import eventually, scorer_process
from tests.previous_release import previous_release
from tests.window_tables import publish, window_table

pytestmark = pytest.mark.integration

FILL = """
import json, math, sys
from schemas.names import Names
from scorer.instance import Instance
from scorer.ledger import Candidate, Ledger, Wanted
from scorer.wire import Wire
url, prefix, first, last = json.loads(sys.stdin.read())
ledger = Ledger(Wire({"url": url}), Names(prefix))
def instance(n):
    return Instance(
        id=f"old-{n}", machine=f"m{n % 7}", state="reserved", amounts=(0.1, 1e9 + n, 0.0), maxmemory=5e8,
        ports=(7000 + n,), cluster=f"c{n % 3}", role="master" if n % 2 else "replica", cluster_masters=9,
        limits=(2.0, -1.0, -1.0), expected=(0.05, -1.0, -1.0), labels={"n": str(n)}, request="d",
        priority_class="batch" if n % 5 == 0 else "prod",
    )
for start in range(first, last, 100):
    part = range(start, min(start + 100, last))
    ledger.reserve([Wanted(instance(n), 3600.0, [Candidate(f"m{n % 7}", -1, (math.nan,) * 3)]) for n in part])
for n in range(first, last, 4):
    ledger.confirm(f"old-{n}")
for n in range(first + 1, last, 8):
    ledger.release(f"old-{n}")
"""
STORM = """
import json, sys, time
from schemas.names import Names
from scorer.instance import Instance
from scorer.ledger import Candidate, Ledger, Wanted
from scorer.wire import Wire
import math
url, prefix, stop = json.loads(sys.stdin.read())
wire = Wire({"url": url})
ledger, done, refused = Ledger(wire, Names(prefix)), [], ""
for n in range(100_000):
    one = Instance(id=f"storm-{n}", machine="", state="reserved", amounts=(0.1, 1e6, 0.0), request="d")
    try:
        ledger.reserve([Wanted(one, 3600.0, [Candidate(f"m{n % 7}", -1, (math.nan,) * 3)])])
    except Exception as error:
        refused = refused or str(error)
        if wire.one("EXISTS", stop):
            break
        time.sleep(0.002)
    else:
        done.append(one.id)
print(json.dumps([done, refused]))
"""


def fill(valkey: Valkey, names: Names, first: int, last: int) -> None:
    """Let the previous release reserve, confirm and release instances."""
    previous_release().python(FILL, json.dumps([valkey.url, names.prefix, first, last]))


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


def test_a_ledger_of_the_previous_release_is_taken_over(wire: Wire, names: Names, valkey: Valkey) -> None:
    """Every record, sum, count, port and expiry of the previous release is there, and steps go on where they were."""
    fill(valkey, names, 0, 900)
    before = int(wire.one("HGET", names.ledger("head"), "change"))
    follower = Follower(Ledger(wire, names))
    follower.poll()
    assert follower.change == before
    live = check_sums(wire, Ledger(wire, names))
    assert live == follower.view.instances
    assert len(live) == 900 - 113
    three = live["old-3"]
    assert (three.amounts[:2], three.limits[:2], three.expected[:2]) == ((0.1, 1e9 + 3), (2.0, -1.0), (0.05, -1.0))
    assert all(amount is None for amount in three.amounts[3:])
    assert (three.role, three.maxmemory, three.state, live["old-4"].state) == ("master", 5e8, "reserved", "confirmed")
    ledger = Ledger(wire, names)
    ended = ledger.find("old-1")
    assert ended is not None
    assert ended.state == "released"
    assert ledger.release("old-1").outcomes[0].kind == "repeat"
    assert ledger.confirm("old-3").outcomes[0].kind == "done"
    taken = Instance(id="new", machine="", state="reserved", amounts=amounts_of(1.0), ports=(7003,), request="n")
    port = [Limit(("count", "port 7003"), 1, "port 7003 taken")]
    outcome = ledger.reserve([Wanted(taken, 60.0, [Candidate("m3", -1, port), Candidate("m4", -1, port)])]).outcomes[0]
    assert (outcome.kind, outcome.position, outcome.reasons) == ("placed", 1, ("port 7003 taken",))
    for one in ledger.all_instances():
        ledger.release(one)
    assert [wire.one("EXISTS", key) for key in ledger._keys[1:6]] == [0] * 5


def test_several_take_over_while_the_previous_release_writes(wire: Wire, names: Names, valkey: Valkey) -> None:
    """What the previous release reserved meanwhile is there, the rest it was refused, and the sums are right."""
    fill(valkey, names, 0, 700)
    told: list[str] = []
    stop_key = names.key("stop")
    storm = threading.Thread(
        target=lambda: told.append(previous_release().python(STORM, json.dumps([valkey.url, names.prefix, stop_key])))
    )
    storm.start()
    eventually(lambda: wire.one("HEXISTS", names.ledger("instances"), "storm-20"))
    takers = [threading.Thread(target=take_over, args=(valkey, names)) for _ in range(3)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    wire.one("SET", stop_key, "1")
    storm.join()
    done, refused = json.loads(told[0])
    assert "wrong kind of value" in refused
    live = check_sums(wire, Ledger(wire, names))
    assert {name for name in live if name.startswith("storm-")} == set(done)
    assert len(live) == 700 - 88 + len(done)


def take_over(valkey: Valkey, names: Names) -> None:
    """Start a scorer's copy of the ledger."""
    own = Wire({"url": valkey.url})
    Follower(Ledger(own, names)).poll()
    own.close()


def test_another_scorer_goes_on_with_a_take_over(
    wire: Wire, names: Names, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scorer dies between two slices: nothing is written until another has taken over the rest."""
    fill(valkey, names, 0, 500)
    ledger, slices = Ledger(wire, names), 0
    run = ledger._run

    def dying(script: str, dry_run: bool, *arguments: Any, **options: Any) -> list[Any]:
        nonlocal slices
        slices += "slice" in arguments
        if slices > 2:
            raise ConnectionError("killed")
        return run(script, dry_run, *arguments, **options)

    monkeypatch.setattr(runner, "SLICE", 50)
    monkeypatch.setattr(ledger, "_run", dying)
    with pytest.raises(ConnectionError):
        ledger.open()
    assert wire.one("HGET", ledger.head, "migrating") == b"100"
    with pytest.raises(redis.ResponseError, match="LEDGERMIGRATING"):
        wire.one("EVAL", ledger._scripts["expire"], len(ledger._keys), *ledger._keys, 0, 100, 100, 10)
    assert Ledger(wire, names).confirm("old-3").outcomes[0].kind == "done"  # by a scorer that met it
    assert wire.one("HEXISTS", ledger.head, "migrating") == 0
    assert len(check_sums(wire, Ledger(wire, names))) == 500 - 63


def test_the_previous_release_refuses_this_ledger(wire: Wire, names: Names, valkey: Valkey, tmp_path: Path) -> None:
    """Rolled back, it says that it cannot read the ledger and writes nothing; gone forward again all is as it was."""
    publish(wire, names, [window_table(["m0", "m1"], at=time.time() + 30)])
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=30) as client:
        client.place(id="kept", cpu=1)
        client.confirm("kept")
    before = {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")}
    with (
        (tmp_path / "log").open("wb") as log,
        previous_release().scorer(valkey.url, names, log=log),
        Client(valkey.url, names.prefix, timeout_s=4) as client,
    ):
        for call in (lambda: client.place(id="lost", cpu=1), lambda: client.release("kept")):
            with pytest.raises(WindwardError) as refused:
                call()
            assert refused.value.code == "DEADLINE_EXCEEDED"
    said = (tmp_path / "log").read_text()
    assert "wrong kind of value" in said
    assert "ledger" in said
    assert {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")} == before
    assert b"docs/upgrading.md" in wire.one("GET", names.ledger("head"))
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=30) as client:
        (kept,) = client.instances()["instances"]
        assert (kept["id"], kept["state"], kept["cpu"]) == ("kept", "confirmed", 1.0)


def test_queries_are_answered_while_scorers_of_both_releases_run(wire: Wire, names: Names, valkey: Valkey) -> None:
    """An old scorer serves, a new one joins it: every placement asked for is answered, and is in the ledger once."""
    publish(wire, names, [window_table([f"m{n}" for n in range(6)], at=time.time() + 60)])
    with (
        previous_release().scorer(valkey.url, names, "--name", "old"),
        Client(valkey.url, names.prefix, timeout_s=60) as client,
    ):
        first = {f"a{n}": client.place(id=f"a{n}", cpu=0.1)["machine"] for n in range(10)}
        with scorer_process(valkey.url, names, "--name", "new"):
            second = {}
            for n in range(30):
                try:
                    second[f"b{n}"] = client.place(id=f"b{n}", cpu=0.1)["machine"]
                except WindwardError as error:  # the old one was between its read and its script
                    assert "wrong kind of value" in error.message
                    second[f"b{n}"] = client.place(id=f"b{n}", cpu=0.1)["machine"]
            eventually(lambda: wire.one("HGET", names.ledger("current"), "format"))
            second["last"] = client.place(id="last", cpu=0.1)["machine"]
            live = check_sums(wire, Ledger(wire, names))
    assert {name: one.machine for name, one in live.items()} == first | second


def test_clients_of_both_releases_speak_with_scorers_of_both(wire: Wire, names: Names, valkey: Valkey) -> None:
    """Each method asked by the client of one release is answered by a scorer of the other."""
    publish(wire, names, [window_table(["m0", "m1"], at=time.time() + 60)])
    other = Names(f"{names.prefix}-other")
    publish(wire, other, [window_table(["m0", "m1"], at=time.time() + 60)])
    old = previous_release()
    steps: list[tuple[str, dict[str, Any]]] = [
        ("place", {"id": "a", "cpu": 1, "memory": "1G", "ports": [6379]}), ("confirm", {"id": "a"}),
        ("update", {"id": "a", "cpu": 2}), ("rank", {"cpu": 1}), ("machines", {}), ("instances", {}),
        ("health", {}), ("release", {"id": "a"}),
    ]  # fmt: skip
    with scorer_process(valkey.url, names), old.scorer(valkey.url, other):
        asked_by_old = [old.call(valkey.url, names, method, **params) for method, params in steps]
        with Client(valkey.url, other.prefix, timeout_s=20) as client:
            asked_by_new = [getattr(client, method)(**params) for method, params in steps]
    for answers in (asked_by_old, asked_by_new):
        placed, confirmed, updated, ranked, machines, instances, health, released = answers
        assert placed["machine"] == confirmed["machine"] == updated["machine"]
        assert (confirmed["state"], updated["amounts"][:2], released["state"]) == ("confirmed", [2.0, 1e9], "released")
        assert ranked["machine"] in ("m0", "m1")
        assert machines["total"] == 2
        assert instances["instances"][0]["cpu"] == 2.0
        assert health["ready"]
    for one, another in zip(asked_by_new, asked_by_old, strict=True):
        assert set(one) <= set(another)  # additions only


def test_a_newer_ledger_is_refused_in_words(wire: Wire, names: Names, valkey: Valkey, tmp_path: Path) -> None:
    """A scorer says which format is there and which it knows, writes nothing, and serves when it may again."""
    publish(wire, names, [window_table(["m0"], at=time.time() + 60)])
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=30) as client:
        client.place(id="a", cpu=1)
        key = names.ledger("current")
        wire.one("HSET", key, "format", 3)
        before = {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")}
        for call in (lambda: client.place(id="b", cpu=1), lambda: client.confirm("a"), lambda: client.rank(cpu=1)):
            with pytest.raises(WindwardError) as refused:
                call()
            assert refused.value.code == "UNAVAILABLE"
            assert "has format 3, this release knows format 2" in refused.value.message
        health = client.health()
        assert not health["ready"]
        assert "has format 3" in health["ledger_refusal"]
        with pytest.raises(UnknownFormat, match="format 3"):
            Ledger(wire, names).release("a")
        assert {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")} == before
        wire.one("HSET", key, "format", 2)
        assert client.confirm("a")["state"] == "confirmed"
        assert client.health()["ready"]


def test_an_empty_ledger_is_closed_to_the_previous_release_at_once(wire: Wire, names: Names, valkey: Valkey) -> None:
    """Where a scorer of this release started first, the previous one cannot begin a ledger of its own."""
    assert Ledger(wire, names).open() == 0
    with pytest.raises(AssertionError, match="wrong kind of value"):
        fill(valkey, names, 0, 10)
    assert Ledger(wire, names).all_instances() == {}


def test_a_ledger_begun_by_the_previous_release_after_a_loss_is_taken_over(
    wire: Wire, names: Names, valkey: Valkey
) -> None:
    """The server came back empty and an old scorer wrote first: the next step takes its records over."""
    ledger = Ledger(wire, names)
    follower = Follower(ledger)
    follower.poll()
    wire.ask([("DEL", key) for key in wire.one("KEYS", f"{names.ledger()}*")])
    fill(valkey, names, 0, 16)
    full = Instance(id="x", machine="", state="reserved", amounts=amounts_of(0.1), request="q")
    held = sum(one.machine == "m0" for one in ledger.all_instances().values())
    limit = Limit(total("instances"), held, "full")
    transition = ledger.reserve([Wanted(full, 60.0, [Candidate("m0", -1, [limit])])])
    assert transition.outcomes[0].reasons == ("full",)
    follower.absorb(transition)
    assert follower.view.instances == check_sums(wire, ledger)
