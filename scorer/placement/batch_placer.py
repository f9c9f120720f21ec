"""Shell: many instances in one query: planned and reserved together, or a few at a time with others served between."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from schemas.rpc.request import Request
from scorer.ledger.record.transition import Call, Candidate, Wanted
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.placement.choosing.continuation import without_id
from scorer.placement.choosing.plan import Plan
from scorer.placement.choosing.reuse import Reuse
from scorer.placement.choosing.steps import Steps, drain
from scorer.placement.offers.offer import as_of, candidates, expected_change, wanted
from scorer.placement.offers.outcomes import hopeless, replanned, settle
from scorer.placement.offers.placement import Late, Placement
from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.snapshot import Snapshot

SCRIPT_INSTANCES_MAX = 64
"""Instances reserved by one script, unless all or none are wanted: the server serves no other client meanwhile."""
FIRST_STEP = 8
"""Instances of a batch in its first step; the next ones follow from how long it took."""
STEP_S = 0.008
"""How long a step of a batch should last with its script, s: other queries wait meanwhile."""
STEP_MIN = 4
"""Fewest instances of a step: smaller steps would make the batch slower and the other queries no faster."""


class BatchPlacing:
    """Places the pending instances of a batch; ``clock`` returns the time that deadlines are compared with."""

    def __init__(self, ledger: Ledger, follower: Follower, reuse: Reuse, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._follower = follower
        self._reuse = reuse
        self._clock = clock

    def place(
        self,
        placement: Placement,
        pending: list[int],
        snapshot: Callable[[], Snapshot],
        profile: Profile,
        digests: Sequence[str],
        calls: Sequence[Call],
        deadline: float,
    ) -> Steps[list[int]]:
        """Plan the pending instances and reserve them; return the positions to try again."""
        head = placement.asked[0]
        if together(head) or head.dry_run:
            planned = yield from self._plan(placement, pending, snapshot(), profile, digests, calls)
            self._in_time(placement, deadline)
            lost = yield from self._reserve(placement, planned)
            if placement.missing and head.all_or_nothing:
                return self._nothing(placement)
            if lost and together(head):
                lost = sorted({*lost, *placement.missing})
                placement.missing.clear()
            return lost
        lost, first, size = [], 0, FIRST_STEP
        while first < len(pending):
            started = time.perf_counter()
            part = pending[first : first + size]
            planned = drain(self._plan(placement, part, snapshot(), profile, digests, calls))
            self._in_time(placement, deadline)
            lost += drain(self._reserve(placement, planned))
            first += size
            elapsed_s = time.perf_counter() - started
            size = next_size(size, elapsed_s)
            if first < len(pending):
                yield
        return lost

    def _in_time(self, placement: Placement, deadline: float) -> None:
        """Raise Late after the deadline: the caller no longer waits."""
        if deadline and self._clock() > deadline:
            raise Late(sum(record is not None for record in placement.records), len(placement.asked))

    def _reserve(self, placement: Placement, planned: Mapping[int, Wanted]) -> Steps[list[int]]:
        """Reserve the planned instances; return the positions to plan again.

        Their machine was lost to another scorer, or the script has ended what was due: what was refused may have room
        now. It ends that without an instance, too.
        """
        head, positions = placement.asked[0], list(planned)
        as_one = bool(together(head))
        lost: list[int] = []
        own: dict[str, int] = {}  # the versions after our own scripts
        step = len(positions) if as_one else SCRIPT_INSTANCES_MAX
        for first in range(0, max(1, len(positions)), max(1, step)):
            part = positions[first : first + step]
            change = self._follower.change
            changes = [expected_change(change, placement.asked[position]) for position in part]
            transition = self._ledger.reserve(
                [as_of(own, planned[position]) for position in part],
                expected_change=max(changes, default=-1),
                all_or_nothing=as_one,
                dry_run=head.dry_run,
                meanwhile=None if placement.answer else placement.explain,
            )
            own |= {record.machine: record.version for record in transition.changes}
            current = transition.before == change
            self._follower.absorb(transition)
            self._follower.doubt(transition, change)
            for position, outcome in zip(part, transition.outcomes, strict=True):
                if not settle(placement, position, outcome) and not hopeless(placement, position, outcome, current):
                    lost.append(position)
            if any(record.state != "reserved" for record in transition.changes):
                lost += replanned(placement)
            if first + step < len(positions):
                yield
        return lost

    def _plan(
        self, placement: Placement, pending: list[int], snapshot: Snapshot, profile: Profile, digests: Sequence[str],
        calls: Sequence[Call],
    ) -> Steps[dict[int, Wanted]]:  # fmt: skip
        """Return the instances to reserve, by position; one without a machine is noted as missing.

        It is still sent to the script, without candidates: its id may be known to the ledger.
        """
        view, now_s = self._follower.view, self._clock()
        fresh = [position for position in pending if placement.asked[position].id not in view.instances]
        held: list[str] = []
        if together(placement.asked[0]):
            held = [view.instances[one.id].machine for one in placement.asked if one.id in view.instances]
        plan = None
        if fresh:
            asked = [placement.asked[p] for p in fresh]
            plan = yield from self._reuse.plan_steps(asked, snapshot, view, profile, now_s, held)
        machines = dict(zip(fresh, plan.machines, strict=True)) if plan else {}
        reasons = {fresh[at]: why for at, why in plan.reasons.items()} if plan else {}
        if plan and placement.ranking is None:
            placement.ranking = plan.ranking
        offers = self._offers(plan, machines, placement) if plan else {}
        found: dict[int, Wanted] = {}
        for position in pending:
            request = placement.asked[position]
            if machines.get(position, "") is None:
                placement.missing[position] = reasons.get(position, "")
                if request.machines_max or request.machines_min:
                    continue  # the others are reserved together, and this one must not make that fail
            found[position] = wanted(request, digests[position], calls[position], now_s, offers.get(position, ()))
        return found

    def _offers(
        self, plan: Plan, machines: Mapping[int, str | None], placement: Placement
    ) -> dict[int, Sequence[Candidate]]:
        """Return the candidates of each position that has a machine; runs of alike requests are handled together."""
        index, found = plan.ranking.machines.roster.index, dict[int, Sequence[Candidate]]()
        chosen = ((position, machine) for position, machine in machines.items() if machine is not None)
        for _, alike in groupby(chosen, lambda one: without_id(placement.asked[one[0]])):
            run = list(alike)
            rows = [index[machine] for _, machine in run]
            offered = candidates(self._follower.version, plan.ranking, rows, placement.asked[run[0][0]])
            found |= {position: (each,) for (position, _), each in zip(run, offered, strict=True)}
        return found

    @staticmethod
    def _nothing(placement: Placement) -> list[int]:
        """Note all instances of an all-or-nothing batch as missing."""
        reason = next((why for why in placement.missing.values() if why), "")
        for position, record in enumerate(placement.records):
            if record is None:
                placement.missing[position] = placement.missing.get(position) or f"all or nothing: {reason}"
        return []


def next_size(size: int, elapsed_s: float) -> int:
    """Return the number of instances of the next step, when one of ``size`` took ``elapsed_s``.

    >>> next_size(8, 0.001), next_size(32, 0.016), next_size(8, 1.0)
    (16, 16, 4)
    """
    return max(STEP_MIN, min(SCRIPT_INSTANCES_MAX, 2 * size, int(size * STEP_S / elapsed_s)))


def together(head: Request) -> str:
    """Return the field that requires a batch to be reserved in one script; "" for none."""
    fields = ("all_or_nothing", "machines_max", "machines_min")
    return next((name for name in fields if getattr(head, name)), "")
