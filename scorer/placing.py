"""Shell: rank, reserve, and again where another scorer was faster. One instance or many.

The view is current when a query is taken. The reserve script compares versions and limits once more; it is given the
best few machines, so that losing one costs no second round trip. When all of them were lost, the log is read and the
machines ranked anew; when they were lost to limits that no version explains (a port, say, that no filter looks at),
more machines are given.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from schemas.request import InvalidRequest, Request
from schemas.resources import MEMORY, RESOURCES
from scorer import batch
from scorer.filters.fits import Fits
from scorer.filters.masters import Masters
from scorer.filters.maxmemory import Maxmemory
from scorer.follow import Follower
from scorer.instance import Instance
from scorer.ledger import Candidate, Ledger, Outcome, Wanted, request_digest, too_large
from scorer.ledger_view import instance_of
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
    rankings: list[Ranking] = field(default_factory=list)
    """The ranking of the first instance, when one was made."""
    missing: dict[int, str] = field(default_factory=dict)
    """Why, by position, of those without a machine."""
    repeated: int = 0
    """Instances that were there before."""
    conflicts: int = 0
    """Candidates that were lost to another scorer."""


class IdTaken(Exception):
    """Another request was placed under this id."""

    def __init__(self, record: Instance) -> None:
        super().__init__(f"id: {record.id!r} was placed on {record.machine} for another request")


class Placing:
    """Places requests on the snapshot given; ``attempts_max`` bounds the tries."""

    def __init__(
        self, ledger: Ledger, follower: Follower, attempts_max: int = 20, clock: Callable[[], float] = time.time
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._attempts_max = attempts_max
        self._clock = clock

    def place(
        self,
        requests: Sequence[Request],
        snapshot: Snapshot,
        profiles: Sequence[Profile],
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
            profile = profiles[pending[0]]
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
            if record is None or record.state == "reserved":  # the script knows whether it has expired
                pending.append(position)
            elif record.request != digests[position]:
                raise IdTaken(record)
            else:
                placement.records[position] = record
                placement.repeated += 1
        return pending

    def _try_one(
        self, placement: Placement, snapshot: Snapshot, profile: Profile, digest: str, depth: int
    ) -> tuple[list[int], int]:
        request, view = placement.asked[0], self._follower.view
        now_s = self._clock()
        if request.id in view.instances:
            ranking, rows = None, []
        else:
            ranking = rank(request, snapshot, view, profile, now_s)
            placement.rankings = [ranking]
            rows = [int(row) for row in ranking.best(depth)]
        candidates = self._candidates(ranking, rows, request) if ranking is not None else []
        wanted = Wanted(self._record(request, digest, now_s), request.ttl_s, candidates)
        change = self._follower.change
        transition = self._ledger.reserve(
            [wanted], expected_change=self._expected_change(request), dry_run=request.dry_run
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
        placement.conflicts += outcome.reasons.count(",") + 1
        if current and "changed" not in outcome.reasons:
            if ranking is not None and len(rows) == ranking.feasible_count:
                placement.missing[0] = f"{ranking.summary}; the ledger refused them: {_most_common(outcome.reasons)}"
                return [], depth
            depth *= 8
        return [0], depth

    def _try_many(
        self, placement: Placement, pending: list[int], snapshot: Snapshot, profile: Profile, digests: Sequence[str]
    ) -> list[int]:
        view, now_s = self._follower.view, self._clock()
        asked = [placement.asked[position] for position in pending]
        fresh = [position for position in pending if placement.asked[position].id not in view.instances]
        plan = batch.plan([placement.asked[p] for p in fresh], snapshot, view, profile, now_s) if fresh else None
        machines = dict(zip(fresh, plan.machines, strict=True)) if plan else {}
        why = iter(plan.missing if plan else ())
        reasons = {position: next(why, "") for position in fresh if machines[position] is None}
        if plan and not placement.rankings:
            placement.rankings = [plan.ranking]
        whole = asked[0].all_or_nothing or asked[0].machines_max > 0 or asked[0].machines_min > 0
        wanted, positions = [], []
        for position in pending:
            request, machine = placement.asked[position], machines.get(position)
            if machine is None and whole and not asked[0].all_or_nothing and position in machines:
                placement.missing[position] = reasons[position]
                continue
            candidates = []
            if machine is not None and plan is not None:
                row = plan.ranking.machines.roster.index[machine]
                candidates = self._candidates(plan.ranking, [row], request)
            wanted.append(Wanted(self._record(request, digests[position], now_s), request.ttl_s, candidates))
            positions.append(position)
        again: list[int] = []
        step = len(wanted) if whole else SCRIPT_INSTANCES_MAX
        for first in range(0, len(wanted), max(1, step)):
            part = wanted[first : first + step]
            expected = max((self._expected_change(request) for request in asked), default=-1) if whole else -1
            transition = self._ledger.reserve(
                part, expected_change=expected, all_or_nothing=whole, dry_run=asked[0].dry_run
            )
            undone = whole and any(outcome.kind in ("conflict", "none") for outcome in transition.outcomes)
            self._follower.absorb(transition)
            for position, outcome in zip(positions[first : first + step], transition.outcomes, strict=True):
                if self._settle(placement, position, outcome):
                    continue
                if outcome.kind == "none":
                    if position in machines:
                        placement.missing[position] = reasons.get(position, "")
                    else:
                        again.append(position)
                    continue
                placement.conflicts += outcome.reasons != "all or none"
                again.append(position)
            if undone and asked[0].all_or_nothing and placement.missing:
                return self._nothing(placement)
        if whole and again and not asked[0].all_or_nothing:
            placement.missing.clear()
        return again

    def _nothing(self, placement: Placement) -> list[int]:
        reason = next(iter(placement.missing.values()))
        for position, record in enumerate(placement.records):
            if record is None:
                placement.missing.setdefault(position, f"all or nothing: {reason}")
        return []

    def _settle(self, placement: Placement, position: int, outcome: Outcome) -> bool:
        """Note an outcome that is final and good; raise IdTaken for one that is final and bad."""
        if outcome.kind == "other" and outcome.instance is not None:
            raise IdTaken(outcome.instance)
        if outcome.kind not in ("placed", "known"):
            return False
        placement.records[position] = outcome.instance
        placement.repeated += outcome.kind == "known"
        if outcome.reasons:
            placement.conflicts += outcome.reasons.count(",") + 1
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


def _most_common(reasons: str) -> str:
    found = reasons.split(",")
    return max(set(found), key=found.count)
