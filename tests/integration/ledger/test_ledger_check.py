"""The check of the ledger's sums, their repair, and the lease under which it is done; on a real server."""

import json
import re
import signal
import subprocess
import sys

import pytest
import redis

from scorer.background import checker
from scorer.background.checker import Checker, LastCheck, PacedWire
from scorer.ledger.record.instance import copy_with, machines_of
from scorer.ledger.record.transition import Candidate, Change, Torn
from scorer.ledger.store.check import Check, mend
from scorer.ledger.store.scripts import Lease, Ledger
from scorer.metrics import Metrics
from scorer.settings import ScorerSettings
from tests.integration.ledger.test_ledger import follower_of, simple, storm, sums_in
from tests.support.pages import eventually


@pytest.fixture
def ledger(wire, names):
    """A ledger with instances on seven machines, in two clusters, with ports; one moves from m1 to m2."""
    ledger = Ledger(wire, names)
    filled = []
    for n in range(40):
        one = simple(f"a{n}", f"m{n % 7}")
        cluster = f"c{n % 2}"
        record = copy_with(one.instance, ports=(7000 + n,), cluster=cluster, role="replica", maxmemory=1e6)
        filled.append(one._replace(instance=record, candidates=[one.candidates[0]._replace(limits=())]))
    ledger.reserve(filled)
    for n in range(0, 40, 3):
        ledger.release(f"a{n}")
    (moving,) = ledger.confirm("a1").changes
    ledger.begin_move(moving, [Candidate("m2", -1)], 600.0)
    return ledger


def check_sums(wire, ledger):
    """Assert that rows, counts, clusters and expiry say what the records say; return the records."""
    live = ledger.all_instances()
    model = {}
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


DAMAGE = [
    ("sum too high", lambda led, w: w.one("HSET", led.machines, "m1", change_of(led, w) + b" prod:instances=99,cpu=5")),
    ("sum of another class", lambda led, w: w.one("HSET", led.machines, "m1", row_of(led, w) + b" free:instances=1")),
    ("row gone", lambda led, w: w.one("HDEL", led.machines, "m1")),
    ("row that cannot be read", lambda led, w: w.one("HSET", led.machines, "m1", b"\xfetorn")),
    ("row of a name that is no text", lambda led, w: w.one("HSET", led.machines, b"\xff", b"7 prod:instances=1")),
    ("count of a name that is no text", lambda led, w: w.one("HSET", led.counts, b"\xff port 1", 1)),
    ("cluster of a name that is no text", lambda led, w: w.one("HSET", led.clusters, b"\xff", b"5 1")),
    ("row without a number", lambda led, w: w.one("HSET", led.machines, "m1", change_of(led, w) + b" prod:cpu=5")),
    ("row of nothing", lambda led, w: w.one("HSET", led.machines, "m9", b"3 prod:instances=1,cpu=7")),
    ("count too high", lambda led, w: w.one("HSET", led.counts, "m1 port 7001", 5)),
    ("count that is none", lambda led, w: w.one("HSET", led.counts, "m1 port 7001", b"\xfe")),
    ("count of 5,000 digits", lambda led, w: w.one("HSET", led.counts, "m1 port 7001", b"9" * 5000)),
    ("row of 5,000 digits", lambda led, w: w.one("HSET", led.machines, "m1", b"9" * 5000 + b" prod:instances=1")),
    ("cluster of 5,000 digits", lambda led, w: w.one("HSET", led.clusters, "c1", b"5 " + b"9" * 5000)),
    ("count gone", lambda led, w: w.one("HDEL", led.counts, "m1 port 7001")),
    ("count of nothing", lambda led, w: w.one("HSET", led.counts, "m8 port 1", 1)),
    ("cluster too small", lambda led, w: w.one("HSET", led.clusters, "c1", b"5 1")),
    ("cluster that cannot be read", lambda led, w: w.one("HSET", led.clusters, "c1", b"x 19")),
    ("cluster gone", lambda led, w: w.one("HDEL", led.clusters, "c1")),
    ("cluster of nothing", lambda led, w: w.one("HSET", led.clusters, "c9", b"5 1")),
    ("never expires", lambda led, w: w.one("ZREM", led.expiry, "a2")),
    ("expires later", lambda led, w: w.one("ZADD", led.expiry, 4e9, "a2")),
    ("its move never ends", lambda led, w: w.one("ZREM", led.moving, "a1")),
]  # fmt: skip


def row_of(ledger, wire):
    return bytes(wire.one("HGET", ledger.machines, "m1"))


def change_of(ledger, wire):
    return bytes(wire.one("HGET", ledger.machines, "m1").split(b" ")[0])


@pytest.mark.parametrize("damage", [row[1] for row in DAMAGE], ids=[row[0] for row in DAMAGE])
def test_what_is_wrong_is_found_and_repaired(ledger, wire, damage):
    """One wrong row, count or cluster is one difference; afterwards all is right and every scorer sees the version."""
    follower = follower_of(ledger)
    assert Check(ledger).run().differences == []
    damage(ledger, wire)
    check = Check(ledger)
    found = check.run()
    assert len(found.differences) == 1, [one.what for one in found.differences]
    check.repair(found, Lease(ledger, "check", "here", 60).take())
    assert found.repaired == 1
    again = Check(ledger).run()
    assert (again.differences, again.busy) == ([], 0)
    ends, moves = ledger.ends()
    instances = follower.view.instances
    assert ends == {name: pytest.approx(one.expires_at) for name, one in instances.items() if one.state == "reserved"}
    assert moves == {"a1": pytest.approx(instances["a1"].moving.until)}
    follower.poll()
    assert follower.view.instances == check_sums(wire, ledger)
    assert {m: follower.version(m) for m in ledger.machine_versions()} == ledger.machine_versions()


TOGETHER = [
    ("an instance and its machine", ("sum too high", "its move never ends"), 2),
    ("a machine and its cluster", ("row gone", "cluster gone"), 2),
    (
        "what cannot be read",
        ("row that cannot be read", "count that is none", "cluster that cannot be read", "its move never ends"),
        3,
    ),
    ("all of one", ("sum too high", "count too high", "cluster too small", "its move never ends", "never expires"), 4),
]


@pytest.mark.parametrize(("damages", "wrong"), [row[1:] for row in TOGETHER], ids=[row[0] for row in TOGETHER])
def test_one_run_repairs_what_belongs_together(ledger, wire, damages, wrong):
    """A repair writes an instance again, and what else is wrong of it has changed since it was read."""
    for damage in damages:
        dict(DAMAGE)[damage](ledger, wire)
    found = mend(ledger, Lease(ledger, "check", "here", 60).take())
    assert (len(found.differences), found.repaired) == (wrong, wrong), [one.what for one in found.differences]
    again = Check(ledger).run()
    assert (again.differences, again.busy) == ([], 0)
    follower = follower_of(ledger)
    assert follower.view.instances == check_sums(wire, ledger)


def test_a_run_that_repairs_nothing_ends(ledger, wire, monkeypatch):
    """What others change between each read and its repair is told, and left."""
    wire.one("HSET", ledger.machines, "m1", change_of(ledger, wire) + b" prod:instances=99,cpu=5")
    monkeypatch.setattr(Ledger, "repair", lambda *_: "changed")
    found = mend(ledger, Lease(ledger, "check", "here", 60).take())
    assert (len(found.differences), found.repaired) == (1, 0)


def test_sums_of_a_newer_release_are_left_as_they_are(ledger, wire):
    """A resource that this release does not know makes no difference, and a repair of another sum keeps it."""
    wire.one("HSET", ledger.machines, "m1", row_of(ledger, wire) + b",tape=1500")
    assert Check(ledger).run().differences == []
    wire.one("HSET", ledger.machines, "m1", change_of(ledger, wire) + b" prod:instances=99,cpu=5,tape=1500")
    check = Check(ledger)
    found = check.run()
    check.repair(found, Lease(ledger, "check", "here", 60).take())
    assert found.repaired == 1
    assert b"tape=1500" in row_of(ledger, wire)
    assert Check(ledger).run().differences == []


WORDS = [
    ("row", ("machines", "m1", b"torn"), 'the row of "m1" cannot be read'),
    ("row without a number", ("machines", "m1", b"7 prod:cpu=5"), 'the row of "m1" cannot be read'),
    ("cluster", ("clusters", "c1", b"x 3"), 'the row of "c1" cannot be read'),
    ("count", ("counts", "m1 port 7001", b"nine"), 'the count of "m1 port 7001" cannot be read'),
    ("change", ("head", "change", b"inf"), "the number of the last change cannot be read"),
    ("change of before", ("head", "change", b"1"), "its log is ahead of its last change"),
    ("epoch", ("head", "epoch", b"\xff"), "the epoch cannot be read"),
]


@pytest.mark.parametrize(("where", "words"), [row[1:] for row in WORDS], ids=[row[0] for row in WORDS])
def test_what_a_script_cannot_read_is_told_in_words(ledger, wire, where, words):
    known = ledger.find("a1")
    part, name, raw = where
    wire.one("HSET", getattr(ledger, part), name, raw)
    with pytest.raises(Torn, match=words):
        ledger.release("a1")
    assert ledger.find("a1") == known
    assert [one.name for one in ledger.mend_head()] == [name] * (part == "head")
    if part == "head":
        assert ledger.release("a1").outcomes[0].kind == "done"
        assert (ledger.mend_head(), Check(ledger).run().differences) == ([], [])


@pytest.mark.parametrize("raw", [b"torn", b"inf", b"1.5", b"9" * 400])
def test_a_lease_that_cannot_be_read_is_taken_anew(ledger, wire, raw):
    """Its number is newer than any that was counted; so is a count of leavers."""
    wire.one("HSET", ledger.head, "leavers", raw)
    wire.one("HSET", ledger._leases, "check number", raw, "check until", raw, "check holder", "other")
    number = Lease(ledger, "check", "here", 60).take()
    assert number > 1e9
    assert Lease(ledger, "check", "here", 60).take() == number
    assert ledger.release("a1").outcomes[0].kind == "done"
    assert wire.one("HGET", ledger.head, "leavers") == b"1"
    wire.one("HSET", ledger._leases, "check holder", b"\xff")
    assert Lease(ledger, "check", "another", 60).take() is None


def test_a_head_or_a_log_of_another_type_is_told(ledger, wire):
    for key in (ledger.log, ledger.head):
        wire.one("SET", key, "x")
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            ledger.mend_head()


def with_field(name, value):
    """Return a function that gives a record another value of a field, in whichever of its lines it is."""

    def tear(raw):
        text, key = raw.decode(), f'"{name}":'
        if key not in text:
            return raw.replace(b"\n", f"\n{key}".encode() + value + b",", 1)
        first = text.index(key) + len(key)
        _, end = json.JSONDecoder().raw_decode(text, first)
        return text[:first].encode() + value + text[end:].encode()

    return tear


def moving_as(old, new):
    """Return a function that has a record move, to what its tail says with this change."""

    def tear(raw):
        first, tail = re.sub(rb'"moving":{[^}]*},', b"", raw).split(b"\n", 1)
        end = tail[:-1].replace(old, new)
        return b'%b"moving":{"to":"m2","since":1.0,"until":9e9,"number":9,"new":{\n%b\n}},\n%b' % (first, end, tail)

    return tear


TEARS = [
    ("cut", lambda raw: raw[: len(raw) // 2]),
    ("cut at its line", lambda raw: raw[: raw.index(b"\n")]),
    ("no text", lambda _: b"\xff{"),
    ("empty", lambda _: b""),
    ("no object", lambda _: b"7"),
    ("another object", lambda _: b"{}\n"),
    ("a state that is none", lambda raw: raw.replace(b'ed","machine', b'id","machine')),
    ("on one line", lambda raw: raw.replace(b"\n", b"")),
    ("no amounts", lambda raw: raw.replace(b"amounts", b"amountt")),
    ("amounts are a list", with_field("amounts", b"[1]")),
    ("an amount is a text", with_field("amounts", b'{"cpu":"x"}')),
    ("an amount is below 0", with_field("amounts", b'{"cpu":-1}')),
    ("an amount is too large", with_field("amounts", b'{"cpu":1e300}')),
    ("its id is another's", with_field("id", b'"a4"')),
    ("its id is a list", with_field("id", b"[]")),
    ("a class that is none", with_field("priority_class", b'"gold"')),
    ("a cluster that is none", with_field("cluster", b"null")),
    ("labels that are none", with_field("labels", b'"x"')),
    ("counts that are none", with_field("counts", b"7")),
    ("a count that is none", with_field("counts", b"[{}]")),
    ("a machine that is none", with_field("machine", b"7")),
    ("a machine with a blank", with_field("machine", b'"m1 "')),
    ("a move that is none", with_field("moving", b"7")),
    ("a move to another class", moving_as(b'"prod"', b'"batch"')),
    ("a move to another id", moving_as(b'"id":"a', b'"id":"b')),
    ("a move to a role that is none", moving_as(b'"replica"', b"7")),
    ("a move to a blank", lambda raw: moving_as(b"", b"")(raw).replace(b'"to":"m2"', b'"to":"m 2"')),
    ("no time of its end", lambda raw: raw.replace(b'"expires_at"', b'"expires"')),
    ("a time that is none", with_field("expires_at", b'"soon"')),
    ("an endless time", with_field("expires_at", b"1e400")),
    ("a version that is none", with_field("version", b"1.5")),
    ("a generation that is none", with_field("generation", b"null")),
]  # fmt: skip


@pytest.mark.parametrize("tear", [row[1] for row in TEARS], ids=[row[0] for row in TEARS])
def test_a_torn_record_is_told_in_words_and_mended_from_the_log(ledger, wire, tear):
    """Each step on it names it, others go on; the check names it alone, and the repair writes what the log has."""
    known = follower_of(ledger)
    before, torn = dict(known.view.instances), ("a1", "a2")
    for name in torn:
        wire.one("HSET", ledger.instances, name, tear(wire.one("HGET", ledger.instances, name)))
    wire.one("ZADD", ledger.expiry, 1.0, "a2")
    wire.one("HSET", ledger.head, "due", "")
    for name in torn:
        for step in (
            lambda name=name: ledger.confirm(name),
            lambda name=name: ledger.release(name),
            lambda name=name: ledger.reserve([simple("new", "m1"), simple(name, "m1")]),
            lambda name=name: ledger.update([Change(before[name], before[name], [])]),
        ):
            with pytest.raises(Torn, match=f'the record of "{name}" cannot be read'):
                step()
    assert ledger.find("new") is None
    assert ledger.release("a4").outcomes[0].kind == "done"
    assert ledger.expire().outcomes == []
    found = Check(ledger).run().differences
    assert sorted((one.kind, one.name) for one in found) == [("record", name) for name in torn]
    assert all("the log has it as of change" in one.what for one in found)
    number = Lease(ledger, "check", "here", 60).take()
    assert wire.one("HGET", ledger.head, "far") is None
    assert mend(ledger, number).repaired >= 2
    assert int(wire.one("HGET", ledger.head, "far")) > 0, "what was decided before is decided again"
    again = Check(ledger).run()
    assert (again.differences, again.busy) == ([], 0)
    known.poll()
    del before["a4"]
    now = {name: copy_with(one, version=before[name].version) for name, one in known.view.instances.items()}
    assert now == before
    assert known.view.instances == check_sums(wire, ledger)


def test_a_torn_record_that_the_log_has_no_more_is_left_to_an_inventory(ledger, wire):
    """The repair says so and changes nothing; the inventory writes it anew, and then the sums are repaired."""
    known = ledger.all_instances()["a2"]
    wire.one("HSET", ledger.instances, "a2", b"{")
    wire.one("XTRIM", ledger.log, "MAXLEN", 0)
    number = Lease(ledger, "check", "here", 60).take()
    found = mend(ledger, number)
    assert [(one.kind, one.name, found.repaired) for one in found.differences] == [("record", "a2", 0)]
    assert "import an inventory" in found.differences[0].what
    assert wire.one("HGET", ledger.instances, "a2") == b"{"
    ledger.correct([known])
    mend(ledger, number)
    assert Check(ledger).run().differences == []
    assert check_sums(wire, ledger)["a2"].machine == known.machine


@pytest.mark.parametrize("there", [True, False])
def test_a_record_under_another_id_goes_to_its_own(ledger, wire, there):
    raw = wire.one("HGET", ledger.instances, "a2")
    wire.one("HSET", ledger.instances, "b2", raw)
    if not there:
        wire.one("HDEL", ledger.instances, "a2")
    assert [(one.name, one.what) for one in Check(ledger).run().differences] == [("b2", "is the record of a2")]
    assert mend(ledger, Lease(ledger, "check", "here", 60).take() or 0).repaired == 1
    assert Check(ledger).run().differences == []
    assert check_sums(wire, ledger).keys() >= {"a2"}
    assert wire.one("HEXISTS", ledger.instances, "b2") == 0


def test_a_torn_entry_of_the_log_is_a_gap(ledger, wire):
    """Who follows the log reads the ledger again, and goes on."""
    follower = follower_of(ledger)
    change = ledger.confirm("a2").changes[0].version
    ledger.confirm("a4")
    (entry,) = wire.one("XRANGE", ledger.log, f"{change}-0", f"{change}-0")
    wire.one("XDEL", ledger.log, f"{change}-0", f"{change + 1}-0")
    fields = [field if at != 1 else b"{" for at, field in enumerate(entry[1])]
    wire.one("DEL", ledger.log)
    wire.one("XADD", ledger.log, f"{change}-0", *fields)
    follower.poll()
    assert (follower.refusal, follower.reloads, follower.change) == ("", 2, change + 1)
    ledger.confirm("a5")
    follower.poll()
    assert follower.view.instances == ledger.all_instances()


def test_a_repair_gives_way_to_a_change(ledger, wire):
    """What changed after it was read is left as it is."""
    wire.one("HSET", ledger.machines, "m1", change_of(ledger, wire) + b" prod:instances=99,cpu=5")
    check = Check(ledger)
    found = check.run()
    ledger.reserve([simple("later", "m1")._replace(candidates=[simple("x", "m1").candidates[0]._replace(limits=())])])
    row = wire.one("HGET", ledger.machines, "m1")
    check.repair(found, Lease(ledger, "check", "here", 60).take())
    assert found.repaired == 0
    assert wire.one("HGET", ledger.machines, "m1") == row


def test_a_scorer_warns_of_a_server_that_can_lose_the_ledger(names, valkey, wire, monkeypatch, caplog):
    """It logs and counts an absent append-only file and an eviction policy, and tells when they are gone."""
    monkeypatch.setattr(checker.Checker, "every_s", 0.05)
    monkeypatch.setattr(checker.Checker, "first_s", 0.01)
    metrics = Metrics()
    made = lambda one: Ledger(one, names)  # noqa: E731
    thread = Checker(made, {"url": valkey.url}, metrics, ScorerSettings(name="s"))
    before = {name: wire.one("CONFIG", "GET", name)[1] for name in ("appendonly", "maxmemory-policy")}
    gauge = metrics.unsafe._value
    try:
        wire.one("CONFIG", "SET", "appendonly", "no", "maxmemory-policy", "allkeys-lru")
        thread.start()
        eventually(lambda: gauge.get() == 1)
        assert "nothing is appended to a file" in thread.server.unsafe
        assert "maxmemory_policy is allkeys-lru" in thread.server.unsafe
        assert "scorer.ledger.unsafe" in caplog.messages
        wire.one("CONFIG", "SET", "appendonly", "yes", "maxmemory-policy", "noeviction")
        eventually(lambda: gauge.get() == 0)
    finally:
        thread.stop()
        for name, value in before.items():
            wire.one("CONFIG", "SET", name, value)


def test_a_timer_finds_what_went_wrong_and_a_repair_clears_it_everywhere(ledger, wire, names, valkey, monkeypatch):
    """Two scorers tell the same, without a restart; a check leaves four fifths of the time to others."""
    monkeypatch.setattr(checker.Checker, "every_s", 0.05)
    monkeypatch.setattr(checker.Checker, "first_s", 0.01)
    metrics = [Metrics(), Metrics()]
    threads = [
        Checker(
            lambda one: Ledger(one, names), {"url": valkey.url}, each, ScorerSettings(name=f"s{k}", ledger_check_s=1.0)
        )
        for k, each in enumerate(metrics)
    ]

    def shown():
        return [
            (each.differences._value.get(), (thread.found or {}).get("differences"))
            for each, thread in zip(metrics, threads, strict=True)
        ]

    for thread in threads:
        thread.start()
    try:
        eventually(lambda: shown() == [(0, 0)] * 2)
        wire.one("HSET", ledger.machines, "m1", change_of(ledger, wire) + b" prod:instances=99,cpu=5")
        eventually(lambda: shown() == [(1, 1)] * 2)
        number = eventually(Lease(ledger, "check", "repair", 60).take)
        check = Check(ledger)
        found_now = check.run()
        check.repair(found_now, number)
        LastCheck(ledger).write(found_now)
        eventually(lambda: shown() == [(0, 0)] * 2)
    finally:
        for thread in threads:
            thread.stop()


def test_a_check_pauses_as_long_as_it_is_told(wire, names, valkey):
    worked = []
    paced = PacedWire({"url": valkey.url}, worked.append)
    assert Check(Ledger(paced, names)).run().differences == []
    assert len(worked) > 3
    assert all(one >= 0 for one in worked)
    paced.close()


def test_others_may_write_while_it_is_checked(ledger, names, valkey):
    with storm(valkey.url, names):
        assert [Check(ledger).run().differences for _ in range(5)] == [[]] * 5


# ---- the lease


def test_one_holds_a_lease_and_its_number_rises(ledger):
    """Kept by its holder under one number; free when it is given up or has run out, under the next."""
    one, other = Lease(ledger, "x", "one", 60), Lease(ledger, "x", "other", 60)
    assert [one.take(), one.take(), other.take()] == [1, 1, None]
    other.give_up()
    assert other.take() is None
    one.give_up()
    assert [other.take(), one.take()] == [2, None]
    assert Lease(ledger, "y", "one", 60).take() == 1


HOLD = """
import json, sys, time
from schemas.names import Names
from scorer.ledger.store.check import Check
from scorer.ledger.store.scripts import Lease
from scorer.ledger.record.transition import Damaged
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
url, prefix = sys.argv[1:]
ledger = Ledger(Wire({"url": url}), Names(prefix))
number = Lease(ledger, "check", "holder", 1.0).take()
check = Check(ledger)
found = check.run()
print(number, flush=True)
sys.stdin.readline()
try:
    check.repair(found, number)
except PermissionError as error:
    print("refused", error, flush=True)
else:
    print("repaired", found.repaired, flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_holder_is_killed_or_frozen(ledger, wire, names, valkey, how):
    """Another gets the lease when it has run out; the frozen one wakes and its repair is refused by its number."""
    wire.one("HSET", ledger.machines, "m1", change_of(ledger, wire) + b" prod:instances=99,cpu=5")
    row = wire.one("HGET", ledger.machines, "m1")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, valkey.url, names.prefix],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        first = int(holder.stdout.readline())
        holder.send_signal(how)
        number = eventually(Lease(ledger, "check", "other", 60).take)
        assert number == first + 1
        if how == signal.SIGSTOP:
            holder.send_signal(signal.SIGCONT)
            said, _ = holder.communicate("go\n", timeout=30)
            assert said.startswith("refused")
        assert wire.one("HGET", ledger.machines, "m1") == row
        check = Check(ledger)
        found = check.run()
        check.repair(found, number)
        assert found.repaired == 1
    finally:
        holder.kill()
        holder.communicate()
