"""The loop: instances arrive, are placed or refused, run and end, in simulated time.

In each minute in which an instance asks, the readings of all minutes before are known and instances whose life is over
have ended. The instances that ask are placed one after the other, each seeing the ones before; a run of requests that
are equal but for their ids is one batch. A refused instance asks again every ``retry_minutes`` until it is placed. Its
life begins when it is placed, so every policy gets the same load, some of it later.

A placed instance is confirmed at once: its start is the minute of its placement. An evicted one goes back to the queue
and asks again within ``retry_minutes``; its whole life begins anew when it is placed.

In a minute prod and mid ask before batch and free, the earlier before the later. An instance of batch or free is
refused without a ranking after one of the same class and kind, which asked for no more, was refused in the same minute.
Nothing has ended since, so it cannot fit either. Otherwise a long queue of batch would cost a ranking for each of its
instances. Where instances have labels, rules or an expected use of their own, each is ranked.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import msgspec
import numpy as np

from ops.replay.simulator.interfaces import ROUND_MINUTES, Evictor, Exchange, Moment, Move, Mover, Policy, Spell
from ops.replay.simulator.learning import Learning, PredictedPeaks
from ops.replay.simulator.measuring import Measuring
from ops.replay.simulator.reports import Reports
from ops.replay.simulator.true_fleet import Fleet
from ops.replay.workload import Workload
from schemas.rpc.request import Request
from scorer.ledger.record.instance import copy_with
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.planning.balance.tentative import COPY_CORES
from scorer.snapshot.arrays import Floats, Integers

RETRY_MINUTES = 4


@dataclass(eq=False, kw_only=True)
class Outcome:
    workload: Workload
    policy: str
    fleet: Fleet
    tries: Integers
    """[K] the number of tries of each."""
    decision_s: Floats
    """[decisions] the time of each try; for a batch the mean over its instances."""
    refusals: dict[str, int] = field(default_factory=dict)
    """The reasons of first refusals with their counts, most frequent first."""
    moves: list[tuple[int, Move]] = field(default_factory=list)
    """Minute and move of each."""
    exchanges: list[int] = field(default_factory=list)
    """Minute of each exchange of roles."""
    evicted: list[Spell] = field(default_factory=list)
    """The stretch that each eviction ended."""

    @property
    def placed(self) -> Integers:
        """[K] minute of the placement; -1: never, or evicted and not placed again."""
        return self.fleet.placed

    @property
    def placements(self) -> Integers:
        """[K] how often each was placed; at most once, unless it was evicted."""
        found = (self.placed >= 0).astype(np.int64)
        np.add.at(found, [one.instance for one in self.evicted], 1)
        return found

    @property
    def refused(self) -> Integers:
        """[K] how often each was refused."""
        return self.tries - self.placements


def simulate(
    workload: Workload,
    policy: Policy,
    *,
    retry_minutes: int = RETRY_MINUTES,
    mover: Mover | None = None,
    evictor: Evictor | None = None,
    progress: Callable[[int], None] = lambda minute: None,
) -> Outcome:
    """Return the result of the policy on the workload; ``progress`` is called with each minute."""
    return _Simulation(workload, policy, retry_minutes, mover, evictor).run(progress)


class _Simulation:
    def __init__(
        self, workload: Workload, policy: Policy, retry_minutes: int, mover: Mover | None, evictor: Evictor | None
    ) -> None:
        self._workload, self._policy, self._mover, self._evictor = workload, policy, mover, evictor
        self._retry = retry_minutes
        self._fleet = Fleet(workload)
        self._ledger = LedgerView()
        reports = Reports(self._fleet) if mover is not None or policy.counts_by_class or policy.learns else None
        self._measuring = Measuring(self._fleet, reports)
        self._learning = Learning() if policy.learns else None
        self._peaks = PredictedPeaks() if policy.counts_by_class else None
        self._queue = Queue(workload)
        self._tries = np.zeros(len(workload.instances), np.int64)
        self._ends: list[tuple[int, int]] = []
        """A heap of (minute, instance)."""
        self._seconds: list[float] = []
        self._moves: list[tuple[int, Move]] = []
        self._exchanges: list[int] = []
        self._evicted: list[Spell] = []

    def run(self, progress: Callable[[int], None]) -> Outcome:
        queue = self._queue
        next_move = ROUND_MINUTES if self._mover is not None else self._workload.minutes
        next_eviction = self._evictor.every_minutes if self._evictor is not None else self._workload.minutes
        while (minute := min(queue.minute, next_move, next_eviction)) < self._workload.minutes:
            if next_eviction == minute and self._evictor is not None:
                self._evict(minute, self._evictor)
                next_eviction += self._evictor.every_minutes
            elif next_move == minute and self._mover is not None:
                self._move(minute, self._mover)
                next_move += ROUND_MINUTES
            else:
                self._release(minute)
                for instance in self._place(queue.take(), minute):
                    queue.ask_again(instance, minute + self._retry)
                progress(minute)
        progress(self._workload.minutes)
        return Outcome(
            workload=self._workload,
            policy=self._policy.name,
            fleet=self._fleet,
            tries=self._tries,
            decision_s=np.array(self._seconds),
            refusals=dict(self._policy.refusals.most_common()),
            moves=self._moves,
            exchanges=self._exchanges,
            evicted=self._evicted,
        )

    def _moment(self, minute: int) -> Moment:
        return Moment(minute, self._ledger, self._measuring, self._fleet)

    def _release(self, minute: int) -> None:
        while self._ends and self._ends[0][0] <= minute:
            end, instance = heapq.heappop(self._ends)
            if self._fleet.end[instance] != end:  # it was evicted
                continue
            record = self._ledger.instances[self._workload.instances[instance]]
            self._ledger.apply(copy_with(record, state="released", ended_at=self._measuring.now_s(end)))

    def _place(self, asking: Sequence[int], minute: int) -> list[int]:
        """Place the instances that ask in this minute; return the refused ones."""
        moment = self._moment(minute)
        if self._learning is not None:
            self._learning.look(moment.snapshot, self._ledger, moment.now_s)
            self._measuring.learned = self._learning.learned
        if self._peaks is not None:
            self._peaks.look(moment.snapshot, self._ledger, moment.now_s)
            self._measuring.predicted = self._peaks.raw
        self._tries[asking] += 1
        refused: list[int] = []
        at = 0
        while at < len(asking):
            if self._queue.cannot_fit(asking[at]):
                refused.append(asking[at])
                at += 1
                continue
            requests = self._alike(asking[at:])
            run = len(requests)
            _ = moment.snapshot if not self._policy.reference else None  # made before a decision is timed
            began = perf_counter()
            rows = self._policy.choose(asking[at : at + run], requests, moment)
            self._seconds += [(perf_counter() - began) / len(rows)] * len(rows)
            for instance, request, row in zip(asking[at:], requests, rows, strict=False):
                if row is None:
                    refused.append(instance)
                    self._queue.refused(instance)
                else:
                    self._start(instance, request, row, moment)
            at += len(rows)
        return refused

    def _start(self, instance: int, request: Request, row: int, moment: Moment) -> None:
        machine = self._workload.machines[row]
        record = instance_of(request, machine, moment.now_s)
        self._ledger.apply(copy_with(record, state="confirmed", started_at=moment.now_s))
        self._fleet.place(instance, row, moment.minute)
        self._queue.placed(instance)
        heapq.heappush(self._ends, (int(self._fleet.end[instance]), instance))

    def _alike(self, asking: Sequence[int]) -> list[Request]:
        """Return the requests of the first run of instances that differ only by their ids."""
        requests = [self._queue.request(asking[0])]
        first = msgspec.structs.replace(requests[0], id="")
        for instance in asking[1:]:
            other = self._queue.request(instance)
            if msgspec.structs.replace(other, id="") != first:
                break
            requests.append(other)
        return requests

    def _evict(self, minute: int, evictor: Evictor) -> None:
        self._release(minute)
        moment = self._moment(minute)
        for instance in evictor.evictions(moment):
            record = self._ledger.instances[self._workload.instances[instance]]
            self._ledger.apply(copy_with(record, state="released", ended_at=moment.now_s))
            row, first = int(self._fleet.machine_of[instance]), int(self._fleet.placed[instance])
            self._fleet.evict(instance, minute)
            self._evicted.append(Spell(instance, row, first, minute))
            self._queue.ask_again(instance, (minute // self._retry + 1) * self._retry)

    def _move(self, minute: int, mover: Mover) -> None:
        self._release(minute)
        moment = self._moment(minute)
        for move in mover.moves(moment):
            if isinstance(move, Exchange):
                self._exchange(move, moment)
                continue
            record = self._ledger.instances[self._workload.instances[move.instance]]
            machine, source = self._workload.machines[move.row], int(self._fleet.machine_of[move.instance])
            self._ledger.apply(copy_with(record, machine=machine, reserved_at=moment.now_s, started_at=moment.now_s))
            self._fleet.move(move.instance, move.row, minute)
            self._fleet.copying(move.instance, source, minute, move.copy_minutes, COPY_CORES)
            self._moves.append((minute, move))

    def _exchange(self, pair: Exchange, moment: Moment) -> None:
        records = [self._ledger.instances[self._workload.instances[one]] for one in pair]
        swap = (records[0].id, records[1].id)
        for one, other in (records, records[::-1]):
            self._ledger.apply(copy_with(one, role=other.role, swap=swap, swapped_at=moment.now_s))
        self._fleet.exchange(*pair, moment.minute)
        self._exchanges.append(moment.minute)


class Queue:
    """The instances that ask: a heap of (minute, instance), and the requests refused in the current minute."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._waiting = [(max(int(start), 0), number) for number, start in enumerate(workload.start)]
        heapq.heapify(self._waiting)
        self._lower = workload.lower
        self._plain = not (workload.requests or workload.labels or workload.expected.shape[1])
        self._requests: dict[int, Request] = {}
        self._refused: dict[tuple[str, str], list[tuple[float, ...]]] = {}

    @property
    def minute(self) -> int:
        """The minute in which the next instance asks; the workload's end when the queue is empty."""
        return self._waiting[0][0] if self._waiting else self._workload.minutes

    def take(self) -> list[int]:
        """Remove and return the instances that ask in the next minute, in their order."""
        minute, asking = self.minute, []
        while self._waiting and self._waiting[0][0] == minute:
            asking.append(heapq.heappop(self._waiting)[1])
        self._refused.clear()
        return sorted(asking, key=lambda instance: bool(self._lower[instance]))  # stable: the earlier first

    def ask_again(self, instance: int, minute: int) -> None:
        heapq.heappush(self._waiting, (minute, instance))

    def request(self, instance: int) -> Request:
        if instance not in self._requests:
            self._requests[instance] = self._workload.request(instance)
        return self._requests[instance]

    def placed(self, instance: int) -> None:
        """Drop the request of an instance that was placed."""
        self._requests.pop(instance, None)

    def refused(self, instance: int) -> None:
        """Note that an instance could not be placed in this minute."""
        if self._lower[instance] and self._plain:
            kind, amounts = self._asks(instance)
            others = self._refused.setdefault(kind, [])
            others[:] = [one for one in others if not _covers(one, amounts)] + [amounts]

    def cannot_fit(self, instance: int) -> bool:
        """Return whether an instance asks for at least as much as one of its kind refused in this minute."""
        if not (self._refused and self._lower[instance]):
            return False
        kind, amounts = self._asks(instance)
        return any(_covers(amounts, one) for one in self._refused.get(kind, ()))

    def _asks(self, instance: int) -> tuple[tuple[str, str], tuple[float, ...]]:
        request = self.request(instance)
        return (request.priority_class, request.kind), request.amounts()


def _covers(larger: tuple[float, ...], smaller: tuple[float, ...]) -> bool:
    return all(mine >= other for mine, other in zip(larger, smaller, strict=True))
