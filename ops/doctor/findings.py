"""Findings: rules that say what is wrong with a running Windward, and what to do. Pure.

Each rule takes plain values and returns findings. `ops.doctor.command` collects the values and prints what the rules
say.
"""

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from schemas.messages.process import CLOCK_OFF_S, Process, missing, running
from schemas.resources import OPTIONAL
from schemas.rpc.results import Violation
from schemas.tables.learned import CAPACITY_MOST
from schemas.values.hosts import host_id
from schemas.values.numbers import counted, duration
from schemas.values.redis_settings import not_appended
from scorer.client import HealthResult

Level = Literal["good", "note", "warning", "error"]
STALE_S = 60.0
LATE_S = 25.0
"""A machine is silent after so long, or 2.5 times the median age where agents send more seldom, but after `STALE_S`."""
SKEW_S_MAX = 5.0
"""Learned skew above this is not corrected: it counts as age."""
MEMORY_SHARE_MAX = 0.9
QUEUE_MAX = 100
SHOWN = 3
_MACHINE_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Finding:
    """The result of one check: area, level, what was found, what to do."""

    area: str
    level: Level
    found: str
    do: str = ""
    follows_from: str = ""
    """The area whose error, if it has one, explains this finding."""


def some(names: Collection[str]) -> str:
    """Return the first names, and how many more there are.

    >>> some(["a", "b", "c", "d", "e"])
    'a, b, c and 2 more'
    """
    first = ", ".join(list(names)[:SHOWN])
    return first + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def redis_findings(
    area: str, info: Mapping[str, Any], *, holds_ledger: bool, open_to_all: bool | None = None, local: bool = False
) -> list[Finding]:
    """Return the findings from INFO of a server: persistence (for a ledger), memory, rights (``open_to_all``).

    ``local``: the server is on loopback or a socket, like that of `windward up`. Open rights are no fault there.

    >>> [f.level for f in redis_findings("Redis", {"redis_version": "7.2.0", "aof_enabled": 1}, holds_ledger=True)]
    ['good']
    """
    found: list[Finding] = []
    used, most = float(info.get("used_memory", 0)), float(info.get("maxmemory", 0))
    if most and used > MEMORY_SHARE_MAX * most:
        said, do = (
            f"{used / most:.0%} of maxmemory is used",
            "raise maxmemory: a full server refuses placements and windows",
        )
        found.append(Finding(area, "error" if used >= most else "warning", said, do))
    if holds_ledger and (lost := not_appended(info)):
        found.append(Finding(area, "warning", lost, "set appendonly yes, appendfsync everysec: ops/redis/ledger.conf"))
    for status, what in (("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "last snapshot")):
        if info.get(status, "ok") != "ok":
            found.append(Finding(area, "error", f"the {what} could not be written", "look at its disk and its log"))
    if int(info.get("evicted_keys", 0)):
        said = f"{info['evicted_keys']} keys were evicted"
        found.append(Finding(area, "warning", said, "set maxmemory-policy noeviction"))
    if open_to_all:
        said = "every client may do everything: the default user has no password"
        do = "give each process a user of its own: docs/security.md"
        found.append(Finding(area, "note" if local else "warning", said, do))
    version = f"{info.get('valkey_version') or info.get('redis_version', 'of unknown version')}"
    return found or [Finding(area, "good", f"version {version}, {used / 1e6:.0f} MB used")]


def clock_findings(offset_s: float | None, skews_s: Mapping[str, float]) -> list[Finding]:
    """Return the findings on the clocks: this host's against Redis's, and machines' against the broker's."""
    found = []
    if offset_s is not None and abs(offset_s) > CLOCK_OFF_S:
        said = f"this host's clock is {offset_s:+.1f} s from that of Redis"
        do = "run NTP on both: calls from a host that is behind are answered DEADLINE_EXCEEDED"
        found.append(Finding("clocks", "warning", said, do))
    wrong = sorted((name for name, skew in skews_s.items() if abs(skew) >= SKEW_S_MAX), key=lambda n: -abs(skews_s[n]))
    if wrong:
        each = [f"{name} ({abs(skews_s[name]):.0f} s {'ahead' if skews_s[name] > 0 else 'behind'})" for name in wrong]
        said = f"clocks that are {SKEW_S_MAX:g} s off or more: {some(each)}"
        do = "run NTP there: samples of one ahead are refused, of one behind they count as old"
        found.append(Finding("clocks", "warning", said, do))
    return found or [Finding("clocks", "good", f"{counted(len(skews_s), 'machine')} and this host agree")]


def muted(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings; those that follow from another finding become notes that name it.

    >>> broker, worker = Finding("Kafka", "error", "away"), Finding("stream", "error", "not ready", "", "Kafka")
    >>> [one.level for one in muted([broker, worker, Finding("agents", "warning", "silent", "", "stream")])]
    ['error', 'note', 'note']
    >>> muted([broker, worker, Finding("agents", "warning", "silent", "", "stream")])[2].do
    'mend Kafka first: this follows from it'
    """
    wrong = {one.area: one.follows_from for one in reversed(found) if one.level == "error"}

    def cause(area: str) -> str:
        return cause(wrong[area]) if wrong[area] in wrong else area

    return [
        replace(one, level="note", do=f"mend {cause(one.follows_from)} first: this follows from it")
        if one.follows_from in wrong
        else one
        for one in found
    ]


class Attempt(NamedTuple):
    """When, and from where, Redis last refused the password of a user."""

    age_s: float
    address: str


def login_findings(refused: Mapping[str, Attempt], known: Collection[str]) -> list[Finding]:
    """Return findings on users whose password Redis refuses, without the ``known`` users of processes listed elsewhere.

    >>> login_findings({"deployer": Attempt(3.0, "10.0.0.5:4711")}, ())[0].found
    "Redis refuses the password of 'deployer', last 3s ago from 10.0.0.5:4711"
    """
    said = {
        user: f"Redis refuses the password of {user!r}, last {duration(one.age_s)} ago from {one.address}"
        for user, one in sorted(refused.items())
    }
    return [Finding("passwords", "warning", text, _RENEW) for user, text in said.items() if user not in known]


_RENEW = "give it the new password (docs/security.md, rotating a password): a file is read again by itself"
_LACKS = {
    "redis": "it has no connection to Redis",
    "broker": "it has no connection to the broker",
    "topic": "the samples topic is missing",
    "clock": "its clock is behind",
}


def unready(details: Mapping[str, Any]) -> str:
    """Return why a process is not ready, as a sentence, from the details of its page ``/ready``.

    >>> unready({"redis": True, "broker": False, "assigned": 8}), unready({"error": "away", "name": ""})
    ('it has no connection to the broker', 'away')
    """
    said = [words for name, words in _LACKS.items() if details.get(name) is False]
    said += [str(details[name]) for name in ("error", "trouble", "degraded", "window") if details.get(name)]
    if details.get("assigned") != details.get("loaded"):
        said += [f"{details.get('loaded', 0)} of {details.get('assigned', 0)} partitions are loaded"] * (not said)
    return "; ".join(said) or "it has not read its data yet"


def process_findings(
    what: str, processes: Mapping[str, Process], now_s: float, refused: Mapping[str, Attempt] = MappingProxyType({})
) -> list[Finding]:
    """Return the findings on the processes of one kind, from their heartbeats; none without heartbeats.

    ``refused``: the last refused login of each user whose password Redis refuses.
    """
    live, gone = running(processes, now_s), missing(processes, now_s)
    others = f"; {len(live)} more run" if live else ""
    found = []
    for name, one in gone.items():
        said = f"{name} (process {one.pid} of {one.host})"
        if attempt := refused.get(one.user or "default"):
            said = f"Redis refuses the password of {said}, last {duration(attempt.age_s)} ago"
            do = _RENEW
        else:
            said = f"not running: {said}, silent for {duration(now_s - one.at)}"
            do = f"start `windward {what}` there; its log says why it ended, or `kill -CONT {one.pid}` wakes it"
        found.append(Finding(what, "warning" if live else "error", said + others, do))
    some_ready = any(one.ready for one in live.values())
    for name, one in live.items():
        if not one.ready:
            cause = "Kafka" if one.details.get("broker") is False else ""
            said = f"{name} runs and is not ready: {unready(one.details)}"
            found.append(Finding(what, "warning" if some_ready else "error", said, "read its log", cause))
        if abs(one.clock_ahead_s) > CLOCK_OFF_S:
            said = f"the clock of {what} {name} is {one.clock_ahead_s:+.1f} s from that of Redis"
            found.append(Finding("clocks", "warning", said, "run NTP there; it goes on meanwhile"))
    if not live:
        return found
    good = Finding(what, "good", f"{len(live)} running: {some(sorted(live))}")
    return found if any(one.area == what for one in found) else [good, *found]


def planner_findings(scorers: Mapping[str, Process], planners: Mapping[str, Process]) -> list[Finding]:
    """Return the findings on the planners, where scorers run; scorers of older releases need no planner.

    >>> one = Process(host="h", pid=7, version="1", started=0.0, at=5.0, details={"profiles": "a"})
    >>> planner_findings({"h-7": one}, {})[0].found
    'none runs: scorers refuse drain, plan, rebalance, capacity and long lists'
    """
    profiles = {str(one.details["profiles"]) for one in scorers.values() if "profiles" in one.details}
    if not profiles:
        return []
    if not planners:
        said = "none runs: scorers refuse drain, plan, rebalance, capacity and long lists"
        return [Finding("planner", "warning", said, "start `windward planner`")]
    apart = sorted(name for name, one in planners.items() if {str(one.details.get("profiles"))} != profiles)
    if not apart:
        return []
    do = "give scorers and planners the same --profiles and --profile, then restart them or send SIGHUP"
    return [Finding("planner", "warning", f"{some(apart)}: its profiles are not those of the scorers", do)]


def machine_findings(
    ages_s: Mapping[str, float], silent: Collection[str], said_of: Collection[str], placed_on: Mapping[str, int]
) -> list[Finding]:
    """Return the findings on the machines: stale agents, and machines that only operators' rules or the ledger have.

    ``ages_s``: age of the newest sample by machine; ``silent``: machines known without one; ``said_of``: machines of
    operators' entries; ``placed_on``: instances by machine, as the ledger has them.
    """
    found = []
    most_s = min(STALE_S, max(LATE_S, 2.5 * statistics.median(ages_s.values()))) if ages_s else STALE_S
    stale = sorted((name for name, age in ages_s.items() if age > most_s), key=lambda name: -ages_s[name])
    if stale:
        said = f"{len(stale)} of {len(ages_s)} silent: {some(stale)}, for up to {duration(ages_s[stale[0]])}"
        level: Level = "error" if len(stale) == len(ages_s) else "warning"
        there = "look at the agents there: systemctl status windward-agent"
        do = "look at the broker and `windward stream`" if level == "error" else there
        found.append(Finding("agents", level, said, do, "stream"))
    known = {*ages_s, *silent}
    absent = sorted(set(said_of) - set(ages_s))
    if absent:
        said = f"no data of {counted(len(absent), 'machine')} with operators' rules: {some(absent)}"
        do = f"a typo, or one to come; `windward machines forget {absent[0]}` deletes the rules"
        found.append(Finding("machines", "warning", said, do))
    lost = sorted(name for name, count in placed_on.items() if count and name not in ages_s)
    if lost:
        count = counted(sum(placed_on[name] for name in lost), "instance")
        said = f"{count} on {counted(len(lost), 'machine')} without data: {some(lost)}"
        do = f"`windward instances list --machine {lost[0]}`; release what does not run"
        found.append(Finding("machines", "warning", said, do))
    if not ages_s:
        do = "start agents, and `windward stream`"
        return [*found, Finding("agents", "error", "no machine has data", do, "stream")]
    return found or [Finding("agents", "good", f"{counted(len(known), 'machine')}, all with fresh data")]


def capacity_findings(cores: Mapping[str, float]) -> list[Finding]:
    """Return the findings on the reported numbers of cores: one far above the others may be wrong."""
    known = [value for value in cores.values() if math.isfinite(value)]
    most = CAPACITY_MOST * statistics.median(known) if known else math.inf
    beyond = sorted((name for name, value in cores.items() if value > most), key=lambda name: -cores[name])
    if not beyond:
        return []
    count = "1 machine has" if len(beyond) == 1 else f"{len(beyond)} machines have"
    said = f"{count} over {CAPACITY_MOST:g} times the median cores: {some(beyond)}"
    do = "look at that agent; an operator's `capacity` replaces what it says (docs/operating.md)"
    return [Finding("machines", "warning", said, do)]


def lack_findings(lacks: Mapping[str, Mapping[str, str]]) -> list[Finding]:
    """Return one finding for each reason why machines lack a resource, or some of its readings."""
    machines = defaultdict[tuple[str, str], list[str]](list)
    for machine, said in lacks.items():
        for resource, why in said.items():
            machines[resource, why.partition(":")[0]].append(machine)
    return [
        Finding(
            "machines",
            "note" if resource in OPTIONAL else "warning",
            f"{resource} is left out, or some readings of it, on {some(names)}: {lacks[names[0]][resource]}",
            "the log of the agent or bridge has it as resource.lacking",
        )
        for (resource, _), names in sorted(machines.items())
    ]


def interface_findings(interfaces: Mapping[str, Mapping[str, str]]) -> list[Finding]:
    """Return the finding on machines whose interfaces count by name alone; the choice of most interfaces is first."""
    machines = defaultdict[str, list[str]](list)
    for machine, said in interfaces.items():
        if "names" in said:
            machines[said["names"]].append(machine)
    choices = sorted(machines, key=lambda one: (-one.count(","), -len(machines[one]), one))
    groups = [f"{one} on {some(machines[one])}" for one in choices[:SHOWN]]
    groups += [f"{len(choices) - SHOWN} other choices"] * (len(choices) > SHOWN)
    found = "names alone decide which interfaces count: " + "; ".join(groups)
    do = "where one carries another's traffic, leave it out: `windward bridge --excluded`, docs/bridge.md"
    return [Finding("machines", "note", found, do)] if groups else []


def name_findings(
    taken: Collection[str], host_of: Mapping[str, str], ages_s: Mapping[str, float], placed_on: Mapping[str, int]
) -> list[Finding]:
    """Return the findings on the names: two live hosts with one name, one host with two.

    ``taken``: machines of which another host's samples are refused; ``host_of``: the host's id by machine, where its
    agent sends one; the others as in `machine_findings`. A name that is a machine-id is of the host with that id.
    """
    found = [
        Finding("names", "error", f"two live hosts send as {name!r}: the second one is refused (name-taken)",
                "give one of them a name of its own: WINDWARD_MACHINE in /etc/default/windward-agent, or its --machine")
        for name in sorted(taken)[:SHOWN]
    ]  # fmt: skip
    if len(taken) > SHOWN:
        found.append(Finding("names", "error", f"so do hosts of {len(taken) - SHOWN} more machines", "likewise"))
    by_host: dict[str, list[str]] = defaultdict(list)
    for name in sorted({*host_of, *ages_s, *placed_on}):
        if host := host_of.get(name) or (host_id(name) if _MACHINE_ID.fullmatch(name) else ""):
            by_host[host].append(name)
    for names in by_host.values():
        live = [name for name in names if ages_s.get(name, math.inf) <= STALE_S]
        for old in names if len(live) == 1 else ():
            if old != live[0]:
                here = f", which has {counted(placed_on[old], 'instance')}" if placed_on.get(old) else ""
                said, do = (
                    f"{live[0]!r} is the host that was {old!r}{here}",
                    f"windward machines rename {old} {live[0]}",
                )
                found.append(Finding("names", "warning", said, do))
        if len(live) > 1:
            do = "a copied disk image: remove /etc/machine-id there, run systemd-machine-id-setup"
            found.append(Finding("names", "warning", f"{some(live)} have one machine-id", do))
    return found or [Finding("names", "good", f"no name of {len(ages_s)} is taken by two hosts")]


def version_findings(versions: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Return the versions side by side, by kind of process; one finding, a warning when they differ."""
    sides = []
    for kind, found in versions.items():
        counts = Counter(found)
        sides.append(f"{kind} " + ", ".join(f"{v} ({n})" if n > 1 else v for v, n in counts.most_common(SHOWN)))
    said = "; ".join(sides)
    if len({version for found in versions.values() for version in found}) == 1:
        return [Finding("versions", "good", said)]
    do = "mixed versions work during an upgrade: docs/upgrading.md has the order"
    return [Finding("versions", "note", said, do)]


def replication_findings(replicas: int | None, acknowledged_by: int) -> list[Finding]:
    """Return the findings on the replicas of the ledger's server; ``None``: their number is unknown.

    >>> [finding.level for count in (0, 1, 2) for finding in replication_findings(2, count)]
    ['note']
    """
    if replicas is None:
        return []
    if acknowledged_by > replicas:
        said = f"answers wait for {counted(acknowledged_by, 'replica')} of the ledger's server, which has {replicas}"
        return [Finding("ledger", "error", said, "nothing is placed: start a replica, or lower --acknowledged-by")]
    if replicas and not acknowledged_by:
        said = f"the ledger has {counted(replicas, 'replica')}, and answers wait for none: a failover may lose changes"
        return [Finding("ledger", "note", said, "docs/ledger.md says what `windward scorer --acknowledged-by` keeps")]
    return []


def ledger_findings(epochs: Mapping[str, str], own: str = "") -> list[Finding]:
    """Return the finding on scorers that do not share a ledger, from the epoch of each scorer's ledger; "": not known.

    ``own``: the epoch of the ledger that this command reads by its own settings. The scorers with it are right. Where
    no scorer has it, or it is not known, the majority is right.

    >>> ledger_findings({"a": "e1", "b": "e1"}), ledger_findings({"a": "e1", "b": "e2", "c": "e1"})[0].found
    ([], 'the scorers have 2 ledgers: b has another than a, c; each allocates the same room again')
    >>> ledger_findings({"a": "e1", "b": "e2"}, "e2")[0].found
    'the scorers have 2 ledgers: a has another than b and this command; each allocates the same room again'
    """
    scorers = defaultdict[str, list[str]](list)
    for name, epoch in sorted(epochs.items()):
        if epoch:
            scorers[epoch].append(name)
    if len(scorers) < 2:
        return []
    (right, first), *others = sorted(scorers.items(), key=lambda one: (one[0] != own, -len(one[1]), one[1]))
    apart = some([name for _, names in others for name in names])
    here = " and this command" * (right == own)
    said = f"the scorers have {len(scorers)} ledgers: {apart} has another than {some(first)}{here}"
    do = "stop the odd one; give all scorers the same --ledger-url, --redis-url and prefix"
    return [Finding("ledger", "error", f"{said}; each allocates the same room again", do)]


def rule_findings(broken: Sequence[Violation]) -> list[Finding]:
    """Return the finding on broken rules: how many there are, and the one that is broken longest."""
    if not broken:
        return []
    first = broken[0]
    of_first = f"{first.rule}: {first.count} on {first.domain}, {first.most} may be"
    said = f"{counted(len(broken), 'rule')} broken, such as {of_first}"
    return [Finding("rules", "warning", said, "windward instances list --violations")]


def scorer_findings(health: HealthResult, scorers: int, waiting: int) -> list[Finding]:
    """Return the findings on a scorer, from its health and the queries that wait."""
    found = []
    if not health.ready:
        found.append(Finding("scorer", "error", "it is not ready: it has not read windows and ledger", "read its log"))
    if health.degraded and health.machines:  # `machine_findings` says that there is none
        do = "look at broker, stream app and agents"
        found.append(Finding("scorer", "error", f"degraded: {health.degraded}", do, "stream"))
    for why in filter(None, (health.ledger_refusal, health.ledger_unaccepted)):
        found.append(Finding("ledger", "error", why, "docs/ledger.md says what to do"))
    differs = (health.ledger_check or {}).get("differences")
    if differs:
        said = f"{differs} sums or times differ from the instances"
        found.append(Finding("ledger", "warning", said, "windward ledger check --repair"))
    if waiting > QUEUE_MAX:
        found.append(Finding("queue", "warning", f"{waiting} queries wait", "start another `windward scorer`"))
    profile = f"profile {health.profile} of {len(health.profiles)}"
    good = f"{scorers} running, {waiting} in the queue, {counted(health.instances, 'instance')}, {profile}"
    return found or [Finding("scorer", "good", good)]
