"""The planner on a real server: drains to the end; one lease of the rounds; proposals that are taken, or overtaken."""

import itertools
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import redis

from schemas.messages.proposal import begun_move, read_proposal
from schemas.names import Names
from schemas.rpc.request import Request, read_request
from scorer.client import Client
from scorer.kubernetes.evictor.evictor import Proposals
from scorer.ledger.record.transition import Candidate, Change, Overtaken, Wanted
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import instance_of
from scorer.live.live_fleet import LiveFleet, profiles_of
from scorer.planner import proposer
from scorer.planner.drain import Drainer
from scorer.planner.proposer import Metrics, MovesQueue, Proposer
from scorer.planner.settings import PlannerSettings, balanced
from scorer.rpc.operator_rules import announce
from scorer.wire import Wire
from tests.conftest import free_port, stop
from tests.integration.ledger.test_ledger import follower_of
from tests.integration.scorer.test_rpc import planner_process, scorer_process
from tests.support.clusters import Cluster
from tests.support.fleet_label import without_fleet
from tests.support.in_process import run_command
from tests.support.pages import eventually, get
from tests.window_tables import publish, window_table

ROOT = Path(__file__).parents[3]
MACHINES = ["hot", "cold1", "cold2"]
LOADS = [0.97, 0.2, 0.3]


class Fleet:
    """One hot machine with four instances, two cold ones."""

    def __init__(self, url, wire, names):
        self.url, self.wire, self.names, self.ledger = url, wire, names, Ledger(wire, names)
        publish(wire, names, [window_table(MACHINES, utilization=LOADS, at=time.time() + 60)])
        ids = [f"i{number}" for number in range(4)]
        wanted = [instance_of(Request(id=one, cpu=1.5, memory=1e9), "", 0.0) for one in ids]
        self.ledger.reserve([Wanted(one, 300.0, [Candidate("hot", -1)]) for one in wanted])
        for one in ids:
            self.ledger.confirm(one)

    def command(self, *words, timeout="60"):
        """Run a command; a scorer that has just started takes more than the usual 5 s where the cores are busy."""
        where = {"WINDWARD_REDIS_URL": self.url, "WINDWARD_PREFIX": self.names.prefix, "WINDWARD_TIMEOUT": timeout}
        return run_command(*words, environ=where)

    def daemon(self, url, name, wire=None, **more):
        """The rounds of a planner, in this process, that turn when the test says."""
        settings = PlannerSettings(
            redis_url=url, prefix=self.names.prefix, name=name, rest_s=0.0, moves_max=2, **{"lease_s": 30.0, **more}
        )
        wire = self.wire if wire is None else wire
        ledger = Ledger(wire, self.names)
        profile = balanced(profiles_of(settings).choose(), settings)
        read = LiveFleet(wire, ledger, self.names).read
        return Proposer(settings, ledger, read, MovesQueue(wire, self.names), profile, Metrics())

    def proposals(self, key):
        """The messages of a list, the next one first."""
        found = [read_proposal(raw) for raw in self.wire.one("LRANGE", key, 0, -1)]
        return [one for one in found if one is not None][::-1]

    @property
    def waiting(self):
        return self.proposals(self.names.moves_waiting)

    def take(self):
        """Take the next message, as the program that moves instances does."""
        return self.wire.one("BLMOVE", self.names.moves_waiting, self.names.moves_taken, "RIGHT", "LEFT", 1)

    def acknowledge(self, raw):
        """Take it off the list; 0: it was withdrawn."""
        return int(self.wire.one("LREM", self.names.moves_taken, 1, raw))

    def move(self, proposal):
        """Have the ledger know that the instance has moved."""
        follower = follower_of(self.ledger)
        old = follower.view.instances[proposal.instance]
        new = msgspec.structs.replace(old, machine=proposal.target)
        outcome = self.ledger.update([Change(old, new, [Candidate(proposal.target, -1)])]).outcomes[0]
        assert outcome.kind == "done"


@pytest.fixture
def fleet(valkey, wire, names):
    """A hot machine and two cold ones, under a prefix of the test."""
    return Fleet(valkey.url, wire, names)


def counted(daemon):
    samples = [sample for family in daemon._metrics.registry.collect() for sample in family.samples]
    named = [one for one in samples if one.name == "windward_planner_proposals_total" and one.value]
    return {one.labels["outcome"]: one.value for one in named}


def test_a_server_that_can_lose_the_ledger_is_told(fleet, valkey):
    """A turn looks at the ledger's server: the metric and the text are there while it may evict."""
    before = fleet.wire.one("CONFIG", "GET", "maxmemory-policy")[1]
    daemon = fleet.daemon(valkey.url, "r")
    try:
        for policy, told in (("allkeys-lru", True), ("noeviction", False)):
            fleet.wire.one("CONFIG", "SET", "maxmemory-policy", policy)
            daemon.turn(time.time())
            assert ("maxmemory_policy is allkeys-lru" in daemon.server.unsafe) == told
        fleet.wire.one("CONFIG", "SET", "maxmemory-policy", "volatile-lru")
        daemon.turn(time.time())
        assert daemon._metrics.unsafe._value.get() == 1
    finally:
        fleet.wire.one("CONFIG", "SET", "maxmemory-policy", before)
        daemon.stop()


def test_what_a_loss_leaves_without_a_place_is_told_by_the_holder_of_the_lease(valkey, fleet, monkeypatch):
    """Of the worst domain by the profile's `survive`; no number without it. A round tries one domain at least."""
    bound = instance_of(read_request({"cpu": 0.1, "selector": "disk=ssd"}), "", 0.0, "bound")
    fleet.ledger.reserve([Wanted(bound, 300.0, [Candidate("cold2", -1)])])
    fleet.ledger.confirm("bound")
    monkeypatch.setattr(proposer, "LOSSES_S", 0.0)
    daemon, now_s, told = fleet.daemon(valkey.url, "one"), time.time(), []
    for turn in range(9):
        if turn == 1:
            daemon.profile = replace(daemon.profile, survive="machine")
        if turn == 4:
            fleet.ledger.release("bound")
        daemon.turn(now_s + 1_000 * turn)
        told.append(daemon._metrics.without_place._value.get())
    assert math.isnan(told[0])
    assert (told[3], told[-1]) == (1, 0)


def test_broken_rules_are_counted_by_the_holder_of_the_lease(valkey, fleet):
    """By cause, each with a series; another planner has none, nor one that lost the lease. Rule repair mends them."""
    asked = read_request({"cpu": 0.1, "cluster": "c", "anti_affinity": [{"instances": {"cluster": "c"}}]})
    there = [instance_of(asked, "", 0.0, name) for name in ("c1", "c2")]
    fleet.ledger.reserve([Wanted(one, 300.0, [Candidate("cold1", -1)]) for one in there])
    for name in ("c1", "c2"):
        fleet.ledger.confirm(name)
    one, two = fleet.daemon(valkey.url, "one", rule="repair"), fleet.daemon(valkey.url, "two")

    def told(daemon):
        (family,) = daemon._metrics.broken.collect()
        return {sample.labels["why"]: sample.value for sample in family.samples}

    now_s = time.time()
    for daemon in (one, two):
        daemon.turn(now_s)
    assert told(one) == {"rule": 0, "failover": 0, "left": 0, "relabel": 1}
    assert told(two) == {}
    (proposal,) = fleet.waiting
    assert (proposal.source, proposal.reason) == ("cold1", "cluster=c by machine: others 0")
    one.turn(now_s + 60)
    assert len(fleet.waiting) == 1
    one.stop()
    two.turn(now_s)
    one.turn(now_s)
    assert (told(one), sum(told(two).values())) == ({}, 1)


def test_a_move_is_proposed_taken_done(valkey, fleet):
    """Once each; while it is open the plan sees it as made, and when the ledger has it the next ones follow."""
    one, now_s = fleet.daemon(valkey.url, "one"), time.time()
    one.turn(now_s)
    first = fleet.waiting
    assert len(first) == 2
    assert {each.source for each in first} == {"hot"}
    assert {each.target for each in first} <= {"cold1", "cold2"}
    assert (first[0].attempt, first[0].expires_at) == (1, now_s + 600)
    assert fleet.wire.one("GET", fleet.names.moves_fence) == str(first[0].fence).encode()
    one.turn(now_s + 60)
    assert fleet.waiting == first
    raw = fleet.take()
    assert read_proposal(raw) == first[0]
    fleet.move(first[0])
    assert fleet.acknowledge(raw) == 1
    one.turn(now_s + 120)
    assert counted(one)["done"] == 1
    assert first[0].instance not in {each.instance for each in fleet.waiting}


def test_what_is_done_without_a_word_is_withdrawn(valkey, fleet):
    """A program that died after the move: the ledger says that it is done, and the message goes."""
    one, now_s = fleet.daemon(valkey.url, "one"), time.time()
    one.turn(now_s)
    raw, (first, _) = fleet.take(), [*fleet.proposals(fleet.names.moves_taken), *fleet.waiting]
    fleet.move(first)
    one.turn(now_s + 60)
    assert counted(one)["done"] == 1
    assert fleet.acknowledge(raw) == 0


def test_what_is_not_acknowledged_in_time_is_delivered_again(valkey, fleet):
    """A program that died before the move: the next one gets it, and the first one's acknowledgement has no effect."""
    one, now_s = fleet.daemon(valkey.url, "one", ack_s=100.0), time.time()
    one.turn(now_s)
    first = fleet.take()
    one.turn(now_s + 60)
    assert len(fleet.waiting) == 1
    one.turn(now_s + 180)
    again = fleet.waiting[0]
    proposal = read_proposal(first)
    assert (again.id, again.attempt) == (proposal.id, 2)
    assert fleet.acknowledge(first) == 0
    assert read_proposal(fleet.take()) == again


def test_what_a_command_begins_meanwhile_waits_on(valkey, fleet, monkeypatch):
    """A round reads the lists, then the ledger: a move that is on them is under way, and is not withdrawn."""
    daemon = fleet.daemon(valkey.url, "one")
    read = daemon._queue.read

    def just_begun():
        follower = follower_of(fleet.ledger)
        old = follower.view.instances["i0"]
        (moved,) = fleet.ledger.begin_move(old, [Candidate("cold1", -1)], 60.0).changes
        begun = begun_move("i0", old.generation, "hot", "cold1", moved.moving.until, moved.moving.number, 0.0, "drain")
        announce(fleet.wire, fleet.names, [begun], begun.at)
        return read()

    daemon.turn(time.time())
    monkeypatch.setattr(daemon._queue, "read", just_begun)
    daemon.turn(time.time() + 61)
    assert "i0" in [one.instance for one in fleet.waiting if one.of_command]


def test_one_leads_and_the_next_overtakes_its_proposals(valkey, fleet):
    """The other waits; when the lease is given up it withdraws what waits and what was taken, and proposes anew."""
    one, two, now_s = fleet.daemon(valkey.url, "one"), fleet.daemon(valkey.url, "two"), time.time()
    one.turn(now_s)
    two.turn(now_s)
    first = fleet.waiting
    raw = fleet.take()
    assert counted(two) == {}
    one.stop()
    two.turn(now_s + 1)
    assert counted(two) == {"overtaken": 2, "proposed": 2}
    assert {each.fence for each in fleet.waiting} == {first[0].fence + 1}
    assert fleet.acknowledge(raw) == 0
    one.turn(now_s + 61)
    assert counted(one) == {"proposed": 2}


def test_an_older_number_writes_nothing(fleet):
    """A process that was frozen does not know that it lost the lease; what it writes is refused."""
    queue = MovesQueue(fleet.wire, fleet.names)
    queue.write(8, [], [], [b"new"])
    with pytest.raises(Overtaken, match="number 8 has written since 7"):
        queue.write(7, [b"new"], [], [b"old"])
    assert queue.read() == ([b"new"], [])


@pytest.mark.parametrize(
    "kind, value", [("LPUSH", b"1"), *(("SET", raw) for raw in (b"?", b"", b"1e999", b"0x7", b"9" * 400))]
)
def test_a_fence_that_is_no_number_is_replaced(valkey, wire, kind, value):
    """A round is written all the same, and from then on the fence holds; until then the evictor takes nothing."""
    names = Names(f"fence-{kind}-{value.hex()[:20]}")
    queue = MovesQueue(wire, names)
    wire.one("DEL", names.moves_fence)
    wire.one(kind, names.moves_fence, value)
    with pytest.raises(redis.ResponseError):
        Proposals(wire, names).waiting()
    assert queue.write(7, [], [], [b"move"]) == 0
    assert wire.one("GET", names.moves_fence) == b"7"
    assert wire.one("LRANGE", names.moves_waiting, 0, -1) == [b"move"]
    with pytest.raises(Overtaken):
        queue.write(6, [], [], [])


def mover_environment(valkey, names, folder):
    """Return the environment of the documented mover, whose client is this checkout's."""
    (folder / "windward_client.py").write_text("from scorer.client import *\n")
    return {
        **os.environ, "WINDWARD_REDIS_URL": valkey.url, "WINDWARD_PREFIX": names.prefix,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
    }  # fmt: skip


def mover(valkey, names, folder, hand_over=""):
    """Return a function that runs the documented mover: it carries out so many moves by a shell program."""
    environ = mover_environment(valkey, names, folder) | {"MOVER_HAND_OVER": hand_over}
    code = "import sys; sys.path.insert(0, 'docs/examples'); import mover; mover.mover(sys.argv[2:], int(sys.argv[1]))"

    def run(count, program):
        words = [sys.executable, "-c", code, str(count), "sh", "-c", program, "sh"]
        done = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True, check=True, timeout=120)
        return done.stdout.splitlines()

    return run


def held(fleet):
    follower = follower_of(fleet.ledger)
    return [*follower.view.instances.values()]


def where(fleet):
    """Return by instance its machine and where it moves to, as the ledger has it."""
    return {one.id: (one.machine, one.moving.to if one.moving else "") for one in held(fleet)}


@contextmanager
def answering(fleet, url):
    """Run a scorer, and a planner that does nothing of its own accord."""
    names = fleet.names
    running = scorer_process(url, names), planner_process(url, names, "--drain-s", "0", "--every", "0")
    with running[0], running[1]:
        eventually(lambda: fleet.wire.one("ZCARD", names.planners))
        yield


def test_a_drain_ends_by_the_mover_alone(valkey, fleet, tmp_path):
    """After one command the documented mover empties the machine; a planner leaves those moves on the list."""
    names, run = fleet.names, mover(valkey, fleet.names, tmp_path)
    with answering(fleet, valkey.url):
        done = fleet.command("drain", "hot", "--apply")
        assert done.returncode == 0, done.stderr
        assert re.search(r"4 targets are reserved until \S+ \S+ \S+; a mover takes the moves off the list", done.stdout)
        assert {machine for machine, _ in where(fleet).values()} == {"hot"}
        assert [one.of_command for one in fleet.waiting] == [True] * 4
        one, now_s = fleet.daemon(valkey.url, "one", every=0.5), time.time()
        one.turn(now_s)
        assert len(fleet.waiting) == 4
        assert all(line.endswith(" moved") for line in run(4, "exit 0"))
        assert "hot" not in {machine for machine, _ in where(fleet).values()}
        assert not fleet.waiting
        assert not fleet.proposals(names.moves_taken)
        one.turn(now_s + 1)
        assert counted(one) == {"done": 4}


def placed(fleet, **machines):
    """Have the ledger know of confirmed instances of 6 GB, each on its machine."""
    wanted = [(instance_of(Request(id=one, cpu=0.5, memory=6e9), "", 0.0), at) for one, at in machines.items()]
    reserved = fleet.ledger.reserve([Wanted(one, 300.0, [Candidate(machine, -1)]) for one, machine in wanted])
    assert {outcome.kind for outcome in reserved.outcomes} == {"placed"}
    for one in machines:
        fleet.ledger.confirm(one)


def test_a_machine_drains_to_empty_though_room_comes_later_and_the_mover_dies(valkey, fleet, tmp_path):
    """One command that ends, and a mover that its service starts again; the planners plan what had no room.

    Nothing is moved twice, nothing is above its machine.
    """
    placed(fleet, **{f"more{n}": "hot" for n in range(6)})
    placed(fleet, **{f"full{n}": f"cold{n % 2 + 1}" for n in range(16)})
    names, moved = fleet.names, tmp_path / "moved"
    program = tmp_path / "move"
    program.write_text(  # the first time it takes the mover with it
        f'#!/bin/sh\necho "$1" >> {moved}\n[ -e {tmp_path}/died ] && exit 0\ntouch {tmp_path}/died\nkill -9 $PPID\n'
    )
    program.chmod(0o755)
    environ = {**mover_environment(valkey, names, tmp_path), "WINDWARD_MOVER_FILE": str(tmp_path / "in-hand")}
    words = [sys.executable, "docs/examples/mover.py", str(program)]

    def on_hot():
        held = where(fleet)
        for cold in ("cold1", "cold2"):
            assert sum(6e9 for one, at in held.items() if cold in at and not one.startswith("i")) <= 64 * 2**30
        return {one: to for one, (machine, to) in held.items() if machine == "hot"}

    every = ("--drain-s", "0.2", "--every", "0")
    running = [planner_process(valkey.url, names, *every) for _ in range(2)]
    with scorer_process(valkey.url, names), running[0], running[1]:
        eventually(lambda: fleet.wire.one("ZCARD", names.planners))
        done = fleet.command("drain", "hot", "--apply")
        assert done.returncode == 3, done.stderr  # some have no room
        assert subprocess.run(words, cwd=ROOT, env=environ, timeout=60, check=False).returncode == -signal.SIGKILL
        assert len(on_hot()) == 10
        again = subprocess.Popen(words, cwd=ROOT, env=environ)
        try:
            eventually(lambda: 0 < len(on_hot()) < 10 and not any(on_hot().values()))
            for number in range(8):
                fleet.ledger.release(f"full{number}")
            eventually(lambda: not on_hot())
            eventually(lambda: not fleet.proposals(names.moves_taken))
        finally:
            stop(again)
    runs = moved.read_text().split()
    assert len(runs) == 11, "ten instances, and again the one whose mover died"
    assert runs[0] == runs[1]
    assert len(set(runs)) == 10
    assert not fleet.waiting
    assert not fleet.proposals(names.moves_taken)


def test_an_undone_drain_is_not_planned_again(valkey, fleet, wire):
    """No planner asks for it after `--undo`, and a query that was asked before does nothing."""
    names = fleet.names
    one, two = (
        Drainer(fleet.ledger, Wire({"url": valkey.url}), PlannerSettings(prefix=names.prefix, name=name))
        for name in ("one", "two")
    )
    with answering(fleet, valkey.url):
        assert fleet.command("drain", "hot", "--apply", "--ttl-s", "1m").returncode == 0
        (before,) = one.due(time.time())
        assert two.due(time.time()) == [], "one has the lease"
        assert fleet.command("drain", "--undo", "hot").returncode == 0
        assert one.due(time.time()) == []
        wire.one("LPUSH", names.operator_queries, msgspec.json.encode(before))
        reply = eventually(lambda: wire.one("LRANGE", names.reply(before.id), 0, -1))
    assert msgspec.json.decode(reply[0])["result"]["drained"] == []
    assert not fleet.waiting
    assert wire.one("HGET", names.operator, "hot") is None


def test_what_a_planner_proposed_waits_once_when_the_machine_is_drained(valkey, fleet):
    """Two movers would else carry out one move: the drain's message takes the place of the planner's."""
    fleet.daemon(valkey.url, "one", every=0.5).turn(time.time())
    assert len(fleet.waiting) == 2
    with answering(fleet, valkey.url):
        assert fleet.command("drain", "hot", "--apply").returncode == 0
    assert [each.of_command for each in fleet.waiting] == [True] * 4


def test_what_a_command_gave_up_is_not_moved(valkey, fleet, tmp_path):
    """`drain --undo` takes its moves off the list; a move whose reservation ended is taken off by the planner."""
    with answering(fleet, valkey.url):
        for _ in range(2):  # again: nothing waits twice
            assert fleet.command("drain", "hot", "--apply").returncode == 0
            assert len(fleet.waiting) == 4
            assert fleet.command("drain", "--undo", "hot").returncode == 0
            assert not fleet.waiting
        assert fleet.command("drain", "hot", "--apply").returncode == 0
        given_up = fleet.waiting[0].instance
        assert fleet.command("update", given_up, "--cancel-move").returncode == 0
        one = fleet.daemon(valkey.url, "one", every=0.5)
        one.turn(time.time())
        assert given_up not in {each.instance for each in fleet.waiting if each.of_command}
        assert counted(one)["expired"] == 1


def test_moves_of_a_plan_are_on_the_list(valkey, fleet, tmp_path):
    """The mover carries out what the file of wanted instances says."""
    run = mover(valkey, fleet.names, tmp_path)
    wanted = tmp_path / "wanted.json"
    wanted.write_text(json.dumps([{"id": "i0", "cpu": 1.5, "memory": 1e9, "machine": "cold1"}]))
    with answering(fleet, valkey.url):
        done = fleet.command("plan", str(wanted), "--apply")
        assert done.returncode == 0, done.stderr
        assert "a mover takes the moves off the list" in done.stdout
        assert run(1, "exit 0") == ["i0 hot cold1 moved"]
        assert where(fleet)["i0"] == ("cold1", "")


@pytest.mark.parametrize("words", [["--help"], []])
def test_the_documented_mover_says_how_it_is_started(words):
    command = [sys.executable, "docs/examples/mover.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "python mover.py ./move-instance" in done.stderr


def test_the_documented_mover(valkey, fleet, tmp_path):
    """It reserves, runs the program, confirms, acknowledges; what fails is cancelled, what is overtaken not begun.

    An instance that ends while it moves does not end the mover, nor does an empty list: it waits for less than the time
    after which redis-py ends a read.
    """
    assert f"WAIT_S = {redis.connection.DEFAULT_SOCKET_TIMEOUT - 3}\n" in (ROOT / "docs/examples/mover.py").read_text()
    one, now_s, names = fleet.daemon(valkey.url, "one", every=0.5), time.time(), fleet.names
    moved, run = tmp_path / "moved", mover(valkey, names, tmp_path)
    one.turn(now_s)
    first, second = fleet.waiting
    with scorer_process(valkey.url, names), Client(valkey.url, names.prefix, timeout_s=60) as client:
        client.health()  # the mover waits 5 s for it
        assert run(1, f'echo "$@" > {moved}') == [f"{first.instance} hot {first.target} moved"]
        assert moved.read_text().split() == [first.instance, "hot", first.target]
        (failed,) = run(1, "exit 1")
        assert failed.startswith(f"{second.instance} hot {second.target} failed: ")
        one.turn(now_s + 1)
        assert counted(one) | {"proposed": 0} == {"proposed": 0, "done": 1, "declined": 1}
        wanted = fleet.waiting
        (released,) = run(1, f"{sys.executable} -m ops.cli.main release $1 >&2")
        assert " moved, not confirmed: FAILED_PRECONDITION: " in released
        wanted = fleet.waiting
        fleet.wire.one("SET", names.moves_fence, wanted[0].fence + 1)
        (overtaken,) = run(1, "exit 1")
        assert overtaken.endswith(" overtaken")
    assert where(fleet)[first.instance] == (first.target, "")
    assert where(fleet)[second.instance] == ("hot", "")


def test_apply_reserves_the_targets(valkey, fleet):
    """A scorer reserves each, and a plan made then counts them; what is not confirmed in time ends, nothing moved."""
    command = ("rebalance", "--json", "--rest-s", "0", "--moves-max", "2", "--apply")
    follower = Follower(fleet.ledger)

    def held():
        follower.poll()
        live = follower.view.instances.values()
        assert {one.machine for one in live} == {"hot"}
        return {one.id: one.moving.to for one in live if one.moving is not None}

    with answering(fleet, valkey.url):
        done = fleet.command(*command)
        assert done.returncode == 0, done.stderr
        moves = json.loads(done.stdout)["moves"]
        assert [move["applied"]["outcome"] for move in moves] == ["reserved"] * 2
        assert held() == {move["id"]: move["target"] for move in moves}
        again = json.loads(fleet.command(*command[:-1]).stdout)
        assert not {move["id"] for move in moves} & {move["id"] for move in again["moves"]}
        assert again["moved_in_hour"] == 2
        for one in [each for each in follower.view.instances.values() if each.moving is not None]:
            fleet.ledger.cancel_move(one)
        brief = json.loads(fleet.command(*command, "--ttl-s", "0.5").stdout)["moves"]
        assert [move["applied"]["outcome"] for move in brief] == ["reserved"] * 2
        eventually(lambda: not held())
        shown = fleet.command("rebalance", "--rest-s", "0", "--moves-max", "1", "--apply").stdout
        assert "1 target is reserved until" in shown
        assert f"windward confirm {next(iter(held()))} --machine" in shown
    silent = fleet.command(*command, timeout="0.2")
    assert (silent.returncode, silent.stdout) == (4, "")


@contextmanager
def process(url, names, *options):
    """Run a planner; end it afterwards, whatever became of it."""
    arguments = ["--redis-url", url, "--prefix", names.prefix, "--rest-s", "0", "--every", "0.2", *options]
    running = subprocess.Popen([sys.executable, "-m", "ops.cli.main", "planner", *arguments], env=dict(os.environ))
    try:
        yield running
    finally:
        if running.poll() is None:
            stop(running)


def test_a_killed_planner_is_overtaken(valkey, names, fleet):
    """Killed by -9: when its lease has run out another leads, with a newer fence; the page of each says who leads."""
    port = free_port()
    with process(valkey.url, names, "--lease-s", "1") as first:
        before = eventually(lambda: fleet.waiting)
        with process(valkey.url, names, "--lease-s", "1", "--metrics-port", str(port)) as second:

            def page():
                return without_fleet(get(port, "/metrics")[1])

            eventually(lambda: 'windward_planner_rounds_total{result="waiting"}' in page())
            first.send_signal(signal.SIGKILL)
            eventually(lambda: "windward_planner_leads 1.0" in page())
            after = eventually(lambda: [one for one in fleet.waiting if one.fence > before[0].fence])
            assert not [one for one in fleet.waiting if one.fence == before[0].fence]
            assert {one.id for one in after}.isdisjoint(one.id for one in before)
            second.send_signal(signal.SIGTERM)
            assert second.wait(20) == 0


def test_a_server_that_is_away_is_waited_for(names):
    """A turn that fails is counted, and the page says that it is not well."""
    wire = Wire({"url": f"redis://127.0.0.1:{free_port()}/0"})
    one = Fleet.__new__(Fleet)
    one.wire, one.names = wire, names
    daemon = one.daemon("redis://127.0.0.1:1/0", "one")
    assert daemon.turn(0.0) == 10.0
    assert not daemon.well
    with suppress(redis.ConnectionError):
        daemon.stop()


HALF = {"instances": {"cluster": "shop", "role": "master"}, "topology": "machine", "share": 0.5}


def shop(fleet, addresses=(), **on):
    """Place three shards of a cluster by machine, of whose masters half may share one: m0 and its replica r0."""
    for name, machine in on.items():
        labels = {"shard": name[1], **({"address": addresses[name]} if addresses else {})}
        role = {"m": "master", "r": "replica"}[name[0]]
        asked = {"cpu": 0.1, "cluster": "shop", "role": role, "anti_affinity": [HALF], "labels": labels}
        wanted = Wanted(instance_of(read_request(asked), "", 0.0, name), 300.0, [Candidate(machine, -1)])
        assert fleet.ledger.reserve([wanted]).outcomes[0].kind == "placed"
        fleet.ledger.confirm(name)


def masters(fleet):
    """Return the machines of the masters, as the ledger has it."""
    return sorted(one.machine for one in held(fleet) if one.role == "master")


def test_a_role_is_proposed_taken_done(valkey, fleet, tmp_path):
    """On a list of its own, which a mover that knows no roles never takes from; a failed one rests as a move does."""
    shop(fleet, m0="cold1", m1="cold1", m2="cold1", r0="cold2", r1="cold2", r2="cold2")
    names, now_s = fleet.names, time.time()
    one = fleet.daemon(valkey.url, "one", rule="repair", roles=True)
    with answering(fleet, valkey.url):
        for number, (program, done, machines) in enumerate(
            [("false", "failed", ["cold1"] * 3), ("true", "handed over", ["cold1", "cold1", "cold2"])]
        ):
            one.turn(now_s + 60 * number)
            (proposal,) = fleet.proposals(names.moves_roles)
            assert (proposal.kind, proposal.source, proposal.target, proposal.role) == (
                "role", "cold1", "cold2", "replica"
            )  # fmt: skip
            assert proposal.instance[1] == proposal.swap_role_with[1]
            assert (fleet.waiting, fleet.take()) == ([], None)
            one.turn(now_s + 60 * number + 30)
            assert len(fleet.proposals(names.moves_roles)) == 1
            (line,) = mover(valkey, names, tmp_path, program)(1, "exit 1")
            assert line.startswith(f"{proposal.instance} cold1 cold2 {done}")
            assert masters(fleet) == machines
    exchanged = [one for one in held(fleet) if one.swap]
    assert {one.id for one in exchanged} == {proposal.instance, proposal.swap_role_with}
    assert all(now_s <= one.swapped_at <= time.time() for one in exchanged)
    one.turn(now_s + 120)
    assert fleet.proposals(names.moves_roles) == fleet.proposals(names.moves_taken) == []
    assert counted(one) == {"proposed": 2, "declined": 1, "done": 1}


def test_apply_puts_an_exchange_on_the_list(valkey, fleet, tmp_path):
    """Once, also when it is applied again; a mover carries it out, and a planner leaves it on the list until then."""
    names = fleet.names
    shop(fleet, m0="cold1", m1="cold1", m2="cold1", r0="cold2", r1="cold2", r2="cold2")
    one, now_s = fleet.daemon(valkey.url, "one", rule="repair", roles=True), time.time()
    with answering(fleet, valkey.url):
        for _ in range(2):
            done = fleet.command("rebalance", "--rule", "repair", "--roles", "--rest-s", "0", "--apply")
            assert (done.returncode, done.stderr) == (0, "")
            assert "1 exchange of roles, without a copy: they are on the list for a mover" in done.stdout
            one.turn(now_s)
            (proposal,) = fleet.proposals(names.moves_roles)
            assert (proposal.of_command, proposal.role, proposal.source) == (True, "replica", "cold1")
        (line,) = mover(valkey, names, tmp_path, "true")(1, "exit 1")
        assert line.endswith("handed over")
        assert masters(fleet) == ["cold1", "cold1", "cold2"]
    one.turn(now_s + 60)
    assert fleet.proposals(names.moves_roles) == []


def test_a_role_that_another_planner_proposed_is_withdrawn(valkey, fleet):
    """From the list of roles, too; one that a mover took and left goes back there."""
    shop(fleet, m0="cold1", m1="cold1", m2="cold1", r0="cold2", r1="cold2", r2="cold2")
    names, now_s = fleet.names, time.time()
    one = fleet.daemon(valkey.url, "one", rule="repair", roles=True)
    one.turn(now_s)
    fleet.wire.one("BLMOVE", names.moves_roles, names.moves_taken, "RIGHT", "LEFT", 1)
    one.turn(now_s + 60)
    one.turn(now_s + 400)
    (again,) = fleet.proposals(names.moves_roles)
    assert (again.attempt, fleet.proposals(names.moves_taken), fleet.waiting) == (2, [], [])
    one.stop()
    two = fleet.daemon(valkey.url, "two", rule="repair")
    two.turn(now_s + 500)
    assert fleet.proposals(names.moves_roles) == []
    assert counted(two)["overtaken"] == 1


class Writer(threading.Thread):
    """Writes to a Redis Cluster, and keeps what was acknowledged: by a replica, too, while a machine may die."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self._cluster = redis.RedisCluster("127.0.0.1", port, decode_responses=True)
        self.acknowledged, self.stopping, self.one_copy = {}, threading.Event(), threading.Event()

    def run(self):
        for number in itertools.count():
            if self.stopping.is_set():
                return
            key = f"key-{number % 5000}"
            self.acknowledged.pop(key, None)  # until it is written again either value may be there
            with suppress(redis.RedisError):
                node = self._cluster.get_redis_connection(self._cluster.get_node_from_key(key)).client()
                alone = self.one_copy.is_set()
                if node.set(key, number) and (alone or node.execute_command("WAIT", 1, 500)):
                    self.acknowledged[key] = str(number)
                continue
            with suppress(redis.RedisError):
                self._cluster.nodes_manager.initialize()


@pytest.mark.slow
def test_masters_of_a_redis_cluster_go_back_without_a_copy(valkey, fleet, tmp_path):
    """A machine with one of three masters is killed and back: two at most share one, no acknowledged write is lost."""
    names = fleet.names
    environ = mover_environment(valkey, names, tmp_path)
    roles = [sys.executable, str(ROOT / "docs/examples/redis_roles.py")]
    one = fleet.daemon(valkey.url, "one", rule="repair", roles=True)
    with Cluster(tmp_path / "nodes", replicas=3) as cluster, answering(fleet, valkey.url):
        ports = dict(zip(("m0", "m1", "m2", "r0", "r1", "r2"), cluster.ports, strict=True))
        on = dict.fromkeys(("m0", "r1", "r2"), "cold1") | dict.fromkeys(("m1", "m2", "r0"), "cold2")
        shop(fleet, {name: f"127.0.0.1:{port}" for name, port in ports.items()}, **on)
        writer = Writer(ports["m1"])
        writer.start()

        def watched():
            subprocess.run([*roles, "--watch", "shop"], env=environ, check=True, timeout=60)
            return masters(fleet)

        def full_copies():
            return sum(cluster.node(port).info("stats")["sync_full"] for port in cluster.ports)

        try:
            eventually(lambda: len(writer.acknowledged) > 300)
            for name in ("m0", "r1", "r2"):
                cluster.signal(ports[name], signal.SIGKILL)
            eventually(lambda: cluster.is_primary(ports["r0"]))
            eventually(lambda: watched() == ["cold2"] * 3)
            writer.one_copy.set()
            for name in ("m0", "r1", "r2"):
                cluster.start(ports[name])
            eventually(lambda: cluster.is_whole() and len(cluster.primaries) == 3)
            written, copies = len(writer.acknowledged), full_copies()
            one.turn(time.time())
            (proposal,) = fleet.proposals(names.moves_roles)
            (line,) = mover(valkey, names, tmp_path, shlex.join(roles))(1, "exit 1")
            assert line.endswith("cold2 cold1 handed over")
            assert masters(fleet) == watched() == ["cold1", "cold2", "cold2"]
            assert cluster.is_primary(ports[proposal.swap_role_with])
            assert (proposal.copy_bytes, full_copies(), fleet.waiting) == (0, copies, [])
            eventually(lambda: len(writer.acknowledged) > min(written + 100, 4_900))
        finally:
            writer.stopping.set()
            writer.join(30)
        one.turn(time.time() + 60)
        assert fleet.proposals(names.moves_roles) == []
        assert counted(one) == {"proposed": 1, "done": 1}
        with redis.RedisCluster("127.0.0.1", ports["m1"], decode_responses=True) as client:
            lost = {key for key, value in writer.acknowledged.items() if client.get(key) != value}
        assert len(writer.acknowledged) > 300
        assert not lost
