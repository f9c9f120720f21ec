"""A fleet whose Redis fails over: three servers, three sentinels, a planner, and two groups of a scorer and clients.

Each group has an address, so that a cut may leave it on either side. Whatever any client was told is compared with the
ledger in the end (`tests.support.history`).
"""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack

import msgspec

from scorer.ledger.store.scripts import Ledger
from scorer.wire import Wire
from tests.bench.bench_scorers import CAPACITY
from tests.conftest import stop
from tests.integration.scorer.test_rpc import scorer_process
from tests.support.history import Told
from tests.support.links import Links
from tests.support.pages import eventually
from tests.support.sentinels import Watched
from tests.support.witness import verdict_on
from tests.window_tables import publish, window_table

MACHINES = 12
GROUP = 4
"""Clients in each group."""
LAG_S = 0.3
"""How far replicas are behind a primary that is killed or frozen."""
WORK = 10
"""Placements of each client before a failure, and after it."""
GROUPS = ("127.0.3.1", "127.0.3.2")
"""The addresses; the first group is on the side of a primary that is cut off."""
KILL, FREEZE, CUT_ALONE, CUT_WITH_ONE = "kill", "freeze", "cut alone", "cut with one"
"""How a primary fails; a cut leaves it one group of clients and a sentinel, and a replica or none."""
AGAIN = {"ABORTED", "DEADLINE_EXCEEDED", "UNAVAILABLE"}
ENDED_OR_FULL = {"FAILED_PRECONDITION", "NOT_FOUND", "RESOURCE_EXHAUSTED"}
"""What a client may be told: to ask again; that what it asks about was lost or has ended, or that there is no room."""
log = logging.getLogger(__name__)
_read = msgspec.json.Decoder(Told).decode


class Scene:
    """Clients at work, from ``with`` until `end`. Answers wait for ``acknowledged_by`` replicas."""

    def __init__(self, folder, names, acknowledged_by):
        self._folder = folder
        self._names = names
        self._acknowledged_by = acknowledged_by
        self._stack = ExitStack()
        self._callers = []
        self._said = []
        self.again_s = []
        """For each failover: until every client that may has placed again."""

    def __enter__(self):
        with self._stack:
            self._links = self._stack.enter_context(Links())
            watched = Watched(self._folder, replicas=2, sentinels=3, links=self._links)
            self._watched = self._stack.enter_context(watched)
            for port in watched.sentinel_ports:
                watched.sentinel(port).execute_command("SENTINEL DEBUG PUBLISH-PERIOD 500 INFO-PERIOD 500")
            with_windows = Wire(watched.arguments)
            fleet = [f"m{number:02d}" for number in range(MACHINES)]
            publish(with_windows, self._names, [window_table(fleet, at=time.time() + 3600, capacity=CAPACITY)])
            with_windows.close()
            self._start()
            self._work()
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _start(self):
        """Start a scorer and clients at each address."""
        options = ("--acknowledged-by", str(self._acknowledged_by), "--ledger-log-length", "1000000")
        environ = {**os.environ, **self._watched.environ, "WINDWARD_PREFIX": self._names.prefix}
        for number, address in enumerate(GROUPS):
            program = ("-m", "tests.support.from_address", address, "scorer")
            given = ("--name", f"s{number}", *options)
            scorer = scorer_process(self._watched.url, self._names, *given, env=environ, program=program)
            self._stack.enter_context(scorer)
        for number, address in enumerate(GROUPS):
            program = (
                "-m",
                "tests.support.from_address",
                address,
                "tests.support.callers",
                str(number * GROUP),
                str(GROUP),
            )
            command = [sys.executable, *program]
            process = subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            reader = threading.Thread(target=self._hear, args=(process,))
            reader.start()
            self._callers.append((process, reader))
        self._stack.callback(self._stop)
        options = ["--every", "1", "--rest-s", "0", "--lease-s", "2", "--log-level", "warning"]
        command = [sys.executable, "-m", "ops.cli.main", "planner", *options]
        self._planner = subprocess.Popen(command, env=environ)
        self._stack.callback(stop, self._planner)

    def _hear(self, process):
        with process.stdout as lines:
            for line in lines:
                self._said.append(_read(line))

    def _stop(self):
        for process, _ in self._callers:
            process.stdin.close()
        for process, reader in self._callers:
            process.wait(60)
            reader.join()

    def _placed_since(self, since_s, clients, count=1):
        """Return when the last of some clients got so many placements since then; 0 as long as one has fewer."""
        at_s = {client: [] for client in range(2 * GROUP)}
        for one in list(self._said):
            if one.step == "place" and one.machine and one.at_s > since_s:
                at_s[int(one.id[1:].partition("-")[0])].append(one.at_s)
        enough = [at_s[client][count - 1] for client in clients if len(at_s[client]) >= count]
        return max(enough) if len(enough) == len(clients) else 0.0

    def _work(self):
        """Wait until each client has placed some more."""
        since_s = time.monotonic()
        try:
            eventually(lambda: self._placed_since(since_s, range(2 * GROUP), WORK))
        except AssertionError as late:
            late.add_note(f"told since then: {dict(self._answers(since_s))}")
            raise

    def fail(self, how):
        """Have the primary fail; wait until all servers follow the next one, and all clients work again.

        A killed or frozen one fails while replicas lag: all of them, or all but one where answers wait for one.
        """
        watched, old = self._watched, self._watched.primary()
        others = [port for port in watched.ports if port != old]
        clients, left = range(2 * GROUP), 1  # who reaches the next primary, and its replicas, until the old one is back
        if how in (KILL, FREEZE):
            near = [old, *others[: self._acknowledged_by == 1], *watched.sentinel_ports]
            self._links.cut([*GROUPS, *(watched.addresses[port] for port in near)])
            time.sleep(LAG_S)
            watched.signal(old, signal.SIGKILL if how == KILL else signal.SIGSTOP)
            self._links.heal(lost=True)
        else:
            clients, left = range(GROUP, 2 * GROUP), int(how == CUT_ALONE)
            near = [old, *others[: 1 - left], watched.sentinel_ports[-1]]
            self._links.cut([GROUPS[0], *(watched.addresses[port] for port in near)])
        decided_s = watched.decided(old)
        if self._acknowledged_by <= left:
            self._note_again(decided_s, clients)
        if how == FREEZE:
            watched.signal(old, signal.SIGCONT)
        self._links.heal()
        watched.rejoin(old)
        followed_s = time.monotonic()
        if self._acknowledged_by > left:
            self._note_again(followed_s, range(2 * GROUP))
        self._work()

    def _note_again(self, since_s, clients):
        self.again_s.append(eventually(lambda: self._placed_since(since_s, clients)) - since_s)

    def _answers(self, since_s=0.0):
        told = [one for one in self._said if one.at_s > since_s]
        return Counter(f"{one.step} {one.error} {'' if one.machine else 'nowhere'}".strip() for one in told)

    def end(self):
        """Stop the clients and compare what they were told with the ledger."""
        self._stop()
        assert stop(self._planner) == 0
        wire = Wire(self._watched.arguments)
        verdict = verdict_on(Ledger(wire, self._names, log_length=1_000_000), self._said, CAPACITY)
        wire.close()
        answers = dict(self._answers())
        log.info("placing again after %s s; %d lost of %s", self.again_s, len(verdict.lost), answers)
        assert {one.error for one in self._said} <= {"", *AGAIN, *ENDED_OR_FULL}
        return verdict
