"""Several scorers and many clients on a nearly full fleet; the laws are checked from the ledger's own history.

    python -m tests.bench.bench_scorers [--scorers 4] [--clients 8] [--placements 100000] [--machines 200]
        [--classes] [--usage-every-s 2] [--disturb] [--freeze-redis]

Clients place instances of unlike sizes, confirm, resize, move and release some, forget others so that they expire; they
begin moves and confirm, cancel, release or forget them.
Every change of the ledger is then replayed: no machine was ever over its limit, no id was on two machines, every
answer a client got is in the history, and in the end nothing is left. The exit code says whether all of it held. With
``--classes`` instances are of mixed priority classes, and each class stays within its sum (`tests.bench.class_sums`).
With ``--usage-every-s`` what they use is measured and changes (`tests.bench.class_sums`). In the end, before all is
released, the ledger's sums are compared with its instances, and what ``windward drain --evict`` says with what is too
much.

With ``--disturb`` every second or so a scorer is killed and started again, or frozen for up to three seconds. A script
of constant work (about 1 ms) runs beside, since SLOWLOG counts the time, too, for which a busy machine gave Redis no
processor: scripts of the ledger are too slow that took `SLOW_US` and three times the longest of those. With
``--freeze-redis`` Redis is frozen, too, for up to one second, and no script is judged.
"""

import json
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

from schemas.names import Names
from scorer.client import Client, WindwardError
from scorer.ledger.record.instance import LIVE
from scorer.ledger.store.check import Check
from scorer.ledger.store.scripts import Ledger
from scorer.wire import AWAY, Wire
from tests.bench.class_sums import PROFILE, ChangingUsage, ClassSums, eviction_faults
from tests.bench.pairs import read_options
from tests.conftest import free_port, start_valkey, stop
from tests.support.history import steps
from tests.support.witness import Witness, read_history, verdict_on
from tests.window_tables import publish, window_table

CAPACITY = (16.0, 64e9, 1.25e9)
KNOWN_S = 15.0
"""A scorer goes by measured usage of so long ago at most: it reads that every five seconds, and rounds take some."""
CLASSES = ("prod", "prod", "prod", "mid", "batch", "batch", "free")
SLOW_US = 50_000
MEASURE = "local sum = 0 for i = 1, 30000 do sum = sum + i % 7 end return sum"
"""Constant work, in Lua."""
SIZES = ((1.0, 4e9), (2.0, 2e9), (0.5, 8e9), (3.0, 12e9), (0.1, 1e8))


@dataclass
class Report:
    """What clients were told, and what the history says."""

    answers: Counter[str]
    faults: list[str]
    changes: int = 0
    fullest: float = 0.0
    fullest_of_class: Counter[str] = field(default_factory=Counter)
    """By class, in per cent of its sum."""
    changing: int = 0
    """Instances of batch and free that came where what they may have was changing."""


def client_process(url, prefix, number, placements, out, classes=False, pause=None):
    """Place, and treat what was placed as deployers do; all wait at ``pause`` before they release what is left."""
    with Client(url, prefix, timeout_s=30) as client:
        deployer = Deployer(client, number, classes)
        for turn in range(placements):
            try:
                deployer.place(turn)
            except WindwardError as error:
                deployer.answers[error.code] += 1
        if pause is not None:
            pause.wait()
            pause.wait()
        for name in deployer.held:
            try:
                deployer.call("release", name)
            except WindwardError as error:
                deployer.answers[error.code] += 1
    out.put((deployer.answers, deployer.told))


class Deployer:
    def __init__(self, client, number, classes=False):
        self.classes = CLASSES if classes else ("prod",)
        self.answers = Counter()
        self.told = []
        self.held = []
        self.call = Witness(client, self.told.extend)
        self._number = number
        self._dice = random.Random(number)

    def place(self, turn):
        name, (cpu, memory) = f"c{self._number}-{turn}", self._dice.choice(SIZES)
        port = 6379 + self._dice.randrange(40)
        of = self._dice.choice(self.classes)
        answer = self.call("place", name, cpu=cpu, memory=memory, ports=[port], ttl_s=2, top=1, priority_class=of)
        self.answers["conflicts"] += answer["conflicts"]
        if answer["machine"] is None:
            self.answers["no machine"] += 1
            for _ in range(min(3, len(self.held))):  # make room
                self.call("release", self.held.pop(self._dice.randrange(len(self.held))))
            return
        self.answers["placed"] += 1
        if turn % 10 == 0:
            self._place_batch(turn, cpu)
        self._go_on(name)

    def _place_batch(self, turn, cpu):
        whole = turn % 20 == 0
        batch = self.call(
            "place",
            f"b{self._number}-{turn}",
            cpu=cpu,
            count=3,
            all_or_nothing=whole,
            ttl_s=2,
            priority_class=self._dice.choice(self.classes),
        )
        names = [one["id"] for one in batch["placed"]]
        self.answers["batched"] += len(names)
        self.answers["torn batches"] += whole and len(names) not in (0, 3)
        for name in names:
            self.call("confirm", name)
            self.held.append(name)

    def _go_on(self, name):
        fate = self._dice.random()
        if fate < 0.75:
            self.call("confirm", name)
            self.held.append(name)
        elif fate < 0.85:
            self.call("release", name)
        if self.held and fate < 0.05:
            self.call("update", self._dice.choice(self.held), cpu=self._dice.choice(SIZES)[0])
        elif self.held and fate < 0.08:
            self.call("update", self._dice.choice(self.held), machine="")
        elif self.held and fate < 0.3:
            self._move(self._dice.choice(self.held))

    def _move(self, name):
        """Begin a move, and do one of the things that a deployer does then, or nothing, as one that died."""
        record = self.call("update", name, machine="", move=True, ttl_s=1)
        moving = record["moving"]
        if moving is None:  # it is where it is best
            self.answers["stayed"] += 1
            return
        self.answers["moving"] += 1
        fate = self._dice.random()
        if fate < 0.5:
            self.call("confirm", name, machine=moving["to"], generation=record["generation"], move=moving["number"])
            self.answers["moved"] += 1
        elif fate < 0.6:
            self.call("update", name, cancel_move=True)
        elif fate < 0.7:
            self.call("release", name)
            self.held.remove(name)


def disturb(scorers, start, server, ended, done):
    """Kill and start again or freeze a scorer, or freeze the server where it is given, until the clients have ended."""
    dice = random.Random(1)
    while not ended.wait(dice.uniform(0.3, 1.5)):
        place, kind = dice.randrange(len(scorers)), dice.random() * (0.75 if server is None else 1)
        if kind < 0.35:
            scorers[place].kill()
            scorers[place].wait()
            scorers[place] = start(place)
            done["scorers killed"] += 1
            continue
        frozen, most_s = (scorers[place], 3.0) if kind < 0.75 else (server, 1.0)
        frozen.send_signal(signal.SIGSTOP)
        time.sleep(dice.uniform(0.05, most_s))
        frozen.send_signal(signal.SIGCONT)
        done["Redis frozen" if frozen is server else "scorers frozen"] += 1


def measure(url, ended):
    """Run the script of constant work until then; SLOWLOG has it as EVAL, the ledger's as EVALSHA."""
    wire = Wire({"url": url})
    while not ended.wait(0.02):
        with suppress(*AWAY):
            wire.one("EVAL", MEASURE, 0)
    wire.close()


@contextmanager
def disturbing(url, scorers, start, server):
    """Yield a count of what was done to scorers and server within the block."""
    ended, done = threading.Event(), Counter()
    beside = [
        threading.Thread(target=disturb, args=(scorers, start, server, ended, done)),
        threading.Thread(target=measure, args=(url, ended)),
    ]
    for thread in beside:
        thread.start()
    try:
        yield done
    finally:
        ended.set()
        for thread in beside:
            thread.join()


def contend(
    url, names, *, scorers, clients, placements, machines, kill=False, classes=False, usage_every_s=0.0, known_s=0.0,
    disturbed=False, server=None,
):  # fmt: skip
    """Run scorers and clients on a server; return the report and how long the clients took.

    ``known_s``: of how old measured usage a scorer may still go by; 0: any. ``server``: frozen, too, where scorers are
    ``disturbed``.
    """
    with tempfile.TemporaryDirectory() as directory:
        profile = Path(directory) / "by_class.toml"
        profile.write_text(PROFILE)
        arguments = ["--profiles", str(profile), "--profile", "by_class"] if classes else []
        given = scorers, clients, placements, machines, kill, arguments, usage_every_s, known_s, disturbed, server
        return _contend(url, names, *given)


def _contend(
    url, names, scorers, clients, placements, machines, kill, arguments, usage_every_s, known_s, disturbed, server
):
    wire = Wire({"url": url})
    fleet, at = [f"m{number:04d}" for number in range(machines)], time.time() + 3600
    publish(wire, names, [window_table(fleet, utilization=0.0, capacity=CAPACITY, at=at)])
    usage, pause = None, None
    if usage_every_s:
        pause = multiprocessing.Barrier(clients + 1)
        usage = ChangingUsage(Wire({"url": url}), names, fleet, at, usage_every_s)
        usage.write()
    environ = {
        **os.environ, "WINDWARD_REDIS_URL": url, "WINDWARD_PREFIX": names.prefix, "WINDWARD_LOG_LEVEL": "error",
        "WINDWARD_LEDGER_LOG_LENGTH": "10000000", "WINDWARD_HEARTBEAT_S": "0.2", "WINDWARD_SILENT_S": "1",
    }  # fmt: skip

    def start(number):
        words = ["--name", f"s{number}-{time.time_ns()}", *arguments]
        return subprocess.Popen([sys.executable, "-m", "scorer", *words], env=environ)

    processes = [start(number) for number in range(scorers)]
    out = multiprocessing.Queue()
    working = [
        multiprocessing.Process(
            target=client_process,
            args=(url, names.prefix, number, placements // clients, out, bool(arguments), pause),
            daemon=True,
        )
        for number in range(clients)
    ]
    try:
        with Client(url, names.prefix, timeout_s=60) as client:
            client.health()
        started = time.perf_counter()
        for process in working:
            process.start()
        answers, said, still = Counter(), [], []
        with disturbing(url, processes, start, server) if disturbed else nullcontext(answers) as done:
            if kill:
                time.sleep(1.0)  # in the middle of the work
                processes[0].send_signal(signal.SIGKILL)
            if usage is not None and pause is not None:
                usage.start()
                pause.wait(timeout=3600)
                still = _at_rest(url, names, usage, arguments)
                pause.wait()
            for _ in working:
                counts, told = out.get(timeout=3600)
                answers += counts
                said += told
        took_s = time.perf_counter() - started
        for process in working:
            process.join()
        ledger = Ledger(wire, names, log_length=10_000_000)
        deadline = time.monotonic() + 30
        while ledger.all_instances() and time.monotonic() < deadline:
            time.sleep(0.1)  # reservations run out
        back = math.ceil(known_s / usage_every_s) if usage_every_s else 0
        classes = ClassSums(CAPACITY, usage.rounds if usage else (), back) if arguments else None
        report = _judge(ledger, answers, said, classes)
        report.faults += still
        report.answers |= done
        for part in ("instances", "expiry", "machines", "counts", "clusters", "moving"):
            if wire.one("EXISTS", names.ledger(part)):
                report.faults.append(f"{part} is not empty in the end")
        return report, took_s
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                stop(process)
        wire.close()


def _judge(ledger, answers, said, classes):
    """Return what was answered and what broke: a sum of a class, if these are given, else the one sum of a machine."""
    verdict = verdict_on(ledger, said, CAPACITY if classes is None else ())
    report = Report(answers, verdict.faults, verdict.changes, verdict.fullest)
    if answers["torn batches"]:
        report.faults.append("a batch of all or nothing was placed in part")
    if classes is not None:
        for before, after in steps(read_history(ledger)):
            classes.change(before if before and before.state in LIVE else None, after if after.state in LIVE else None)
        report.faults += classes.faults
        report.fullest_of_class, report.changing = classes.fullest, classes.moved
    return report


def _at_rest(url, names, usage, arguments):
    """Return what is wrong while nobody changes anything: with the ledger's sums, or with who is told to leave."""
    usage.stop()
    ledger = Ledger(Wire({"url": url}), names, log_length=10_000_000)
    deadline = time.monotonic() + 30
    while any(_passing(one) for one in ledger.all_instances().values()) and time.monotonic() < deadline:
        time.sleep(0.1)  # reservations and moves run out
    usage.write()
    faults = [f"the ledger's sums: {one.name}: {one.what}" for one in Check(ledger).run().differences]
    told = subprocess.run(
        [sys.executable, "-m", "ops.cli.main", "drain", "--evict", *arguments, "--evictions-max", "100000", "--json"],
        env={**os.environ, "WINDWARD_REDIS_URL": url, "WINDWARD_PREFIX": names.prefix}, check=True, capture_output=True,
    )  # fmt: skip
    advice = json.loads(told.stdout)
    print(f"{len(ledger.all_instances())} instances at rest, {len(advice['evictions'])} no longer fit")
    instances = ledger.all_instances().values()
    ledger.wire.close()
    return faults + eviction_faults(CAPACITY, instances, usage.rounds[-1], advice)


def _passing(instance):
    return instance.state == "reserved" or instance.moving is not None


def slowest(url):
    """Return the longest of the ledger's scripts in SLOWLOG, and of the script of constant work, us."""
    found = Wire({"url": url}).one("SLOWLOG", "GET", 128)
    return [max((one[2] for one in found if one[3][0] == name), default=0) for name in (b"EVALSHA", b"EVAL")]


def main():
    arguments = read_options(
        __doc__, scorers=4, clients=8, placements=100_000, machines=200, classes=False, usage_every_s=0.0,
        disturb=False, freeze_redis=False,
    )  # fmt: skip
    given = {name: value for name, value in vars(arguments).items() if name not in ("disturb", "freeze_redis")}
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        server = start_valkey(port, Path(directory), "--slowlog-log-slower-than", str(SLOW_US))
        url = f"redis://127.0.0.1:{port}/0"
        given |= {"disturbed": arguments.disturb, "server": server if arguments.freeze_redis else None}
        try:
            report, took_s = contend(url, Names(), known_s=KNOWN_S, **given)
            ours, measured = slowest(url)
        finally:
            stop(server)
    print(f"{arguments.placements} placements by {arguments.clients} clients in {took_s:.1f} s: {dict(report.answers)}")
    print(f"{report.changes} changes replayed, fullest machine {report.fullest:.1%} of its limit")
    if report.fullest_of_class:
        print(f"fullest of each class, in per cent of its sum: {dict(report.fullest_of_class)}")
        print(f"batch and free that came where their sum was changing: {report.changing}")
    if arguments.disturb and not arguments.freeze_redis:
        print(
            f"in SLOWLOG: scripts of the ledger up to {ours / 1e3:.0f} ms, constant work up to {measured / 1e3:.0f} ms"
        )
        if ours > max(SLOW_US, 3 * measured):
            report.faults.append("a script of the ledger is too slow")
    print("\n".join(report.faults[:20]) or "no law was broken")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
