"""Shell: rank and reserve, again when another scorer was faster. One instance or many.

The view is current when a query is taken. The reserve script compares versions and limits once more. It gets the best
few machines, so that the loss of one costs no second round trip. When all of them are lost, the log is read and the
machines are ranked anew. When they are lost to limits and not to changed versions (for example a port that no filter
looks at), the script gets more machines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from schemas.rpc.request import InvalidRequest, Request
from scorer.ledger.record.digest import request_digest
from scorer.ledger.record.transition import CHANGED, NO_QUERY, Call
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.placement.batch_placer import BatchPlacing, together
from scorer.placement.choosing.reuse import Reuse
from scorer.placement.choosing.steps import Steps, drain
from scorer.placement.offers.offer import candidates, expected_change, wanted
from scorer.placement.offers.outcomes import refused, settle
from scorer.placement.offers.placement import Conflict, Placement
from scorer.ranking.explanation.explain import summary
from scorer.ranking.profiles.profile import Profile
from scorer.snapshot.snapshot import Snapshot

CANDIDATES = 4
"""Machines given to the reserve script at first."""
TOGETHER_MAX = 1_000
"""Instances that can be reserved in one script, as all or none."""


class Placing:
    """Places requests on the snapshot given; ``attempts_max`` bounds the tries."""

    def __init__(
        self,
        ledger: Ledger,
        follower: Follower,
        attempts_max: int = 20,
        clock: Callable[[], float] = time.time,
        reuse: Reuse | None = None,
    ) -> None:
        self._reuse = reuse or Reuse()
        self._ledger = ledger
        self._follower = follower
        self._attempts_max = attempts_max
        self._clock = clock
        self._batches = BatchPlacing(ledger, follower, self._reuse, clock)

    def place(
        self,
        requests: Sequence[Request],
        snapshot: Snapshot,
        profile: Profile,
        *,
        digests: Sequence[str] = (),
        calls: Sequence[Call] = (),
        deadline: float = 0.0,
    ) -> Placement:
        """Reserve a machine for each request, which has an id and stands for one instance.

        ``digests``, ``calls``: by position, or empty. Only the script decides on an id that is live or has ended: it
        knows what the query did before, and the server's time.

        Raises IdTaken, Conflict, Late, InvalidRequest.
        """
        return drain(self.steps(requests, lambda: snapshot, profile, digests=digests, calls=calls, deadline=deadline))

    def steps(
        self,
        requests: Sequence[Request],
        snapshot: Callable[[], Snapshot],
        profile: Profile,
        *,
        digests: Sequence[str] = (),
        calls: Sequence[Call] = (),
        deadline: float = 0.0,
    ) -> Steps[Placement]:
        """Do the same in steps of about `STEP_S`; each step uses the newest snapshot and the present ledger."""
        digests = digests or [request_digest(request) for request in requests]
        calls = calls or [NO_QUERY] * len(requests)
        placement = Placement(list(requests), [None] * len(requests))
        if len(requests) > TOGETHER_MAX and (why := together(requests[0])):
            raise InvalidRequest(f"{why}: {len(requests)} instances, at most {TOGETHER_MAX} are reserved in one step")
        pending = list(range(len(requests)))
        attempts, depth = 0, CANDIDATES
        while pending:
            if attempts >= self._attempts_max or (attempts and self._late(deadline)):
                raise Conflict(f"lost to other scorers {attempts} times")
            attempts += 1
            if len(requests) == 1:
                pending, depth = self._try_one(placement, snapshot(), profile, digests[0], calls[0], depth)
            else:
                pending = yield from self._batches.place(
                    placement, pending, snapshot, profile, digests, calls, deadline
                )
        return placement

    def _late(self, deadline: float) -> bool:
        return bool(deadline) and self._clock() > deadline

    def _try_one(
        self, placement: Placement, snapshot: Snapshot, profile: Profile, digest: str, call: Call, depth: int
    ) -> tuple[list[int], int]:
        request, view = placement.asked[0], self._follower.view
        now_s = self._clock()
        if request.id in view.instances:
            ranking, rows = None, []
        else:
            ranking = self._reuse.rank(request, snapshot, view, profile, now_s, whole=depth > CANDIDATES)
            placement.ranking = ranking
            rows = [int(row) for row in ranking.best(depth)]
        offered = candidates(self._follower.version, ranking, rows, request) if ranking is not None else []
        asked = wanted(request, digest, call, now_s, offered)
        change = self._follower.change
        transition = self._ledger.reserve(
            [asked],
            expected_change=expected_change(change, request),
            dry_run=request.dry_run,
            meanwhile=placement.explain,
        )
        current = transition.before == change
        (outcome,) = transition.outcomes
        self._follower.absorb(transition)
        self._follower.doubt(transition, change)
        if settle(placement, 0, outcome):
            return [], depth
        if outcome.kind == "none":
            if ranking is None or transition.changes:  # the script ended what was due: there may be room now
                return [0], depth
            placement.missing[0] = summary(ranking)
            return [], depth
        if outcome.kind in ("gone", "late"):
            refused(placement, 0, outcome)
            return [], depth
        placement.lost[0] += len(outcome.reasons)
        if current and CHANGED not in outcome.reasons:
            if ranking is not None and len(rows) == ranking.feasible_count:
                placement.missing[0] = f"{summary(ranking)}; the ledger refused them: {_most_common(outcome.reasons)}"
                return [], depth
            depth *= 8
        return [0], depth


def _most_common(reasons: Sequence[str]) -> str:
    return max(set(reasons), key=reasons.count)
