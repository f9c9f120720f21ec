"""Events of the ledger's log: each once and in order, across restarts and lost connections; what is missing is told."""

import asyncio
import json
import threading
import time
from itertools import islice

import msgspec
import pytest

from ops.stack.servers.local import LocalValkey
from schemas.messages.event import EVENTS
from schemas.messages.event import Event as Message
from schemas.names import Names
from scorer.client import AsyncClient, Client, Events, WindwardError
from scorer.ledger.record.transition import Candidate, Change, Difference
from scorer.ledger.store.scripts import Lease, Ledger
from scorer.wire import Wire
from tests.conftest import Valkey
from tests.integration.scorer.test_rpc import scorer_process
from tests.scorer.ledger.golden_ledger import NOW_S, clock, wanted
from tests.support.in_process import run_command
from tests.support.pages import eventually
from tests.window_tables import publish, window_table


@pytest.fixture
def client(valkey, names):
    """A client of the ledger's server; no scorer runs."""
    with Client(valkey.url, names.prefix, timeout_s=30) as client:
        yield client


def place(ledger, *ids, machine="m1", ttl_s=60.0):
    batch = [wanted(one, machine, ttl_s, ports=[], role="") for one in ids]
    roomy = [msgspec.structs.replace(one.instance, amounts=()) for one in batch]
    ledger.reserve([one._replace(instance=own) for one, own in zip(batch, roomy, strict=True)])


def short(events):
    return [(one.event, one.id, one.machine, one.source, one.target, one.why) for one in events]


def take(events, count):
    """Return the next events; that they do not come within a while fails the test."""
    found = []
    reader = threading.Thread(target=lambda: found.extend(islice(events, count)), daemon=True)
    reader.start()
    reader.join(20)
    assert len(found) == count, "the next event does not come"
    return found


def told(client, **options):
    return list(client.events(follow=False, **options))


def changed(ledger, name, machine, role):
    """Give an instance another role, and a machine."""
    old = ledger.all_instances()[name]
    ledger.update([Change(old, msgspec.structs.replace(old, role=role), [Candidate(machine, -1)])])


def act(wire, names):
    """Do everything that can happen to an instance; return the events of it."""
    now, later, late = (Ledger(wire, names, time_source=clock(seconds)) for seconds in (0, 10, 7200))
    place(now, "a", "b", "c", ttl_s=5.0)
    place(now, "d", ttl_s=9999.0)
    for one in "ab":
        now.confirm(one)
    changed(now, "a", "m1", "x")
    changed(now, "b", "m2", "x")
    now.begin_move(now.all_instances()["a"], [Candidate("m3", -1)], 3600.0)
    later.confirm("a", machine="m3", started_at=NOW_S + 1.0)
    later.begin_move(later.all_instances()["a"], [Candidate("m4", -1)], 60.0)
    later.cancel_move(later.all_instances()["a"])
    later.begin_move(later.all_instances()["a"], [Candidate("m4", -1)], 60.0)
    late.expire()
    late.rename("m3", "m5", late.machine_versions()["m3"], ["a"])
    known = late.all_instances()
    a, d = known["a"], known["d"]
    late.correct([msgspec.structs.replace(a, machine="m6"), d, msgspec.structs.replace(a, id="e", machine="m6")])
    number = Lease(late, "check", "test", 60.0).take()
    row = late.rows(["m6"], [])[0][0]
    wrong = Difference("machine", "m6", "", row, row.decode().partition(" ")[2], instance=late.all_instances()["a"])
    assert late.repair(number, wrong) == "done"
    late.correct([], ["e"])
    late.release("a", failed=True)
    return [
        ("placed", "a", "m1", "", "", ""), ("placed", "b", "m1", "", "", ""), ("placed", "c", "m1", "", "", ""),
        ("placed", "d", "m1", "", "", ""), ("confirmed", "a", "m1", "", "", ""), ("confirmed", "b", "m1", "", "", ""),
        ("updated", "a", "m1", "", "", ""), ("moved", "b", "m2", "m1", "", ""), ("moving", "a", "m1", "", "m3", ""),
        ("expired", "c", "m1", "", "", ""), ("moved", "a", "m3", "m1", "", ""), ("moving", "a", "m3", "", "m4", ""),
        ("stayed", "a", "m3", "", "m4", "cancelled"), ("moving", "a", "m3", "", "m4", ""),
        ("stayed", "a", "m3", "", "m4", "expired"), ("renamed", "a", "m5", "m3", "", ""),
        ("moved", "a", "m6", "m5", "", "inventory"), ("confirmed", "d", "m1", "", "", "inventory"),
        ("placed", "e", "m6", "", "", "inventory"), ("updated", "a", "m6", "", "", "repair"),
        ("released", "e", "m6", "", "", "inventory"), ("released", "a", "m6", "", "", "failed"),
    ]  # fmt: skip


def test_each_event_is_told_once_in_order(client, wire, names):
    """Every kind, with machine, the other machine and why; times rise, positions lead on from each."""
    expected = act(wire, names)
    events = told(client)
    assert short(events) == expected
    assert {one.event for one in events} == EVENTS.keys() - {"gap"}
    times = [one.at - NOW_S for one in events]
    assert times == sorted(times)
    assert {round(at, 2) for at in times} == {0.25, 10.25, 7200.25}
    for number, event in enumerate(events):
        assert short(told(client, after=event.position)) == expected[number + 1 :]
    moving = next(one for one in events if one.event == "moving")
    assert (moving.expires_at - NOW_S, moving.state, moving.move > 0) == (3600.25, "confirmed", True)
    assert events[0].expires_at == NOW_S + 5.25
    assert events[0].generation == events[4].generation > 0
    assert events[0].labels == {"app": "é", "moving": '"new":{\n}}'}
    assert [one.expires_at for one in events if one.event in ("expired", "confirmed")] == [0.0] * 4
    for event in events:
        msgspec.convert(msgspec.to_builtins(event), Message)


@pytest.mark.parametrize(("since", "first"), [(0, 0), (5, 9), (10.25, 9), (10.3, 14), (7201, 22)])
def test_events_since_a_time(client, wire, names, since, first):
    expected = act(wire, names)
    assert short(told(client, since=NOW_S + since)) == expected[first:]


def test_an_entry_of_an_earlier_release_is_read(client, wire, names):
    """Without the fields of an event it is placed, renamed, released, expired or updated."""
    expected = act(wire, names)
    log = names.ledger("log")
    for name, fields in wire.one("XRANGE", log, "-", "+"):
        pairs = list(zip(fields[::2], fields[1::2], strict=True))
        old = [text for pair in pairs if pair[0] in (b"i", b"renamed") for text in pair]
        wire.one("XADD", f"{log}-before", name, *old)
    wire.one("RENAME", f"{log}-before", log)
    events = told(client)
    told_before = ("placed", "expired", "renamed", "released")
    assert [one.event for one in events] == [
        one[0] if one[0] in told_before and one[:2] != ("placed", "e") else "updated" for one in expected
    ]
    assert [one.source for one in events if one.event == "renamed"] == ["m3"]
    assert [events[0].at, events[-1].at] == [NOW_S + 0.25, NOW_S + 7200.25]


def test_a_reader_that_follows_sees_them_as_they_come(client, wire, names):
    expected = act(wire, names)
    events = client.events()
    more = Ledger(wire, names)
    for name in ("x", "y"):
        place(more, name)
        assert short(take(events, 1)) == [("placed", name, "m1", "", "", "")]
    more.confirm("x")
    assert short(take(events, 1)) == [("confirmed", "x", "m1", "", "", "")]
    assert short(told(client, after=events.position)) == []
    assert len(told(client)) == len(expected) + 3


def test_a_reader_that_fell_behind_is_told_so(client, ledger, wire, names):
    """The gap comes before what is left, with what is missing; one that kept up sees none."""
    ledger.open()
    behind, current = client.events(since=0.0), client.events()
    place(ledger, "first")
    assert short(take(behind, 1)) == short(take(current, 1)) == [("placed", "first", "m1", "", "", "")]
    for number in range(300):
        place(ledger, f"a{number}")
    assert [one.id for one in take(current, 300)] == [f"a{number}" for number in range(300)]
    place(Ledger(wire, names, log_length=100), "last")
    gap, after = take(behind, 2)
    first = int(after.position.rpartition("-")[2])
    assert 100 < first <= 202
    assert (gap.event, gap.why) == ("gap", f"changes 2 to {first - 1} are no longer kept")
    assert after.id == f"a{first - 2}"
    assert [one.event for one in take(behind, 302 - first)] == ["placed"] * (302 - first)
    assert [one.id for one in take(current, 1)] == ["last"]
    whole = told(client, since=0.0)
    assert [one.event for one in whole] == ["gap"] + ["placed"] * (303 - first)
    assert [one.event for one in told(client, since=whole[1].at)] == ["gap"] + ["placed"] * (303 - first)
    assert [one.event for one in told(client, since=whole[2].at)][:1] == ["placed"]


def test_a_ledger_begun_anew_is_a_gap(client, wire, names):
    """For one that follows and one that comes back; then comes what the new one has."""
    place(Ledger(wire, names), "a", "b")
    events = client.events()
    position = events.position
    for key in wire.one("KEYS", f"{names.ledger()}*"):
        wire.one("DEL", key)
    place(Ledger(wire, names), "c")
    expected = [("gap", "", "", "", "", "the ledger was begun anew"), ("placed", "c", "m1", "", "", "")]
    assert short(take(events, 2)) == expected
    assert short(told(client, after=position)) == expected


def kept(wire, names):
    return {key: wire.one("DUMP", key) for key in wire.one("KEYS", f"{names.ledger()}*")}


def restore(wire, copy):
    for key, value in copy.items():
        wire.one("RESTORE", key, 0, value, "REPLACE")


def test_a_ledger_that_lost_its_end_is_a_gap(client, ledger, wire, names):
    """For one that follows and one that comes back; then comes what happens now."""
    place(ledger, "a")
    copy = kept(wire, names)
    place(ledger, "b", "c")
    events = client.events()
    position = events.position
    restore(wire, copy)
    gap = [("gap", "", "", "", "", "the ledger has lost its end: changes 2 to 3")]
    assert short(take(events, 1)) == short(told(client, after=position)) == gap
    place(ledger, "d")
    assert short(take(events, 1)) == [("placed", "d", "m1", "", "", "")]


class Own(LocalValkey):
    """A server with a ledger, which a start leaves as it was."""

    names = Names()

    def start(self):
        super().start()
        self.wire = Wire({"url": self.url})
        self.ledger = Ledger(self.wire, self.names)
        return self

    def stop(self):
        self.wire.close()
        super().stop()

    def cut(self):
        self.wire.one("CLIENT", "KILL", "TYPE", "NORMAL")


@pytest.fixture
def own(tmp_path):
    with Own(directory=tmp_path, append_only=True) as server:
        yield server


def test_a_lost_connection_loses_and_repeats_nothing(own):
    """A cut connection, and a server that starts again: each event once, no gap."""
    with Client(own.url, timeout_s=30) as client:
        place(own.ledger, "a")
        events = client.events(since=0.0)
        assert [one.id for one in take(events, 1)] == ["a"]
        for number in range(5):
            place(own.ledger, f"b{number}", f"c{number}")
            own.cut()
            assert [one.id for one in take(events, 2)] == [f"b{number}", f"c{number}"]
        own.stop()
        with pytest.raises(WindwardError, match="no connection to") as away:
            short_of = Events(client._log(None, events.position, follow=True, timeout_s=0.1), client._do)
            next(short_of)
        assert (away.value.code, away.value.retryable) == ("UNAVAILABLE", True)
        own.start()
        place(own.ledger, "d")
        assert [one.id for one in take(events, 1)] == ["d"]


def test_an_iterator_goes_on_after_an_error(own):
    """The server was away for longer than it waits: the next call of the same iterator has what came meanwhile."""
    with Client(own.url, timeout_s=0.2) as client:
        place(own.ledger, "a")
        events = client.events()
        own.stop()
        with pytest.raises(WindwardError, match="no connection to"):
            next(events)
        own.start()
        place(own.ledger, "b")
        assert short(take(events, 1)) == [("placed", "b", "m1", "", "", "")]


def test_a_lost_end_that_others_have_overwritten_is_a_gap(own):
    """As after a failover: the changes that were read are not those that the server has, though it has more."""
    with Client(own.url, timeout_s=30) as client:
        place(own.ledger, "a")
        copy = kept(own.wire, own.names)
        place(own.ledger, "lost")
        events = client.events(since=0.0)
        assert [one.id for one in take(events, 2)] == ["a", "lost"]
        restore(own.wire, copy)
        place(own.ledger, "b")
        place(own.ledger, "c")
        own.cut()
        gap, found = take(events, 2)
        assert (gap.event, "lost the changes that were read last" in gap.why) == ("gap", True)
        assert found.id == "c"


def test_events_go_on_while_scorers_come_and_go(valkey, client, wire, names):
    """A scorer is killed and another started: all that its deployers did is told once, in order."""
    Ledger(wire, names).open()
    publish(wire, names, [window_table(["m1", "m2"], at=time.time() + 600)])
    events = client.events()
    expected = []
    for number in range(2):
        with scorer_process(valkey.url, names) as scorer:
            eventually(lambda: client.health()["ready"])
            for name in (f"a{number}", f"b{number}"):
                with client.placed(id=name, cpu=1) as placement:
                    machine = placement.machine
                expected += [("placed", name, machine), ("confirmed", name, machine)]
            client.release(f"a{number}")
            expected.append(("released", f"a{number}", next(one[2] for one in expected if one[1] == f"a{number}")))
            scorer.kill()
            scorer.wait()
    assert [(one.event, one.id, one.machine) for one in take(events, len(expected))] == expected
    assert told(client, after=events.position) == []


def test_the_asyncio_client_has_the_same(valkey, client, wire, names):
    """Events of many reservations of one entry, too; errors are the same."""
    expected = act(wire, names)

    async def read():
        async with AsyncClient(valkey.url, names.prefix, timeout_s=30) as there:
            found = [event async for event in there.events(follow=False)]
            events = there.events()
            waiting = asyncio.ensure_future(anext(events))
            while not events.position:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(place, Ledger(wire, names), "later")
            return [*found, await waiting]

    assert short(asyncio.run(read())) == [*expected, ("placed", "later", "m1", "", "", "")]


def test_what_cannot_be_read_is_refused(client, wire, names):
    """Before anything is read: no ledger, one of another format, a position that is none."""
    position, both = "is not the position of an event", {"after": "1.0-7", "since": 1.0}
    wrong = [({"after": "7"}, position), ({"after": "a-b"}, position)]
    for options, said in (*wrong, (both, "give one of them"), ({}, "has no ledger: give the URL")):
        with pytest.raises(WindwardError, match=said):
            client.events(**options)
    place(Ledger(wire, names), "a")
    wire.one("HSET", names.ledger("head"), "format", "2")
    with pytest.raises(WindwardError, match="has format 2, this client reads 1"):
        client.events()
    wire.one("HSET", names.ledger("head"), "format", "1", "change", b"1\xff")
    with pytest.raises(WindwardError, match="the ledger's last change is"):
        client.events()


@pytest.mark.parametrize("torn", [(b"i", b"\xff{"), (b"at", b"1\xff"), (b"at", b"soon")])
def test_a_torn_entry_is_told_in_words(client, wire, names, torn):
    place(Ledger(wire, names), "a")
    (entry,) = wire.one("XRANGE", names.ledger("log"), "-", "+")
    wire.one("XDEL", names.ledger("log"), entry[0])
    wire.one("XADD", names.ledger("log"), "1-1", *entry[1], *torn)
    with pytest.raises(WindwardError, match="change 1 of the ledger cannot be read"):
        told(client, since=0.0)


def run(valkey, names, *words):
    environ = {"WINDWARD_REDIS_URL": valkey.url, "WINDWARD_PREFIX": names.prefix, "TZ": "UTC"}
    return run_command("events", *words, environ=environ)


def test_the_command_prints_a_line_for_each(valkey, wire, names, client):
    """For people or as JSON, of some instances, after a position; exit code 4 without a server."""
    expected = act(wire, names)
    lines = run(valkey, names, "--after", told(client)[0].position).stdout.splitlines()
    assert len(lines) == len(expected) - 1
    assert lines[4].split("  ", 1)[1].split() == ["confirmed", "b", "m1"]
    assert any(line.endswith("m1 -> m3, for 1h") for line in lines)
    assert run(valkey, names, "--since", "1s").stdout == run(valkey, names).stdout, "the ledger's clock is ahead"
    done = run(valkey, names, "--since", "31d", "--json", "a*", "e")
    found = [msgspec.json.decode(line, type=Message) for line in done.stdout.splitlines()]
    assert short(found) == [one for one in expected if one[1] in ("a", "e")]
    refused = run(Valkey("redis://127.0.0.1:1/0", 1), names, "--timeout", "100ms", "--json")
    assert (refused.returncode, json.loads(refused.stderr)["code"]) == (4, "UNAVAILABLE")
