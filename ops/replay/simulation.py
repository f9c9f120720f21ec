"""The loop: instances arrive, are placed or refused, run and end, in simulated time.

At each minute in which somebody asks: the readings of all minutes before are there, instances whose life is over have
left, and those that ask are placed one after the other, each seeing the ones before. Requests in a row that are alike
but for their ids are one batch. A refused instance asks again ``retry_minutes`` later, for as long as it takes; its
life begins when it is placed, so every policy gets the same load, some of it later.

A placed instance is confirmed at once: its start is the minute of its placement.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import msgspec
import numpy as np

from ops.replay.fleet import Fleet
from ops.replay.lessons import Lessons
from ops.replay.measuring import Measuring
from ops.replay.policies import ROUND_MINUTES, Moment, Move, Mover, Policy
from ops.replay.reports import Reports
from ops.replay.workload import Workload
from schemas.learned import Learned
from schemas.request import Request
from scorer.ledger.instance import copy_with
from scorer.ledger.view import LedgerView, instance_of
from scorer.rebalance.cost import COPY_CORES
from scorer.snapshot.arrays import Floats, Integers

RETRY_MINUTES = 4


@dataclass(eq=False, kw_only=True)
class Outcome:
    """What became of a workload under one policy."""

    workload: Workload
    policy: str
    fleet: Fleet
    placed: Integers
    """[K] minute of the placement; -1: never."""
    tries: Integers
    """[K] how often each asked."""
    decision_s: Floats
    """[decisions] time that each took, one number an instance."""
    refusals: dict[str, int] = field(default_factory=dict)
    """Why instances were refused at their first try, most frequent first; how often."""
    moves: list[tuple[int, Move]] = field(default_factory=list)
    """Minute and move of each."""
    learned: Learned | None = None
    """What the policy had learned at the end."""


def simulate(
    workload: Workload,
    policy: Policy,
    *,
    retry_minutes: int = RETRY_MINUTES,
    mover: Mover | None = None,
    observer: Callable[[Moment], None] = lambda moment: None,
    progress: Callable[[int], None] = lambda minute: None,
) -> Outcome:
    """Return what the policy makes of the workload.

    ``observer`` looks at each moment in which somebody asks, before anything is placed; ``progress`` gets the minute.
    """
    return _Simulation(workload, policy, retry_minutes, mover, observer).run(progress)


class _Simulation:
    def __init__(
        self, workload: Workload, policy: Policy, retry_minutes: int, mover: Mover | None,
        observer: Callable[[Moment], None],
    ) -> None:  # fmt: skip
        self._workload, self._policy, self._mover = workload, policy, mover
        self._observer = observer
        self._retry = retry_minutes
        self._fleet = Fleet(workload)
        self._ledger = LedgerView()
        reports = Reports(self._fleet) if mover is not None or policy.looks_at_instances else None
        self._measuring = Measuring(self._fleet, reports)
        self._lessons = Lessons() if policy.learns else None
        count = len(workload.instances)
        self._placed, self._tries = np.full(count, -1, np.int64), np.zeros(count, np.int64)
        self._ends: list[tuple[int, int]] = []
        """A heap of (minute, instance)."""
        self._seconds: list[float] = []
        self._moves: list[tuple[int, Move]] = []

    def run(self, progress: Callable[[int], None]) -> Outcome:
        waiting = [(max(int(start), 0), number) for number, start in enumerate(self._workload.start)]
        heapq.heapify(waiting)
        next_move = ROUND_MINUTES
        while waiting and waiting[0][0] < self._workload.minutes:
            minute = waiting[0][0]
            while self._mover is not None and next_move <= minute:
                self._move(next_move)
                next_move += ROUND_MINUTES
            asking = []
            while waiting and waiting[0][0] == minute:
                asking.append(heapq.heappop(waiting)[1])
            self._release(minute)
            for instance in self._place(asking, minute):
                heapq.heappush(waiting, (minute + self._retry, instance))
            progress(minute)
        progress(self._workload.minutes)
        return Outcome(
            workload=self._workload,
            policy=self._policy.name,
            fleet=self._fleet,
            placed=self._placed,
            tries=self._tries,
            decision_s=np.array(self._seconds),
            refusals=dict(self._policy.refusals.most_common()),
            moves=self._moves,
            learned=self._measuring.learned,
        )

    def _moment(self, minute: int) -> Moment:
        return Moment(minute, self._ledger, self._measuring, self._fleet)

    def _release(self, minute: int) -> None:
        while self._ends and self._ends[0][0] <= minute:
            end, instance = heapq.heappop(self._ends)
            record = self._ledger.instances[self._workload.instances[instance]]
            self._ledger.apply(copy_with(record, state="released", ended_at=self._measuring.now_s(end)))

    def _place(self, asking: Sequence[int], minute: int) -> list[int]:
        """Place those that ask; return the refused."""
        moment = self._moment(minute)
        if self._lessons is not None:
            self._lessons.look(moment.snapshot, self._ledger, moment.now_s)
            self._measuring.learned = self._lessons.learned
        self._observer(moment)
        self._tries[asking] += 1
        refused: list[int] = []
        requests = [self._workload.request(instance) for instance in asking]
        at = 0
        while at < len(asking):
            run = _alike(requests, at)
            _ = moment.snapshot if not self._policy.reference else None  # made before a decision is timed
            began = perf_counter()
            rows = self._policy.choose(asking[at : at + run], requests[at : at + run], moment)
            self._seconds.append((perf_counter() - began) / len(rows))
            for instance, request, row in zip(asking[at:], requests[at:], rows, strict=False):
                if row is None:
                    refused.append(instance)
                else:
                    self._start(instance, request, row, moment)
            at += len(rows)
        return refused

    def _start(self, instance: int, request: Request, row: int, moment: Moment) -> None:
        machine = self._workload.machines[row]
        record = instance_of(request, machine, moment.now_s)
        self._ledger.apply(copy_with(record, state="confirmed", started_at=moment.now_s))
        self._fleet.place(instance, row, moment.minute)
        self._placed[instance] = moment.minute
        heapq.heappush(self._ends, (int(self._fleet.end[instance]), instance))

    def _move(self, minute: int) -> None:
        assert self._mover is not None
        self._release(minute)
        moment = self._moment(minute)
        for move in self._mover.moves(moment):
            record = self._ledger.instances[self._workload.instances[move.instance]]
            machine, source = self._workload.machines[move.row], int(self._fleet.machine_of[move.instance])
            self._ledger.apply(copy_with(record, machine=machine, reserved_at=moment.now_s, started_at=moment.now_s))
            self._fleet.move(move.instance, move.row, minute)
            self._fleet.copying(move.instance, source, minute, move.copy_minutes, COPY_CORES)
            self._moves.append((minute, move))


def _alike(requests: Sequence[Request], at: int) -> int:
    """Return how many requests from ``at`` on differ by their ids at most."""
    first, last = msgspec.structs.replace(requests[at], id=""), at + 1
    while last < len(requests) and msgspec.structs.replace(requests[last], id="") == first:
        last += 1
    return last - at
