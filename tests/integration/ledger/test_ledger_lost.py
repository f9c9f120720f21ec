"""A ledger whose server comes back with less, or with nothing, is noticed and said; on real servers."""

import logging
import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from ops.stack.servers.local import LocalValkey
from ops.stack.servers.process import LocalProcess, free_port
from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.ledger.record.transition import Candidate
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.marker import Marker
from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.integration.ledger.test_ledger import follower_of, simple
from tests.scorer.ledger.golden_ledger import dump, load
from tests.scorer.snapshot.test_usages import encoded
from tests.support.fleet_label import without_fleet
from tests.support.pages import eventually, get
from tests.window_tables import publish, window_table


def cut(wire, ledger, ids):
    """Make the ledger what it was before the last instances: what a failover or a lost second of the file leaves."""
    change = int(wire.one("HGET", ledger.head, "change")) - len(ids)
    wire.ask(
        [
            ("HSET", ledger.head, "change", change), ("HDEL", ledger.instances, *ids),
            ("ZREM", ledger.expiry, *ids), ("XTRIM", ledger.log, "MAXLEN", change),
            *[("XDEL", ledger.log, f"{change + n + 1}-0") for n in range(len(ids))],
        ]
    )  # fmt: skip


def test_a_lost_end_of_the_ledger_is_named(ledger, wire, caplog):
    """The same epoch with a lower change: an error that names each lost record; the rest is followed."""
    follower = Follower(ledger)
    ledger.reserve([simple(f"a{n}") for n in range(5)])
    follower.poll()
    cut(wire, ledger, ["a3", "a4"])
    with caplog.at_level(logging.ERROR, "windward.scorer"):
        follower.poll()
    assert follower.lost == 2
    # By name and level: another test of this process may have left a thread that logs, or a lower level.
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    (record,) = [record for record in errors if record.getMessage().startswith("scorer.ledger.")]
    assert record.getMessage() == "scorer.ledger.tail_lost"
    assert "a3 on m1 reserved, a4 on m1 reserved" in str(record.__dict__["values"]["instances"])
    assert sorted(follower.view.instances) == ["a0", "a1", "a2"]


def test_a_late_step_never_acts_on_what_came_after_a_lost_end(ledger, wire, names):
    """The copy that goes on has the counters of the past, and a clock that is behind: its numbers are others."""
    old = Ledger(wire, names, time_source="{'1000', '0'}")
    ledger.reserve([simple("held")])
    (held,) = ledger.confirm("held").changes
    copy = dump(wire, names)
    (first,) = ledger.reserve([simple("a")]).changes
    (moving,) = ledger.begin_move(held, [Candidate("m2", -1)], 60.0).changes
    wire.one("DEL", *wire.one("KEYS", f"{names.ledger()}*"))
    load(wire, names, copy)
    (again,) = old.reserve([simple("a")]).changes
    (anew,) = old.begin_move(held, [Candidate("m2", -1)], 60.0).changes
    assert (again.version, anew.version) == (first.version, moving.version)
    assert moving.moving and old.confirm("held", machine="m2", move=moving.moving.number).outcomes[0].kind == "moving"
    for step in (old.confirm, old.release):
        assert step("a", generation=first.generation).outcomes[0].kind == "generation"
    assert old.all_instances() == {"a": again, "held": anew}
    assert 0 < again.generation < 2**53


DAMAGE = {
    "change": lambda ledger: ("HSET", ledger.head, "change", b"[[["),
    "epoch": lambda ledger: ("HSET", ledger.head, "epoch", b"\xff\xfe"),
    "format": lambda ledger: ("HSET", ledger.head, "format", b"\xff\xfe"),
    "record": lambda ledger: ("HSET", ledger.instances, "a1", b"\xff{"),
    "fields of a record": lambda ledger: ("HSET", ledger.instances, "a1", b'{"id":5,"machine":null,"amounts":"x"}'),
    "row": lambda ledger: ("HSET", ledger.machines, "m1", b"many"),
    "name of a machine": lambda ledger: ("HSET", ledger.machines, b"\xff", b"7 prod:instances=1"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_ledger_is_refused_in_words(ledger, wire, names, damage):
    """Whatever cannot be read: the scorer says what it is, places nothing, and goes on once it is restored."""
    ledger.reserve([simple(f"a{n}") for n in range(3)])
    command = damage(ledger)
    before = wire.one("HGET", *command[1:3])
    wire.one(*command)
    follower = follower_of(ledger)
    assert (follower.loaded, names.ledger("") in follower.refusal) == (False, True)
    assert "is damaged: " in follower.refusal or "has format " in follower.refusal
    wire.one(*(("HDEL", *command[1:3]) if before is None else ("HSET", *command[1:3], before)))
    follower.poll()
    assert (follower.loaded, follower.refusal, len(follower.view)) == (True, "", 3)


@pytest.mark.parametrize("stored", [b"", b"\xff\xfe", b"[[[", b"abc", b"abc -", b"abc 1e400", b"\xc2\xb1 3"])
def test_a_marker_that_cannot_be_read_is_written_again(names, stored):
    """It says nothing, as when there is none; a scorer does not end by it."""
    marker = Marker(names)
    assert marker.accept(stored, "abc", 3) == [("SET", names.ledger_marker, "abc 3")]
    assert marker.refusal == ""
    assert marker.accept(b"xyz 3", "abc", 3) == []
    assert marker.refusal.startswith("the ledger has begun anew: it has 3 instances and had 3.")


def test_a_marker_of_an_emptied_ledger_tells_the_number_seen_last(names):
    """A burst within a second is not in the marker yet: the scorer that saw it tells the true number."""
    marker = Marker(names)
    assert marker.accept(None, "abc", 1) == [("SET", names.ledger_marker, "abc 1")]
    assert marker.accept(b"abc 1", "abc", 20) == []
    for _ in range(2):
        assert marker.accept(b"abc 1", "xyz", 0) == []
        assert "it has 0 instances and had 20." in marker.refusal
    assert marker.accept(None, "xyz", 0) == [("SET", names.ledger_marker, "abc 20")], "emptied with its server"
    assert "had 20." in marker.refusal
    assert marker.accept(b"xyz 0", "xyz", 0) == []
    assert marker.refusal == "", "it was accepted"
    other = Marker(names)  # it last saw an empty ledger, and must not place on this one
    other.accept(None, "abc", 0)
    other.accept(b"abc 1", "xyz", 0)
    assert "had 1." in other.refusal


@pytest.mark.parametrize(
    ("answer", "instances", "reported", "refuses", "writes"),
    [
        (None, 0, 3, True, False), (b"???", 0, 3, True, False), (b"old 0", 0, 3, True, False),
        (None, 0, 0, False, False), (None, 1, 3, False, True), (b"abc 0", 0, 3, False, True),
        (b"abc 5", 0, 3, False, True), (redis.ResponseError("away"), 0, 3, False, False),
    ],
)  # fmt: skip
def test_reports_of_instances_stand_for_a_lost_marker(names, answer, instances, reported, refuses, writes):
    """An empty ledger without a marker, while agents report instances that are older: a new scorer refuses."""
    marker = Marker(names)
    wrote = marker.accept(answer, "abc", instances, lambda: reported)
    assert (marker.refusal.startswith("the ledger is empty, and agents report 3"), bool(wrote)) == (refuses, writes)
    marker.accept(answer, "abc", instances, lambda: 0)  # reports that ended, as while the stream app is away
    assert marker.refusal.startswith("the ledger is empty, and agents report 3") == refuses
    marker.accept(b"abc 0", "abc", 0, lambda: reported)
    assert marker.refusal == "", "it was accepted"


def test_a_row_that_was_put_back_is_read_again(ledger, wire):
    """It has another version than the copy, and no change says so: without reading it, each placement there is lost."""
    ledger.reserve([simple("a1", "m1")])
    before = wire.one("HGET", ledger.machines, "m1")
    ledger.reserve([simple("a2", "m1")])
    ledger.release("a2")
    follower = follower_of(ledger)
    wire.one("HSET", ledger.machines, "m1", before)
    kinds, reloads = [], follower.reloads
    for n in range(3):
        change, candidate = follower.change, Candidate("m1", follower.version("m1"))
        transition = ledger.reserve([simple(f"b{n}", "m1")._replace(candidates=[candidate])])
        follower.absorb(transition)
        follower.doubt(transition, change)
        kinds.append(transition.outcomes[0].kind)
    assert kinds == ["conflict", "placed", "placed"]
    assert follower.reloads == reloads + 1


def test_a_lost_end_is_noticed_when_the_connection_was_lost_too(ledger, wire):
    """The server was away: what the scorer had seen before is compared, also when others wrote since."""
    follower = Follower(ledger)
    ledger.reserve([simple(f"a{n}") for n in range(5)])
    follower.poll()
    cut(wire, ledger, ["a3", "a4"])
    follower.forget()
    follower.poll()
    assert follower.lost == 2


@dataclass
class Apart:
    """A scorer with a ledger server of its own."""

    url: str
    ledger_url: str
    names: Names
    log: Path
    metrics_port: int

    def windward(self, *words):
        settings = ["--redis-url", self.url, "--ledger-url", self.ledger_url, "--prefix", self.names.prefix]
        return subprocess.run(
            [sys.executable, "-m", "ops.cli.main", *words, *settings], env=dict(os.environ), capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip

    def metric(self, name):
        page = get(self.metrics_port, "/metrics")[1]
        return float(next(line.split()[1] for line in without_fleet(page).splitlines() if line.startswith(f"{name} ")))


@pytest.fixture
def apart(valkey, names, tmp_path):
    server, metrics_port = LocalValkey(directory=tmp_path / "ledger"), free_port()
    found = Apart(valkey.url, server.url, names, tmp_path / "log", metrics_port)
    publish(valkey.url, names, [window_table(["m0", "m1"], at=time.time() + 60)])
    arguments = ["--redis-url", found.url, "--ledger-url", found.ledger_url, "--prefix", names.prefix]
    command = [sys.executable, "-m", "ops.cli.main", "scorer", *arguments, "--metrics-port", str(metrics_port)]
    with server, LocalProcess("scorer", command, log=found.log):
        yield found


def test_an_emptied_ledger_is_not_placed_on_until_it_is_accepted(apart):
    """Twenty instances vanish: placing is refused in words, the rest answers, and `ledger accept` ends it."""
    with Client(apart.url, apart.names.prefix, timeout_s=30) as client:
        for n in range(20):
            client.place(id=f"a{n}", cpu=0.1)
            client.confirm(f"a{n}")
        marker = Wire({"url": apart.url})
        eventually(lambda: client.health()["ready"] and marker.one("GET", apart.names.ledger_marker).endswith(b" 20"))
        marker.close()
        assert apart.metric("windward_scorer_ledger_lost_instances_total") == 0
        emptied = Wire({"url": apart.ledger_url})
        emptied.one("FLUSHALL")
        emptied.close()
        for _ in range(2):
            with pytest.raises(WindwardError, match=r"FAILED_PRECONDITION.*had 20.*windward ledger accept"):
                client.place(id="b", cpu=0.1)
        assert client.instances()["total"] == 0
        assert client.rank(cpu=0.1)["machine"]
        assert "had 20" in client.health()["ledger_unaccepted"]
        assert apart.metric("windward_scorer_ledger_unaccepted") == 1
        assert apart.metric("windward_scorer_ledger_lost_instances_total") == 20
        assert "scorer.ledger.begun_anew" in apart.log.read_text()
        accepted = apart.windward("ledger", "accept")
        assert (accepted.returncode, accepted.stdout) == (0, "accepted: the ledger has 0 instances\n")
        assert client.place(id="b", cpu=0.1)["machine"]
        assert apart.metric("windward_scorer_ledger_unaccepted") == 0


def test_a_new_scorer_refuses_an_empty_ledger_while_agents_report_instances(apart):
    """No marker, nothing seen before: the reports alone say that instances run, until the operator accepts."""
    with Client(apart.url, apart.names.prefix, timeout_s=30) as client, closing(Wire({"url": apart.url})) as windows:
        eventually(lambda: client.health()["ready"])
        assert windows.one("GET", apart.names.ledger_marker) is None
        windows.one("SET", apart.names.instance_usage(0), encoded({("m0", ""): 1.0, ("m0", "a"): 1.0}, time.time()))
        eventually(lambda: "agents report 1 instances" in client.health()["ledger_unaccepted"])
        with pytest.raises(WindwardError, match=r"FAILED_PRECONDITION.*agents report.*windward ledger accept"):
            client.place(id="b", cpu=0.1)
        assert apart.windward("ledger", "accept").returncode == 0
        assert client.place(id="b", cpu=0.1)["machine"]


def test_a_scorer_checks_at_start_and_the_command_repairs(apart):
    """Health and metric say what the check at start found; `ledger check` names it and `--repair` mends it."""
    with Client(apart.url, apart.names.prefix, timeout_s=30) as client:
        client.place(id="a", cpu=0.1)
        checked = eventually(lambda: client.health()["ledger_check"])
        assert (checked["differences"], apart.metric("windward_scorer_ledger_differences")) == (0, 0)
        wire = Wire({"url": apart.ledger_url})
        wire.one("HSET", Ledger(wire, apart.names).clusters, "ghost", "3 2")
        wire.close()
        found = apart.windward("ledger", "check")
        assert found.returncode == 1
        assert "cluster ghost: 2 instances is 0" in found.stdout
        for _ in range(2):  # the first has given its lease back
            assert apart.windward("ledger", "check", "--repair").returncode == 0
        assert "0 differ" in apart.windward("ledger", "check").stdout
        assert client.health()["ledger_check"]["at"] >= checked["at"]
