"""Shell: windows and ledger, kept current by a thread of its own, so that no verb waits for Redis.

The thread reads Redis without the lock, and holds it while it applies the answer, for some microseconds. A ledger that
must be read again is read into a second replica, which then replaces the first. Readers hold the lock.
"""

import logging
import math
import threading
import time
from collections.abc import Callable

import redis

from schemas.names import Names
from schemas.process.metrics import Table, counter, gauge, histogram
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.transition import UnknownFormat
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.overlay import Overlay
from scorer.live.loader import Loader
from scorer.ranking.inputs import RankingInputs, Tables, machines_of
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.staleness import degraded
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import AWAY

VERBS = ("prioritize", "filter", "bind")
ANSWERED = "answered"
NEUTRAL = ("other", "unready", "silent", "stale", "late", "refused", "failed")
"""Why an answer leaves all to the scheduler: another scheduler's pod; nothing was read yet; Redis is silent; data are
stale; no time was left; the pod or the question cannot be read; an error here."""
REFUSED = ("limits", "pod", "api", "ledger", "busy")
"""Why a pod was not bound: a limit of its node; it is gone, or bound; the API server; the ledger; too many at once, or
another try of the same pod is under way."""
_SECONDS = (0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.15, 0.2, 0.5, 1.0, 5.0)


class Metrics(Table):
    """The extender's metrics, in a registry of their own; every known label begins at 0."""

    PROCESS = "extender"

    answers = counter(
        "windward_extender_answers",
        "Answers, by verb and result: answered, or why neutral",
        verb=VERBS,
        result=(ANSWERED, *NEUTRAL),
    )
    seconds = histogram("windward_extender_seconds", "Time of an answer", _SECONDS, verb=VERBS)
    unknown = counter("windward_extender_unknown_nodes", "Nodes asked about that the fleet does not know")
    refused = counter("windward_extender_refused_binds", "Pods that were not bound, by reason", reason=REFUSED)
    steered = counter("windward_extender_steered", "Pods that got the node held for the replacement of an evicted one")
    pending = gauge("windward_extender_pending", "Pods that count, and are not in the ledger yet")
    up = gauge("windward_extender_up", "1 while windows and ledger are read")


log = logging.getLogger("windward.extender")

LOOK_S = 0.02
"""Time between two reads of the ledger's log."""
SILENT_S = 2.0
"""After so long without an answer of Redis the fleet is not as it is known here: pods on their way would not count."""
HOLDS_S = 0.1
"""Time between two reads of the evictor's holds, much less than `scorer.kubernetes.evictor.evictor.LEAD_S`."""
_AGAIN_S = 0.5
"""Time to the second try after a failure, and to each one after it. The first follows at once: a server or a proxy may
have closed an idle connection."""


class FollowedFleet(threading.Thread):
    """The inputs of a ranking, between ``start`` and `stop`; read them while `lock` is held."""

    def __init__(
        self,
        ledger: Ledger,
        loader: Loader,
        profile: Profile,
        metrics: Metrics,
        refresh_s: float,
        names: Names,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(name="fleet", daemon=True)
        self.lock = threading.Lock()
        self.profile = profile
        self.trouble = ""
        """Why Redis cannot be read; "" while it can."""
        self._ledger, self._loader, self._metrics = ledger, loader, metrics
        self._refresh_s, self._clock = refresh_s, clock
        self._stopping = threading.Event()
        self._follower = Follower(ledger)
        self._snapshot: Snapshot | None = None
        self._tables = Tables()
        self._holds, self._holds_s = names.holds, -math.inf
        self._generations: dict[bytes, bytes] = {}
        """Of the evictor's reservations, by id."""
        self._refreshed_s = -math.inf
        self._heard_s = -math.inf

    # ---- reading, under the lock

    def why_not(self) -> str:
        """Return why no answer is possible now: ``unready``, ``silent``; "" where one is."""
        if self._snapshot is None or not self._follower.loaded:
            return "unready"
        return "silent" if time.monotonic() - self._heard_s > SILENT_S else ""

    def is_stale(self) -> bool:
        """Return whether no machine has fresh data."""
        snapshot = self._snapshot
        return snapshot is None or bool(degraded(snapshot, self.profile, self._clock()))

    def inputs(self, overlay: Callable[[Follower], Overlay | None]) -> RankingInputs:
        """Return the inputs of a ranking, with the assumed instances."""
        assert self._snapshot is not None
        found = RankingInputs(self._snapshot, self._follower.view, self.profile, self._clock(), self._tables)
        over = overlay(self._follower)
        return found if over is None else found.on(over)

    def held(self, hold: str) -> Instance | None:
        """Return the evictor's reservation under an id."""
        found = self._follower.view.instances.get(hold)
        written = None if found is None or found.state != "reserved" else self._generations.get(hold.encode())
        return found if found is not None and written == str(found.generation).encode() else None

    def machines(self) -> int:
        """Return the number of known machines."""
        return 0 if self._snapshot is None else len(self._snapshot)

    # ---- following

    def run(self) -> None:
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            pause_s = self.turn()

    def turn(self) -> float:
        """Read the changes once; return the seconds until the next time."""
        try:
            self._read_ledger()
            if time.monotonic() - self._holds_s >= HOLDS_S:
                (found,) = self._loader.wire.ask([("HGETALL", self._holds)])
                flat = [] if isinstance(found, redis.ResponseError) else found  # a user that may not read them
                self._generations = dict(zip(flat[::2], flat[1::2], strict=True))
                self._holds_s = time.monotonic()
            if time.monotonic() - self._refreshed_s >= self._refresh_s:
                self._read_windows()
        except (*AWAY, UnknownFormat, redis.ResponseError, RuntimeError) as error:
            return self._failed(f"{type(error).__name__}: {error}")
        except Exception as error:  # else the thread would end, and all answers be neutral for ever
            log.exception("extender.fleet.failed")
            return self._failed(f"{type(error).__name__}: {error}")
        if self.trouble:
            log.info("extender.redis.back")
        self.trouble = ""
        self._heard_s = time.monotonic()
        self._metrics.up.set(1)
        return LOOK_S

    def stop(self) -> None:
        """End the thread and close its connections."""
        self._stopping.set()
        if self.is_alive():
            self.join(timeout=10)
        self._loader.close()
        self._ledger.wire.close()

    def _read_ledger(self) -> None:
        answers = self._ledger.wire.ask(self._follower.reads())
        if self._continues(answers):
            with self.lock:
                self._follower.accept(answers)
            return
        anew = Follower(self._ledger)
        anew.load()
        with self.lock:
            self._follower = anew

    def _continues(self, answers: list[object]) -> bool:
        """Return whether the answers continue from this replica up to the last change: no further read is needed."""
        epoch, change, records = self._ledger.read_log(answers)
        now = self._follower
        if not now.loaded or epoch != now.epoch:
            return False
        if change == now.change:
            return True
        return bool(records) and records[0].version == now.change + 1 and records[-1].version >= change

    def _read_windows(self) -> None:
        snapshot = self._loader.refresh(self._follower.view.machine_names)
        self._refreshed_s = time.monotonic()
        if snapshot is None:
            return
        for _ in self._tables.prepare(snapshot, self._follower.view, self.profile, self._clock()):
            time.sleep(0)  # the turn of a thread that answers
        with self.lock:
            self._snapshot = snapshot
            for load_model in self.profile.load_models:  # brings the rows up to date, so that no question does
                machines_of(self.inputs(lambda _: None), load_model)

    def _failed(self, error: str) -> float:
        """Let go of what a failure may have left behind; return the seconds until the next try."""
        pause_s = _AGAIN_S if self.trouble else LOOK_S
        if not self.trouble:
            log.warning("extender.redis.away", extra={"values": {"error": error}})
        self.trouble = error
        self._metrics.up.set(0)
        self._loader.close()
        self._ledger.wire.close()
        with self.lock:
            self._follower.forget()
        return pause_s
