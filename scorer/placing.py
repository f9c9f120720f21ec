"""Shell: rank, reserve, and again where another scorer was faster. One instance or many.

The view is current when a query is taken. The reserve script compares versions and limits once more; it is given the
best few machines, so that losing one costs no second round trip. When all of them were lost, the log is read and the
machines ranked anew; when they were lost to limits that no version explains (a port, say, that no filter looks at),
more machines are given.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from schemas.request import InvalidRequest, Request
from schemas.resources import MEMORY, RESOURCES
from scorer.batch import Plan, plan
from scorer.filters.fits import Fits
from scorer.filters.masters import Masters
from scorer.filters.maxmemory import Maxmemory
from scorer.follow import Follower
from scorer.instance import Instance
from scorer.ledger import Candidate, Ledger, Outcome, Wanted, request_digest, too_large
from scorer.ledger_view import LedgerView, instance_of
from scorer.profile import Profile
from scorer.rank import Ranking, rank
from scorer.snapshot import Snapshot

CANDIDATES = 4
"""Machines given to the reserve script at first."""
SCRIPT_INSTANCES_MAX = 250
"""Instances reserved by one script, unless all or none are wanted: the server serves nobody else meanwhile."""
_NO_LIMITS = tuple(math.nan for _ in RESOURCES)


class Conflict(Exception):
    """Other scorers were faster every time."""


@dataclass
class Placement:
    """What became of a query for instances."""

    asked: list[Request]
    records: list[Instance | None]
    """By position; None where nothing was reserved."""
    ranking: Ranking | None = None
    """The ranking of the first instance, when one was made."""
    answer: dict[str, Any] = field(default_factory=dict)
    """That ranking in words, made before the ledger's view changed."""
    missing: dict[int, str] = field(default_factory=dict)
    """Why, by position, of those without a machine."""
    known: set[int] = field(default_factory=set)
    """Positions of the instances that were there before."""
    lost: Counter[int] = field(default_factory=Counter)
    """Candidates that were lost to another scorer, by position."""

    @property
    def conflicts(self) -> int:
        """Candidates that were lost to another scorer."""
        return self.lost.total()

    @property
    def repeated(self) -> int:
        """How many instances were there before."""
        return len(self.known)

    def explain(self) -> None:
        """Put the ranking into words; done while the server reserves, so that it costs next to nothing."""
        if self.ranking is not None:
            self.answer = self.ranking.answer()


class IdTaken(Exception):
    """Another request was placed under this id."""

    def __init__(self, record: Instance) -> None:
        super().__init__(f"id: {record.id!r} was placed on {record.machine} for another request")


class Placing:
    """Places requests on the snapshot given; ``attempts_max`` bounds the tries."""

    def __init__(
        self,
        ledger: Ledger,
        follower: Follower,
        attempts_max: int = 20,
        clock: Callable[[], float] = time.time,
        rank: Callable[[Request, Snapshot, LedgerView, Profile, float], Ranking] = rank,
        plan: Callable[[Sequence[Request], Snapshot, LedgerView, Profile, float, Sequence[str]], Plan] = plan,
    ) -> None:
        self._rank = rank
        self._plan = plan
        self._ledger = ledger
        self._follower = follower
        self._attempts_max = attempts_max
        self._clock = clock

    def place(
        self,
        requests: Sequence[Request],
        snapshot: Snapshot,
        profile: Profile,
        *,
        digests: Sequence[str] = (),
        deadline: float = 0.0,
    ) -> Placement:
        """Reserve a machine for each request, which has its id and stands for one instance.

        Raises IdTaken, Conflict, InvalidRequest.
        """
        digests = digests or [request_digest(request) for request in requests]
        placement = Placement(list(requests), [None] * len(requests))
        pending = self._known(placement, digests)
        attempts, depth = 0, CANDIDATES
        while pending:
            if attempts >= self._attempts_max or (deadline and self._clock() > deadline):
                raise Conflict(f"lost to other scorers {attempts} times")
            attempts += 1
            if len(requests) == 1:
                pending, depth = self._try_one(placement, snapshot, profile, digests[0], depth)
            else:
                pending = self._try_many(placement, pending, snapshot, profile, digests)
        return placement

    def _known(self, placement: Placement, digests: Sequence[str]) -> list[int]:
        """Answer the ids that are live already; return the positions of the others."""
        live = self._follower.view.instances
        pending = []
        for position, request in enumerate(placement.asked):
            record = live.get(request.id)
            if record is not None and record.request != digests[position]:
                raise IdTaken(record)
            if record is None or record.state == "reserved":  # the script knows whether it has expired
                pending.append(position)
            else:
                placement.records[position] = record
                placement.known.add(position)
        return pending

    def _try_one(
        self, placement: Placement, snapshot: Snapshot, profile: Profile, digest: str, depth: int
    ) -> tuple[list[int], int]:
        request, view = placement.asked[0], self._follower.view
        now_s = self._clock()
        if request.id in view.instances:
            ranking, rows = None, []
        else:
            find = self._rank if depth == CANDIDATES else rank  # a run knows no second best
            ranking = find(request, snapshot, view, profile, now_s)
            placement.ranking = ranking
            rows = [int(row) for row in ranking.best(depth)]
        candidates = self._candidates(ranking, rows, request) if ranking is not None else []
        wanted = Wanted(self._record(request, digest, now_s), request.ttl_s, candidates)
        change = self._follower.change
        transition = self._ledger.reserve(
            [wanted],
            expected_change=self._expected_change(request),
            dry_run=request.dry_run,
            meanwhile=placement.explain,
        )
        current = transition.before == change
        (outcome,) = transition.outcomes
        self._follower.absorb(transition)
        if self._settle(placement, 0, outcome):
            return [], depth
        if outcome.kind == "none":
            if ranking is None:
                return [0], depth
            placement.missing[0] = ranking.summary
            return [], depth
        placement.lost[0] += outcome.reasons.count(",") + 1
        if current and "changed" not in outcome.reasons:
            if ranking is not None and len(rows) == ranking.feasible_count:
                placement.missing[0] = f"{ranking.summary}; the ledger refused them: {_most_common(outcome.reasons)}"
                return [], depth
            depth *= 8
        return [0], depth

    def _try_many(
        self, placement: Placement, pending: list[int], snapshot: Snapshot, profile: Profile, digests: Sequence[str]
    ) -> list[int]:
        """Plan the pending instances and reserve them; return the positions to try again."""
        head = placement.asked[0]
        together = head.all_or_nothing or head.machines_max > 0 or head.machines_min > 0
        wanted = self._plan_many(placement, pending, snapshot, profile, digests)
        positions = list(wanted)
        lost: list[int] = []
        own: dict[str, int] = {}  # the versions that our own scripts left behind
        step = len(positions) if together else SCRIPT_INSTANCES_MAX
        for first in range(0, len(positions), max(1, step)):
            part = positions[first : first + step]
            change = self._follower.change
            transition = self._ledger.reserve(
                [_as_of(own, wanted[position]) for position in part],
                expected_change=max(self._expected_change(placement.asked[position]) for position in part),
                all_or_nothing=together,
                dry_run=head.dry_run,
                meanwhile=None if placement.answer else placement.explain,
            )
            own |= {record.machine: record.version for record in transition.changes}
            current = transition.before == change
            self._follower.absorb(transition)
            for position, outcome in zip(part, transition.outcomes, strict=True):
                if not self._settle(placement, position, outcome) and not self._hopeless(
                    placement, position, outcome, current
                ):
                    lost.append(position)
        if placement.missing and head.all_or_nothing:
            return self._nothing(placement)
        if lost and together:
            lost = sorted({*lost, *placement.missing})
            placement.missing.clear()
        return lost

    def _plan_many(
        self, placement: Placement, pending: list[int], snapshot: Snapshot, profile: Profile, digests: Sequence[str]
    ) -> dict[int, Wanted]:
        """Return what to reserve, by position; an instance without a machine is noted as missing.

        It is asked for all the same, without candidates: its id may be known to the ledger.
        """
        view, now_s = self._follower.view, self._clock()
        fresh = [position for position in pending if placement.asked[position].id not in view.instances]
        held = [view.instances[one.id].machine for one in placement.asked if one.id in view.instances]
        plan = self._plan([placement.asked[p] for p in fresh], snapshot, view, profile, now_s, held) if fresh else None
        machines = dict(zip(fresh, plan.machines, strict=True)) if plan else {}
        reasons = {fresh[at]: why for at, why in plan.reasons.items()} if plan else {}
        if plan and placement.ranking is None:
            placement.ranking = plan.ranking
        wanted: dict[int, Wanted] = {}
        for position in pending:
            request, machine = placement.asked[position], machines.get(position)
            candidates: list[Candidate] = []
            if machine is not None and plan is not None:
                row = plan.ranking.machines.roster.index[machine]
                candidates = self._candidates(plan.ranking, [row], request)
            elif position in machines:
                placement.missing[position] = reasons.get(position, "")
                if request.machines_max or request.machines_min:
                    continue  # the others are reserved together: this one must not stand in their way
            wanted[position] = Wanted(self._record(request, digests[position], now_s), request.ttl_s, candidates)
        return wanted

    @staticmethod
    def _hopeless(placement: Placement, position: int, outcome: Outcome, current: bool) -> bool:
        """Note an outcome that another try would not change; count the others as conflicts."""
        if outcome.kind == "none":
            return position in placement.missing
        if outcome.reasons == "all or none":
            return False
        if current and outcome.reasons != "changed":
            placement.missing[position] = f"the ledger refused its machine: {outcome.reasons}"
            return True
        placement.lost[position] += 1
        return False

    @staticmethod
    def _nothing(placement: Placement) -> list[int]:
        """Give up a batch of which all or none were wanted."""
        reason = next((why for why in placement.missing.values() if why), "")
        for position, record in enumerate(placement.records):
            if record is None:
                placement.missing[position] = placement.missing.get(position) or f"all or nothing: {reason}"
        return []

    def _settle(self, placement: Placement, position: int, outcome: Outcome) -> bool:
        """Note an outcome that is final and good; raise IdTaken for one that is final and bad."""
        if outcome.kind == "other" and outcome.instance is not None:
            raise IdTaken(outcome.instance)
        if outcome.kind not in ("placed", "known"):
            return False
        placement.records[position] = outcome.instance
        placement.missing.pop(position, None)
        if outcome.kind == "known":
            placement.known.add(position)
        if outcome.reasons:
            placement.lost[position] += outcome.reasons.count(",") + 1
        return True

    @staticmethod
    def _record(request: Request, digest: str, now_s: float) -> Instance:
        return msgspec.structs.replace(instance_of(request, "", now_s), request=digest)

    def _expected_change(self, request: Request) -> int:
        """Return the change the whole ledger must still be at: for rules that look beyond the one machine."""
        far = any(rule.topology != "machine" for rule in (*request.affinity, *request.anti_affinity))
        return self._follower.change if far else -1

    def _candidates(self, ranking: Ranking, rows: list[int], request: Request) -> list[Candidate]:
        if rows and (large := too_large(request.amounts(), float(request.maxmemory))):
            raise InvalidRequest(f"{large}: more than can be counted")
        names, version = ranking.machines.roster.names, self._follower.version
        allowed = limits(ranking, rows, request)
        return [Candidate(names[row], version(names[row]), *limit) for row, limit in zip(rows, allowed, strict=True)]


Limits = tuple[tuple[float, ...], float, float]
"""The most that a machine's sums may be: amounts, maxmemory, masters of the cluster; NaN: no limit."""


def limits(ranking: Ranking, rows: list[int], request: Request) -> list[Limits]:
    """Return what the profile's filters allow the sums of some machines."""
    share, masters, fits = math.nan, math.nan, False
    for placed in ranking.profile.filters:
        each = placed.filter
        if isinstance(each, Fits):
            fits = True
        elif isinstance(each, Maxmemory):
            share = each.share
        elif isinstance(each, Masters) and request.cluster_masters:
            masters = math.ceil(request.cluster_masters * each.share - 1e-9) - 1.0
    allocatable = ranking.machines.allocatable[:, rows].T.tolist()
    return [(tuple(of) if fits else _NO_LIMITS, of[MEMORY] * share, masters) for of in allocatable]


def _as_of(own: dict[str, int], wanted: Wanted) -> Wanted:
    """Expect the versions that our own scripts left, where they came after the plan."""
    candidates = [one._replace(version=own.get(one.machine, one.version)) for one in wanted.candidates]
    return wanted._replace(candidates=candidates)


def _most_common(reasons: str) -> str:
    found = reasons.split(",")
    return max(set(found), key=found.count)
