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

from ops.replay.simulator.interfaces import Changer, Exchange, Moment, Move, Policy, Spell
from ops.replay.simulator.measuring import Measuring
from ops.replay.simulator.true_fleet import Fleet
from ops.replay.workload import Workload
from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance, copy_with
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.planning.balance.tentative import COPY_CORES
from scorer.snapshot.arrays import Integers

RETRY_MINUTES = 4


@dataclass(eq=False)
class Outcome:
    workload: Workload
    fleet: Fleet
    tries: Integers
    """[K] the number of tries of each."""
    decision_s: list[float] = field(default_factory=list)
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
    changer: Changer | None = None,
    *,
    retry_minutes: int = RETRY_MINUTES,
    progress: Callable[[int], None] = lambda minute: None,
) -> Outcome:
    """Return the result of the policy on the workload; ``progress`` is called with each minute."""
    return _Simulation(workload, policy, changer, retry_minutes).run(progress)


class _Simulation:
    def __init__(self, workload: Workload, policy: Policy, changer: Changer | None, retry_minutes: int) -> None:
        self._workload, self._policy, self._changer, self._retry = workload, policy, changer, retry_minutes
        self._fleet = Fleet(workload)
        self._ledger = LedgerView()
        self._measuring = Measuring(
            self._fleet, learns=policy.learns, by_class=policy.counts_by_class, reports=changer is not None
        )
        self._queue = Queue(workload)
        self._ends: list[tuple[int, int]] = []
        """A heap of (minute, instance)."""
        self._outcome = Outcome(workload, self._fleet, np.zeros(len(workload.instances), np.int64))

    def run(self, progress: Callable[[int], None]) -> Outcome:
        queue, changer, last = self._queue, self._changer, self._workload.minutes
        next_change = changer.every_minutes if changer is not None else last
        while (minute := min(queue.minute, next_change)) < last:
            self._release(minute)
            moment = Moment(minute, self._ledger, self._measuring, self._fleet)
            if next_change == minute and changer is not None:
                for change in changer.changes(moment):
                    self._carry_out(change, moment)
                next_change += changer.every_minutes
            else:
                for instance in self._place(queue.take(), moment):
                    queue.ask_again(instance, minute + self._retry)
                progress(minute)
        progress(last)
        self._outcome.refusals = dict(self._policy.refusals.most_common())
        return self._outcome

    def _record(self, instance: int) -> Instance:
        return self._ledger.instances[self._workload.instances[instance]]

    def _release(self, minute: int) -> None:
        while self._ends and self._ends[0][0] <= minute:
            end, instance = heapq.heappop(self._ends)
            if self._fleet.end[instance] == end:  # it was not evicted
                ended_at = self._fleet.now_s(end)
                self._ledger.apply(copy_with(self._record(instance), state="released", ended_at=ended_at))

    def _place(self, asking: Sequence[int], moment: Moment) -> list[int]:
        """Place the instances that ask in this minute; return the refused ones."""
        self._measuring.learn(moment.minute, self._ledger)
        self._outcome.tries[asking] += 1
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
            self._outcome.decision_s += [(perf_counter() - began) / len(rows)] * len(rows)
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

    def _carry_out(self, change: Exchange | Move | int, moment: Moment) -> None:
        fleet, minute, now_s = self._fleet, moment.minute, moment.now_s
        if isinstance(change, Exchange):
            records = [self._record(one) for one in change]
            swap = (records[0].id, records[1].id)
            for one, other in (records, records[::-1]):
                self._ledger.apply(copy_with(one, role=other.role, swap=swap, swapped_at=now_s))
            fleet.exchange(*change, minute)
            self._outcome.exchanges.append(minute)
        elif isinstance(change, Move):
            machine, source = self._workload.machines[change.row], int(fleet.machine_of[change.instance])
            record = self._record(change.instance)
            self._ledger.apply(copy_with(record, machine=machine, reserved_at=now_s, started_at=now_s))
            fleet.move(change.instance, change.row, minute)
            fleet.copying(change.instance, source, minute, change.copy_minutes, COPY_CORES)
            self._outcome.moves.append((minute, change))
        else:
            self._ledger.apply(copy_with(self._record(change), state="released", ended_at=now_s))
            row, first = int(fleet.machine_of[change]), int(fleet.placed[change])
            fleet.evict(change, minute)
            self._outcome.evicted.append(Spell(change, row, first, minute))
            self._queue.ask_again(change, (minute // self._retry + 1) * self._retry)


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
