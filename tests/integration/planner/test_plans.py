"""``windward plan --apply`` and ``drain --apply`` on a real server while others place: whole, or not at all."""

import json
import os
import threading
import time
from contextlib import contextmanager, suppress
from itertools import count

import pytest

from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.commands.machines.machines import main as machines
from scorer.commands.planning.drain import main as drain
from scorer.commands.planning.plan import main
from scorer.commands.shared.ask import DirectClient
from tests.effort import effort
from tests.integration.scorer.test_rpc import FRESH_S, planner_process, scorer_process
from tests.support.pages import eventually
from tests.window_tables import publish, window_table

MACHINES = ["m0", "m1", "m2"]
"""Of 16 cores each."""
THERE = [
    {"id": "shrinks", "cpu": 4, "memory": "1G", "machine": "m0"},
    {"id": "grows", "cpu": 2, "memory": "1G", "machine": "m0"},
    {"id": "moves", "cpu": 2, "memory": "1G", "machine": "m0", "role": "replica", "labels": {"app": "x"}},
    {"id": "ruled", "cpu": 1, "memory": "1G", "machine": "m1", "limits": {"cpu": 2}},
    {"id": "old", "cpu": 1, "memory": "1G", "machine": "m2", "labels": {"app": "x"}},
]
WANTED = [
    {"id": "shrinks", "cpu": 2, "memory": "1G"},
    {"id": "grows", "cpu": 3, "memory": "1G"},
    {"id": "moves", "cpu": 3, "memory": "2G", "machine": "m1", "role": "master"},
    {"id": "ruled", "cpu": 1, "memory": "1G", "limits": {"cpu": 2}, "selector": "!gone"},
    {"id": "new", "cpu": 8, "memory": "1G", "count": 2},
]
SCOPE = ("--prune", "--prune-labels", "app=x")


class Fleet:
    """A user's terminal and a client, on two scorers."""

    def __init__(self, url, names, file):
        self.client = Client(url, names.prefix, timeout_s=60)
        self.environ = {"WINDWARD_REDIS_URL": url, "WINDWARD_PREFIX": names.prefix, "WINDWARD_TIMEOUT": "60"}
        self.file = file
        file.write_text("\n".join(map(json.dumps, WANTED)))

    def start(self):
        """Have the instances there that a plan changes."""
        for one in THERE:
            self.client.place(**one).confirm()

    def plan(self, *words):
        """Return the exit code of ``windward plan``."""
        return main([str(self.file), *SCOPE, *words], self.environ)

    def held(self):
        """Return what each instance is and holds, but for times and versions."""
        rows = {one["id"]: one for one in self.client.call("instances", {})["instances"]}
        for one in rows.values():
            for name in ("version", "reserved_at", "expires_at"):
                one.pop(name)
        return rows

    def promised(self):
        rows = {one["machine"]: one for one in self.client.call("machines", {})["machines"]}
        return [rows[name]["resources"]["cpu"]["promised"] for name in MACHINES]


@pytest.fixture(scope="module")
def answered(valkey):
    """Yield the names of three empty machines, for which two scorers and a planner answer."""
    names = Names(f"plans-{os.getpid()}")
    publish(valkey.url, names, [window_table(MACHINES, utilization=0.05, at=time.time() + FRESH_S)])
    planner = planner_process(valkey.url, names, "--every", "0", "--drain-s", "0")
    scorers = [scorer_process(valkey.url, names, "--name", name) for name in "ab"]
    with scorers[0], scorers[1], planner:
        yield names


@pytest.fixture
def fleet(valkey, answered, tmp_path):
    """The machines with the instances that a plan changes; empty again afterwards."""
    found = Fleet(valkey.url, answered, tmp_path / "wanted.jsonl")
    eventually(lambda: found.client.health()["machines"] == len(MACHINES))
    eventually(lambda: found.plan() != 255)  # a planner answers
    found.start()
    yield found
    assert machines(["uncordon", *MACHINES], found.environ) == 0
    for name, one in found.held().items():
        if one["moving"]:
            found.client.update(name, cancel_move=True)
        found.client.release(name)
    eventually(lambda: not found.held())
    found.client.close()


def before_call(monkeypatch, method, act):
    """Do something just before the command's first call of a method."""
    once, real = iter([act]), DirectClient._ask

    def call(self, kind, asked, *how):
        if asked == method:
            next(once, lambda: None)()
        return real(self, kind, asked, *how)

    monkeypatch.setattr(DirectClient, "_ask", call)


def test_one_run_moves_and_resizes(fleet, capsys):
    """Everything of the file is under way after one run, and there after the confirmations."""
    assert fleet.plan("--apply") == 0
    said = capsys.readouterr().out.splitlines()
    assert "2 to place, 1 to move, 2 to change, 1 to update, 1 to release, 0 refused" in said[-3]
    assert said[-2].startswith("2 instances are reserved, the first until ")
    assert said[-1].startswith("1 target is reserved until ")
    moves = fleet.held()["moves"]
    assert (moves["cpu"], moves["moving"]["new"]["amounts"][:2], moves["role"]) == (2.0, [3.0, 2e9], "master")
    assert fleet.plan() == 0
    fleet.client.confirm("moves", machine="m1")
    for name in ("new-1", "new-2"):
        fleet.client.confirm(name)
    assert fleet.plan() == 0
    held = fleet.held()
    assert {name: (one["cpu"], one["role"]) for name, one in held.items()} == {
        "shrinks": (2, ""), "grows": (3, ""), "moves": (3, "master"), "ruled": (1, ""), "new-1": (8, ""),
        "new-2": (8, ""),
    }  # fmt: skip
    assert sum(fleet.promised()) == 2 + 3 + 3 + 1 + 16


@pytest.mark.parametrize("stop", ["update", "place", "release"])
def test_a_run_that_broke_off_is_finished_by_another(fleet, monkeypatch, capsys, stop):
    """Killed before any of its calls, it leaves what the next run goes on with."""

    class Killed(Exception):
        pass

    def killed():
        raise Killed

    calls, real = count(), DirectClient._ask
    at = {"release": 0, "update": 4, "place": 6}[stop]

    def call(self, kind, method, *how):
        if method != "plan" and next(calls) == at:
            assert method == stop
            killed()
        return real(self, kind, method, *how)

    monkeypatch.setattr(DirectClient, "_ask", call)
    with pytest.raises(Killed):
        fleet.plan("--apply")
    assert fleet.plan("--apply") == 0
    assert fleet.plan() == 0
    assert fleet.held()["moves"]["moving"]["new"]["amounts"][0] == 3.0


def test_whole_or_not_at_all_while_another_takes_the_room(fleet, monkeypatch, capsys):
    """All that was done is undone, the words say so; when the room is back the same command does it all."""
    before, sums = fleet.held(), fleet.promised()

    def rival():
        for machine in MACHINES:
            assert fleet.client.place(id=f"rival-{machine}", cpu=7, memory="1G", machine=machine).machine

    before_call(monkeypatch, "place", rival)
    assert fleet.plan("--apply", "--all-or-nothing") == 1
    told = capsys.readouterr()
    assert "stopped at 'new-1' (place): " in told.err
    assert "4 steps before it are undone: nothing has changed" in told.err
    assert [line.split()[4] for line in told.out.splitlines()[1:5]] == ["undone"] * 4
    for machine in MACHINES:
        fleet.client.release(f"rival-{machine}")
    assert fleet.held() == before
    assert fleet.promised() == sums
    assert fleet.plan("--apply", "--all-or-nothing", "--json") == 0
    assert {one["id"] for one in json.loads(capsys.readouterr().out)["steps"] if one["done"]} == {
        *(one["id"] for one in THERE), "new-1", "new-2",
    }  # fmt: skip


@pytest.mark.slow
def test_what_cannot_be_put_back_is_named(fleet, monkeypatch, capsys):
    """The room that a step gave back belongs to others now: the rest is undone."""
    idle = {"memory": "1G", "expected": {"cpu": 0.1}}
    assert fleet.client.place(id="fill", cpu=7, machine="m0", **idle).machine

    def rival():
        for machine, cpu in (("m0", 2), ("m1", 9), ("m2", 9)):
            assert fleet.client.place(id=f"rival-{machine}", cpu=cpu, machine=machine, **idle).machine

    before_call(monkeypatch, "place", rival)
    before = fleet.held()
    fleet.file.write_text("\n".join(map(json.dumps, [WANTED[0], WANTED[2], WANTED[4]])))
    assert fleet.plan("--apply", "--all-or-nothing", "--json") == 1
    told = capsys.readouterr()
    assert "1 cannot be: 'shrinks' (change): 'shrinks' cannot be updated: too much cpu promised" in told.err
    answer = json.loads(told.out)
    assert answer["undone"] is False
    assert [(one["id"], one.get("undone", False), "left" in one) for one in answer["steps"][:2]] == [
        ("shrinks", False, True), ("moves", True, False),
    ]  # fmt: skip
    after = fleet.held()
    assert after.pop("shrinks")["cpu"] == 2
    assert {name: one for name, one in after.items() if name in before} == {
        name: one for name, one in before.items() if name != "shrinks"
    }


@contextmanager
def rival_of(fleet, numbers):
    """Another client that takes room and gives all of it back, until the end of the ``with``."""
    over = threading.Event()

    def run():
        with Client(fleet.environ["WINDWARD_REDIS_URL"], fleet.environ["WINDWARD_PREFIX"], timeout_s=60) as client:
            while not over.is_set():
                name = f"rival-{next(numbers)}"
                with suppress(WindwardError):
                    client.place(id=name, cpu=9, memory="1G")
                for _ in range(10):
                    try:
                        client.release(name)
                    except WindwardError as error:
                        if error.retryable:
                            continue
                    break

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.long
def test_whole_or_not_at_all_whoever_else_places(fleet, capsys):
    """While another client takes and gives room back, each run leaves all as it was, or all as it is wanted.

    The other client rests while the instances are placed anew: it would take their room.
    """
    numbers, own = count(), {one["id"] for one in THERE}
    before = {name: one for name, one in fleet.held().items() if name in own}
    codes = []
    for _ in range(effort(4, 100)):
        with rival_of(fleet, numbers):
            codes.append(fleet.plan("--apply", "--all-or-nothing"))
        told = capsys.readouterr()
        now = {name: one for name, one in fleet.held().items() if not name.startswith("rival")}
        if codes[-1] == 0:
            assert now.keys() == own - {"old"} | {"new-1", "new-2"}
            fleet.client.update("moves", cancel_move=True)
            for name in now:
                fleet.client.release(name)
            eventually(lambda: not {*own} & {*fleet.held()})
            fleet.start()
            before = {name: one for name, one in fleet.held().items() if name in own}
        elif "cannot be" not in told.err:
            assert now == before, told.err
        else:
            break
    assert set(codes) <= {0, 1, 3, 4}, told.err  # 4: overtaken every time


def test_a_machine_that_is_closed_or_unknown_is_named(fleet, capsys):
    """What is on a cordoned machine stays; what is wanted there, or nowhere, is refused and the words say which."""
    assert machines(["cordon", "m1"], fleet.environ) == 0
    fleet.file.write_text("\n".join(map(json.dumps, [
        {"id": "ruled", "cpu": 1, "memory": "1G", "limits": {"cpu": 2}, "machine": "m1"},
        {"id": "shrinks", "cpu": 4, "memory": "1G", "machine": "m1"}, {"id": "new", "machine": "m9"},
    ])))  # fmt: skip
    capsys.readouterr()
    assert main([str(fleet.file)], fleet.environ) == 3
    told = capsys.readouterr().out.splitlines()
    assert "the file names the machine; 0/3 feasible: 2 not the machine asked for, 1 cordoned" in told[1]
    assert "there is no machine 'm9'" in told[2]
    assert "2 refused, 1 unchanged" in told[-1]


def test_drained_twice_and_undone_twice(fleet, capsys):
    """The second time says what is under way, or that there is nothing to do; neither fails."""
    assert drain(["m0", "--apply"], fleet.environ) == 0
    before = fleet.held()
    capsys.readouterr()
    assert drain(["m0", "--apply"], fleet.environ) == 0
    told = capsys.readouterr().out
    assert told.count(" already\n") == 3
    assert "m0: cordoned; " in told
    assert fleet.held() == before
    assert drain(["--undo", "m0"], fleet.environ) == 0
    assert capsys.readouterr().out.count("its move is cancelled") == 3
    assert drain(["--undo", "m0"], fleet.environ) == 0
    assert capsys.readouterr().out == "m0: takes instances again; no operators' rules\n"
    assert all(one["moving"] is None for one in fleet.held().values())
