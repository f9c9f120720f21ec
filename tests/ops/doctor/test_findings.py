"""What doctor says of what it found: each rule at a good and at a bad value, with what to do."""

import pytest
from msgspec.structs import replace

from ops.doctor.command import report
from ops.doctor.findings import (
    Attempt,
    Finding,
    capacity_findings,
    clock_findings,
    interface_findings,
    lack_findings,
    machine_findings,
    muted,
    name_findings,
    planner_findings,
    process_findings,
    redis_findings,
    replication_findings,
    rule_findings,
    scorer_findings,
    version_findings,
)
from schemas.messages.process import BEAT_S, SILENT_S, Process
from schemas.rpc.results import Violation
from schemas.values.hosts import host_id
from scorer.client import HealthResult

NOW_S = 4000.0
MACHINE_ID = "3d1219c7c4c5404aaa1f6d2a48adfda4"
GOOD = {"redis_version": "7.2.0", "aof_enabled": 1, "used_memory": 5e6, "maxmemory": 1e9}
HEALTH = HealthResult(
    ready=True, scorer="s", version="1", uptime_s=9.0, machines=1, machines_with_data=1, newest_sample_age_s=1.0,
    windows_s=[300], instances=3, ledger_change=7, profiles=["windward"], profile="windward",
)  # fmt: skip

BROKEN = Violation(
    rule="cluster=c by rack: skew 1", topology="rack", domain="r1", count=3, most=2, since=1.0, why="left", instances=[]
)


def process(silent_s, *, host="h", **changes):
    """A process whose last heartbeat is so long ago."""
    values = {"started": 0.0, "at": NOW_S - silent_s, **changes}
    return Process(host=host, pid=7, version="1", **{**values, "started": NOW_S - 1000.0 + values["started"]})


YOUNG = process(1.0, started=965.0)
ALIKE = {"s-1": process(1.0, details={"profiles": "a"})}
"""A scorer with profiles of its own."""


def unwell(**changes):
    return scorer_findings(replace(HEALTH, **changes), 1, 0)


@pytest.mark.parametrize(
    ("found", "level", "said", "do"),
    [
        pytest.param(redis_findings("R", GOOD, holds_ledger=True), "good", "7.2.0", "", id="redis"),
        pytest.param(redis_findings("R", GOOD | {"aof_enabled": 0}, holds_ledger=True), "warning",
                     "nothing is appended", "appendonly yes", id="no file"),
        pytest.param(redis_findings("R", GOOD | {"aof_enabled": 0}, holds_ledger=False), "good", "", "", id="windows"),
        pytest.param(redis_findings("R", GOOD | {"used_memory": 95e7}, holds_ledger=True), "warning", "95%",
                     "raise maxmemory", id="nearly full"),
        pytest.param(redis_findings("R", GOOD | {"used_memory": 1e9}, holds_ledger=True), "error", "100%", "raise",
                     id="full"),
        pytest.param(redis_findings("R", GOOD | {"aof_last_write_status": "err"}, holds_ledger=True), "error",
                     "append-only file could not", "disk", id="disk"),
        pytest.param(redis_findings("R", GOOD | {"evicted_keys": 7}, holds_ledger=False), "warning", "7 keys", "noevic",
                     id="evicted"),
        pytest.param(redis_findings("R", GOOD, holds_ledger=True, open_to_all=True), "warning", "no password",
                     "docs/security.md", id="open"),
        pytest.param(clock_findings(0.1, {"a": 0.2}), "good", "1 machine and", "", id="clocks"),
        pytest.param(clock_findings(-3.0, {}), "warning", "-3.0 s", "NTP", id="own clock"),
        pytest.param(clock_findings(None, {"a": 0.0, "b": -60.0, "c": 73.0}), "warning",
                     "5 s off or more: c (73 s ahead), b (60 s behind)", "NTP",
                     id="a machine's clock"),
        pytest.param(redis_findings("R", GOOD, holds_ledger=True, open_to_all=True, local=True), "note", "no password",
                     "docs/security.md", id="open to this host"),
        pytest.param(process_findings("stream", {"h-1": process(5.0)}, NOW_S), "good", "1 running: h-1", "", id="runs"),
        pytest.param(process_findings("stream", {"h-1": process(21.0)}, NOW_S), "error",
                     "not running: h-1 (process 7 of h), silent for 21s", "`kill -CONT 7` wakes it", id="frozen"),
        pytest.param(process_findings("stream", {"h-1": process(40.0), "h-2": process(1.0, started=500.0)}, NOW_S),
                     "warning", "silent for 40s; 1 more run", "start `windward stream`", id="one of two"),
        pytest.param(process_findings("stream", {"h-1": process(40.0), "h-2": YOUNG}, NOW_S), "good", "1 running: h-2",
                     "", id="replaced"),
        pytest.param(process_findings("stream", {"a-1": process(40.0, host="a"), "h-2": YOUNG}, NOW_S), "warning",
                     "not running: a-1 (process 7 of a)", "start", id="another host's replaces none"),
        pytest.param(process_findings("stream", {"h-1": process(50.0), "h-2": process(40.0), "h-3": YOUNG}, NOW_S),
                     "warning", "not running: h-2", "start", id="one for two"),
        pytest.param(process_findings("stream", {"h-1": process(1.0, ready=False, details={"topic": False})}, NOW_S),
                     "error", "h-1 runs and is not ready: the samples topic is missing", "log", id="not ready"),
        pytest.param(process_findings("scorer", {"h-1": process(21.0, user="s")}, NOW_S, {"s": Attempt(2.0, "a:1")}),
                     "error", "Redis refuses the password of h-1 (process 7 of h), last 2s ago", "docs/security.md",
                     id="refused by its password"),
        pytest.param(process_findings("planner", {"h-1": process(1.0, clock_ahead_s=-9.0)}, NOW_S)[1:], "warning",
                     "the clock of planner h-1 is -9.0 s", "NTP", id="a process's clock"),
        pytest.param(planner_findings(ALIKE, {}), "warning", "none runs: scorers refuse drain", "windward planner",
                     id="no planner"),
        pytest.param(planner_findings(ALIKE, {"p-1": process(1.0, details={"profiles": "b"})}), "warning",
                     "p-1: its profiles are not those of the scorers", "--profiles", id="a planner's profiles"),
        pytest.param(machine_findings({"a": 5.0}, [], [], {"a": 2}), "good", "1 machine, all", "", id="machines"),
        pytest.param(machine_findings({"a": 5.0, "b": 61.0}, [], [], {}), "warning", "1 of 2 silent: b, for up to 1m",
                     "agents there", id="a stale agent"),
        pytest.param(machine_findings({"a": 5.0, "b": 6.0, "c": 26.0}, [], [], {}), "warning", "1 of 3 silent: c",
                     "agents there", id="an agent that just stopped"),
        pytest.param(machine_findings({"a": 2.0, "b": 30.0, "c": 40.0}, [], [], {}), "good", "3 machines", "",
                     id="agents that send once a minute"),
        pytest.param(machine_findings({"a": 500.0}, [], [], {}), "error", "1 of 1", "broker", id="all stale"),
        pytest.param(machine_findings({"a": 5.0}, [], ["a", "b"], {}), "warning", "no data of 1 machine with",
                     "machines forget b", id="a ghost"),
        pytest.param(machine_findings({"a": 5.0}, [], [], {"x": 3}), "warning", "3 instances on 1 machine",
                     "--machine x", id="instances on a ghost"),
        pytest.param(machine_findings({}, [], [], {}), "error", "no machine has data", "start agents", id="nothing"),
        pytest.param(capacity_findings({"a": 32.0, "b": 32.0, "c": 1e6, "d": 400.0}), "warning",
                     "1 machine has over 16 times the median cores: c", "operator's `capacity`", id="a liar"),
        pytest.param(lack_findings({"a": {"cpu": "9 s busy, 1 s idle"}, "b": {}}), "warning",
                     "cpu is left out, or some readings of it, on a: 9 s busy", "resource.lacking", id="lacks CPU"),
        pytest.param(lack_findings({"a": {"nic": "no speed"}, "b": {"nic": "no speed"}}), "note",
                     "nic is left out, or some readings of it, on a, b: no speed", "log", id="lacks what is optional"),
        pytest.param(
            interface_findings({
                "a": {"names": "eth0"}, "b": {"names": "bond0, eno1"}, "c": {"kernel": "eno1, eno2"}, "d": {},
                "e": {"names": "eth0"}, "f": {"page": "ens3"}, "g": {"settings": "eth0, eth1"},
            }), "note", "decide which interfaces count: bond0, eno1 on b; eth0 on a, e", "--excluded",
            id="names alone"),
        pytest.param(interface_findings({name: {"names": f"eth{name}"} for name in "12345"}), "note",
                     "eth1 on 1; eth2 on 2; eth3 on 3; 2 other choices", "", id="many choices"),
        pytest.param(name_findings([], {"a": "h1", "b": "h2"}, {"a": 5.0, "b": 5.0}, {}), "good", "no name of 2", "",
                     id="names"),
        pytest.param(name_findings(["a"], {}, {"a": 5.0}, {}), "error", "two live hosts send as 'a'",
                     "WINDWARD_MACHINE", id="a name of two"),
        pytest.param(name_findings([], {"new": host_id(MACHINE_ID)}, {"new": 5.0, MACHINE_ID: 90.0}, {MACHINE_ID: 2}),
                     "warning", f"'new' is the host that was '{MACHINE_ID}', which has 2 instances",
                     f"windward machines rename {MACHINE_ID} new", id="known by its machine-id"),
        pytest.param(name_findings([], {"new": host_id(MACHINE_ID)}, {"new": 5.0}, {MACHINE_ID: 2}), "warning",
                     "2 instances", "rename", id="of which only the ledger knows"),
        pytest.param(name_findings([], {"new": "h", "old": "h"}, {"new": 5.0, "old": 90.0}, {}), "warning",
                     "'new' is the host that was 'old'", "rename old new", id="another name"),
        pytest.param(name_findings([], {"a": "h", "b": "h"}, {"a": 5.0, "b": 5.0}, {}), "warning",
                     "a, b have one machine-id", "systemd-machine-id-setup", id="a copied image"),
        pytest.param(name_findings([], {"a": "", "b": ""}, {"a": 5.0, "b": 5.0}, {}), "good", "", "", id="no ids"),
        pytest.param(version_findings({"scorer": ["1"], "agents": ["1", "1"]}), "good", "agents 1 (2)", "", id="one"),
        pytest.param(version_findings({"scorer": ["2"], "agents": ["1", "2"]}), "note", "agents 1, 2", "upgrading",
                     id="versions"),
        pytest.param(scorer_findings(HEALTH, 2, 0), "good", "2 running", "", id="scorer"),
        pytest.param(unwell(ready=False), "error", "not ready", "log", id="not ready"),
        pytest.param(unwell(degraded="old"), "error", "old", "broker", id="degraded"),
        pytest.param(unwell(degraded="none", machines=0), "good", "1 running", "", id="no machine yet"),
        pytest.param(unwell(ledger_unaccepted="emptied"), "error", "emptied", "docs/ledger.md", id="unaccepted"),
        pytest.param(unwell(ledger_check={"differences": 2}), "warning", "2 sums", "ledger check --repair", id="sums"),
        pytest.param(replication_findings(2, 0), "note", "2 replicas", "--acknowledged-by", id="replicas"),
        pytest.param(replication_findings(1, 2), "error", "wait for 2 replicas", "start a replica", id="no replicas"),
        pytest.param(rule_findings([BROKEN] * 2), "warning", "2 rules broken, such", "--violations", id="rules"),
        pytest.param(scorer_findings(HEALTH, 1, 5_000), "warning", "5000 queries wait", "another", id="queue"),
    ],
)  # fmt: skip
def test_a_finding_says_what_and_what_to_do(found, level, said, do):
    assert len(found) == 1
    assert found[0].level == level
    assert said in found[0].found
    assert do in found[0].do
    assert bool(found[0].do) == (level != "good")


def test_what_is_as_it_should_be_is_no_finding():
    """Replicas that are waited for; interfaces by the kernel, a page, a rule of the operator's, agents of before."""
    assert [replication_findings(*given) for given in ((0, 0), (2, 1), (2, 2), (None, 0))] == [[]] * 4
    decided = {"a": {"kernel": "eth0"}, "b": {"page": "eth0"}, "c": {"settings": "x, y"}, "d": {}}
    assert interface_findings(decided) == []


def test_a_report_fits_the_terminal():
    """Long findings are wrapped below each other, the remedy behind an arrow; the counts end it."""
    shown = report([Finding("Kafka", "warning", "word " * 40, "do this"), Finding("Redis", "good", "fine")], 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "-> do this" in shown
    assert shown.endswith("0 errors, 1 warning, 0 notes")


def test_what_follows_from_a_broker_that_is_away_is_a_note():
    """Its worker, its silent machines, the scorer's degradation; with another worker that runs, machines are judged."""
    broker = [Finding("Kafka", "error", "no answer for 7 s", "look at the broker")]
    details = {"redis": True, "broker": False, "topic": True, "assigned": 8, "loaded": 8}
    worker = process_findings("stream", {"h-1": process(1.0, ready=False, details=details)}, NOW_S)
    effects = machine_findings({"a": 5.0, "b": 90.0}, [], [], {}) + unwell(degraded="old")
    found = muted(broker + worker + effects)
    assert [one.area for one in found if one.level != "note"] == ["Kafka"]
    assert {one.do for one in found[1:]} == {"mend Kafka first: this follows from it"}
    assert worker[0].found == "h-1 runs and is not ready: it has no connection to the broker"
    alone = [one for one in muted(worker + effects) if one.level != "note"]
    assert [one.area for one in alone] == ["stream"], "the broker is not looked at: --no-broker"
    two = {"h-1": process(90.0), "h-2": process(1.0)}
    judged = muted(process_findings("stream", two, NOW_S) + effects)
    assert [one.area for one in judged if one.level == "note"] == []


def test_a_killed_process_is_named_within_ten_seconds():
    assert BEAT_S + SILENT_S <= 10.0
    assert SILENT_S >= 3 * BEAT_S, "two that are late are no fault"
