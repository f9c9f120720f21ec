"""Every command, each text that another process can write to Redis: none reaches a terminal as it is."""

import itertools
import time

import msgspec
import pytest

from ops.cli.commands import COMMANDS, GROUPS
from schemas.messages.operator import OperatorFacts, Taint
from schemas.messages.process import KINDS, Process
from schemas.messages.proposal import MoveProposal
from schemas.tables.learned import Learned
from scorer.ledger.record.instance import Instance, KeptAffinity, KeptToleration, Rules
from scorer.ledger.record.transition import Candidate
from scorer.ledger.store.scripts import Ledger
from tests.integration.scorer.test_rpc import FRESH_S, planner_process, scorer_process
from tests.scorer.commands.test_hostile_texts import EVIL, clean
from tests.support.in_process import run_command
from tests.support.pages import eventually
from tests.window_tables import publish, window_table

GIB = 2.0**30
RUNNING = {*GROUPS["run"], "replay", "fold", "fleet"}
"""Processes, and what reads files alone."""
SHOWN = (
    "cluster", "role", "kind", "label", "operator-label", "taint", "beat", "rule", "id", "own", "learned", "profile",
)  # fmt: skip
"""What each text is called in it; each is printed by some command; labels of agents are refused."""


def evil(what):
    """Return the hostile text of one place, with its name in front."""
    return f"{what}{EVIL}"


def write(wire, names):
    """Write what agents, deployers, operators and processes may, with a hostile text wherever a text can be."""
    now_s = time.time()
    facts = {"v": 1, "type": "machine", "machine": "m1", "boot": now_s - 100, "at": now_s}
    facts |= {"capacity": {"cpu": 16.0}, "labels": {evil("agent-label"): evil("agent-value")}}
    publish(wire, names, [window_table(["m1", "m2", "m3"], at=now_s + FRESH_S, facts=1)], [{"m1": facts}])
    said = OperatorFacts(
        labels={evil("operator-label"): evil("operator-value")}, taints=(Taint(evil("taint"), evil("value"), "avoid"),)
    )
    wire.one("HSET", names.operator, "m1", msgspec.json.encode(said))
    wire.one("INCR", names.operator_version)
    rules = Rules(
        anti_affinity=(KeptAffinity({evil("rule"): evil("rule")}, "machine"),),
        tolerations=(KeptToleration(evil("toleration"), evil("value")),),
    )
    ledger = Ledger(wire, names)
    some = [
        Instance(
            id=name, machine=machine, state="confirmed", amounts=(1.0, GIB), cluster=evil("cluster"),
            role=evil("role"), kind=evil("kind"), labels={evil("label"): evil("label-value")}, request="x", rules=rules,
        )
        for name, machine in (("one", "m1"), (evil("id"), "m1"), ("moves", "m2"), ("ends", "m1"))
    ]  # fmt: skip
    ledger.correct(some)
    ledger.begin_move(ledger.all_instances()["moves"], [Candidate("m3", -1)], 600.0)
    for kind in KINDS:
        beat = Process(
            host=evil("host"), pid=7, version=evil("version"), started=now_s - 100, at=now_s - 60, page=evil("page"),
            ready=False, details={evil("detail"): evil("detail-value")},
        )  # fmt: skip
        wire.one("HSET", names.processes(kind), evil("beat"), beat.encode())
    groups = {group: {"cpu": 30.0} for group in ("", evil("learned"))}
    learned = Learned(
        kinds={evil("learned"): {"cpu": 0.5}}, instances=groups, deviations=groups, factors={"cpu": 0.5},
        scorer=evil("scorer"),
    )  # fmt: skip
    wire.one("SET", names.learned, msgspec.json.encode(learned))
    move = MoveProposal(
        id=evil("move"), fence=1, at=now_s, expires_at=now_s + 600, instance=evil("id"), generation=1, source="m1",
        target=evil("target"), gain=1.0, reason=evil("reason"),
    )  # fmt: skip
    wire.one("LPUSH", names.moves_waiting, msgspec.json.encode(move))
    for entry in (("x", evil("entry")), ("ids", evil("absent"), "method", evil("method"), "answer", '{"placed":5}')):
        wire.one("XADD", names.decisions, "*", *entry)


WANTED = '{"id": "wanted", "cpu": 1, "memory": "1G"}\n'
TRIED = {
    "place": [
        ("--id", "own", "--labels", f"{evil('own')}=x", "--cpu", "1", "--cluster", evil("cluster")),
        ("--id", evil("id"), "--cpu", "1"),
        ("--id", "ends", "--cpu", "2"),
        ("--cpu", "1", "--profile", evil("profile")),
        ("--cpu", "999", "--kind", evil("kind")),
    ],
    "confirm": [("one",), (evil("id"),), (evil("absent"),)],
    "update": [("one", "--role", evil("role")), (evil("id"), "--cpu", "2"), ("moves", "--machine", "m1")],
    "release": [("ends", "--dry-run"), (evil("absent"),), ("ends",)],
    "why": [("one",), ("own",), (evil("absent"),)],
    "instances": [(), ("list", "--wide"), ("show", "one"), ("show", evil("id"))],
    "events": [(), ("--since", "1h", evil("id"))],
    "plan": [("WANTED",)],
    "rank": [("--cpu", "1", "--memory", "1G", "--explain"), ("--cpu", "9999")],
    "capacity": [("--cpu", "1", "--memory", "1G"), ("--cpu", "1", "--memory", "1G", "--by", evil("operator-label"))],
    "health": [()],
    "top": [("--once",)],
    "doctor": [()],
    "machines": [(), ("list", "--wide"), ("show", "m1"), ("show", evil("absent")), ("label", "m2", "a=b")],
    "drain": [("m1",), ("m1", "--apply"), ("m3", "--apply", "--wait", "--wait-s", "0.1")],
    "rebalance": [()],
    "profiles": [(), ("show", evil("absent"))],
    "learned": [()],
    "ledger": [("check",)],
    "config": [("show", "place")],
}
"""By command, ways to call it."""


@pytest.fixture
def windward(valkey, names, wire):
    """A function that runs a command on that fleet."""
    write(wire, names)
    environ = {"WINDWARD_REDIS_URL": valkey.url, "WINDWARD_PREFIX": names.prefix, "WINDWARD_TIMEOUT": "30"}

    def run(*words):
        return run_command(*words, environ=environ)

    quiet = ("--log-level", "error")
    with scorer_process(valkey.url, names, *quiet), planner_process(valkey.url, names, *quiet):
        eventually(lambda: run("health").returncode == 0)
        eventually(lambda: "no planner" not in run("drain", "m3").stderr)
        yield run


def test_no_command_prints_a_text_of_another_as_it_is(windward, tmp_path):
    """For people and as JSON, what goes to stdout and to stderr; all commands, and every kind of text is among it."""
    assert TRIED.keys() == COMMANDS.keys() - RUNNING
    wanted = tmp_path / "wanted.jsonl"
    wanted.write_text(WANTED)
    raw, said = list[str](), ""
    for command, calls in TRIED.items():
        for words, more in itertools.product(calls, ((), ("--json",))):
            done = windward(command, *(str(wanted) if word == "WANTED" else word for word in words), *more)
            for stream, text in (("stdout", done.stdout), ("stderr", done.stderr)):
                try:
                    clean(text)
                except AssertionError as error:
                    raw.append(f"{command} {words} {more} {stream}: {error}"[:400])
            said += done.stdout + done.stderr
    assert not raw, "\n".join(raw)
    assert [what for what in SHOWN if f"{what}a" not in said] == []
