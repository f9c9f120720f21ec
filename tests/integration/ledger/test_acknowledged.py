"""Changes of the ledger that are answered when its replicas have them."""

import signal
import threading
import time

import pytest
import redis

from ops.stack.servers.process import free_port
from schemas.rpc.request import Request
from scorer.client import Client, WindwardError
from scorer.ledger.record.instance import copy_with
from scorer.ledger.record.transition import Call, Candidate, Change, NotAcknowledged, Wanted
from scorer.ledger.store.scripts import WAIT_S, Ledger
from scorer.ledger.view.view import instance_of
from scorer.wire import Wire
from tests.conftest import start_valkey
from tests.integration.scorer.test_rpc import scorer_process
from tests.support.pages import eventually
from tests.window_tables import publish, window_table


class Pair:
    def __init__(self, folder):
        self.port, replica = free_port(), free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.processes = []
        for port, options in ((self.port, ()), (replica, ("--replicaof", f"127.0.0.1 {self.port}"))):
            (folder / str(port)).mkdir()
            self.processes.append(start_valkey(port, folder / str(port), "--repl-diskless-sync-delay", "0", *options))
        with redis.Redis(port=self.port) as server:
            server.set("first", 1)
            eventually(lambda: server.wait(1, 100))

    def replica(self, how):
        self.processes[1].send_signal(how)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Yield a server and its replica, which is awake again after each test."""
    found = Pair(tmp_path_factory.mktemp("pair"))
    yield found
    for process in found.processes:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


class Recorded(Wire):
    """A connection that notes what is asked in each round trip."""

    def __init__(self, arguments):
        super().__init__(arguments)
        self.asked = []

    def ask(self, commands, *more, **named):
        self.asked.append([str(command[0]) for command in commands])
        return super().ask(commands, *more, **named)


def reserve(ledger, name, query, **more):
    call = Call(query, time.time() + 600)
    wanted = Wanted(instance_of(Request(id=name, cpu=1.0), "", time.time()), 300.0, [Candidate("m1", -1)], call)
    return ledger.reserve([wanted], **more)


def steps(ledger, name):
    """Return each step of an instance's life, as one that a query of its own takes."""
    call = {step: Call(f"{name}-{step}", time.time() + 600) for step in ("confirm", "update", "release")}

    def update():
        old = ledger.find(name)
        new = copy_with(old, labels={"team": "db"})
        return ledger.update([Change(old, new, [Candidate("m1", -1)])], call=call["update"])

    return {
        "reserve": lambda: reserve(ledger, name, f"{name}-reserve"),
        "confirm": lambda: ledger.confirm(name, call=call["confirm"]),
        "update": update,
        "release": lambda: ledger.release(name, call=call["release"]),
    }


def test_a_step_is_one_round_trip(valkey, pair, names):
    """With the setting at 0 of one command; else WAIT goes with it, and not with a trial or what no query asked for."""
    for url, count, wait in ((valkey.url, 0, []), (pair.url, 1, ["SET", "WAIT"])):
        wire = Recorded({"url": url})
        ledger = Ledger(wire, names, acknowledged_by=count)
        ledger.open()
        for step in steps(ledger, "a").values():
            wire.asked.clear()
            step()
            scripts = [one for one in wire.asked if one[0].startswith("EVAL")]
            assert [one[1:] for one in scripts] == [wait] * len(scripts)
        wire.asked.clear()
        reserve(ledger, "b", "b", dry_run=True)
        ledger.expire()
        ledger.lease("check", "me", 1.0)
        assert all(len(one) == 1 for one in wire.asked)
        wire.close()


@pytest.mark.parametrize("step", ["reserve", "confirm", "update", "release"])
def test_what_no_replica_has_is_not_answered(pair, names, step):
    """Soon, on whatever connection it is repeated; when the replica is back, the same query finds what it did."""
    wires = [Wire({"url": pair.url}) for _ in range(2)]
    first, second = [steps(Ledger(wire, names, acknowledged_by=1), "a") for wire in wires]
    for before in first:
        if before == step:
            break
        first[before]()
    pair.replica(signal.SIGSTOP)
    try:
        for act in (first[step], second[step]):
            started = time.monotonic()
            with pytest.raises(NotAcknowledged, match="when 1 replicas have it: 0 have"):
                act()
            assert WAIT_S <= time.monotonic() - started < WAIT_S + 1
        with pytest.raises(NotAcknowledged):
            first[step]()
        assert time.monotonic() - started < WAIT_S + 1, "the second wait in vain was as long"
    finally:
        pair.replica(signal.SIGCONT)

    def again():
        try:
            return second[step]()
        except NotAcknowledged:
            return None

    (outcome,) = eventually(again).outcomes
    assert outcome.kind in ("known", "repeat")
    with redis.Redis(port=pair.port) as server:
        done = int(server.hget(names.ledger("head"), "change") or 0)
    assert [*first][done - 1] == step, "done twice, or not at all"
    for wire in wires:
        wire.close()


def test_a_query_is_answered_once_the_replica_is_back(pair, names):
    """UNAVAILABLE to one who does not wait; a client that does gets its one placement. Many cost one wait a step."""
    wire = Wire({"url": pair.url})
    publish(wire, names, [window_table(["m1", "m2"], at=time.time() + 3600)])
    scorer = scorer_process(pair.url, names, "--acknowledged-by", "1")
    with scorer, Client(pair.url, names.prefix, timeout_s=30) as client:
        assert client.health().ledger_acknowledged_by == 1
        assert client.place(id="a", cpu=0.1).machine
        pair.replica(signal.SIGSTOP)
        back = threading.Timer(1.5, lambda: pair.replica(signal.SIGCONT))
        try:
            with pytest.raises(WindwardError, match="when 1 replicas have it") as refused:
                client.place(id="b", cpu=0.1, timeout_s=0.8)
            assert (refused.value.code, refused.value.retryable) == ("UNAVAILABLE", True)
            back.start()
            assert client.place(id="c", cpu=0.1).machine
            assert client.confirm("a").state == "confirmed"
        finally:
            back.join()
            pair.replica(signal.SIGCONT)
        assert client.instances().total == 3
        before = calls(wire)
        assert len(client.place(count=40, cpu=0.01).placed) == 40
        after = calls(wire)
        waited, reserved = (after[name] - before[name] for name in ("wait", "evalsha"))
        assert waited <= reserved < 20
    wire.close()


def calls(wire):
    """Return how often each command was called."""
    lines = wire.one("INFO", "commandstats").decode().splitlines()
    found = (line.removeprefix("cmdstat_").partition(":calls=") for line in lines if line.startswith("cmdstat_"))
    return {name: int(rest.partition(",")[0]) for name, _, rest in found}
