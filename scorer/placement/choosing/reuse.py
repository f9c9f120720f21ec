"""Reuse: the last ranking serves the next placement while a new ranking would choose the same machines.

Deployers place the same kind of instance again and again, one after the other or many at once. After each the ledger
has changed only by the chosen instance, so the next best machine is known (`scorer.placement.choosing.continuation`).
While no query waits the next ranking is made beforehand (`Reuse.prepare`). Both use the code and the data that the next
query would use, so a choice never depends on reuse. An answer has the terms of the ranking that the placements began
with.

The shape is that of kube-scheduler's OpportunisticBatch: one ranking is kept, and the request without its id is the
signature. Plugins state whether they allow it (`scorer.ranking.scope`). Each way out has a reason, which is counted
(`scorer.placement.choosing.reasons`). It differs in that a machine may take several: kube-scheduler gives up where the
machine last chosen could take another pod.

Reference: kubernetes, pkg/scheduler/framework/runtime/batch.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from schemas.rpc.request import Request
from scorer.placement.choosing.continuation import AGE_S_MAX, Continuation, without_id
from scorer.placement.choosing.plan import Plan, identical, plan, plan_steps
from scorer.placement.choosing.reasons import LASTING, REUSED, Reason
from scorer.placement.choosing.steps import Steps
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import rank, see
from scorer.ranking.ranking import Ranking

ALIKE_MIN = 2
"""After this many alike placements in a row more are expected, and the next machines are chosen ahead."""

ALIKE_STEP, UNLIKE_STEP = 64, 8
"""The most instances planned in one step: identical ones, and others."""


class Reuse:
    """Ranks and plans as `rank` and `plan` do; keeps the last ranking."""

    def __init__(self) -> None:
        self.reasons: Counter[Reason] = Counter()
        """The reason of each ranking or plan since the caller last counted and cleared them."""
        self._kept: Continuation | None = None
        self._last: tuple[Request, Profile] | None = None
        """The last ranked request, without its id, and its profile."""
        self._repeated = False
        """Whether it was asked for twice in a row."""

    def rank(self, request: Request, inputs: RankingInputs, *, whole: bool = False) -> Ranking:
        """Return the kept ranking, if it holds for this request, or a new one. Raises what `rank` raises.

        ``whole``: more than the best machine is asked for. Otherwise it may be a `ContinuedRanking`.
        """
        profile = inputs.profile
        if profile.ties == "draw":
            self.reasons["ties_drawn"] += 1
            self._forget()
            return rank(request, inputs)
        asked = without_id(request)
        self._repeated = self._last is not None and self._last[1] is profile and self._last[0] == asked
        reason = self._check(asked, 0, inputs)
        if whole and reason == "continued":
            self.reasons["whole_ranking"] += 1
            return rank(asked, inputs)
        self.reasons[reason] += 1
        if self._kept is not None and reason in REUSED:
            return self._kept.ranking()
        self._forget()
        ranking = rank(asked, inputs)
        self._last = (asked, profile)
        return ranking

    def plan(self, requests: Sequence[Request], inputs: RankingInputs, held: Sequence[str] = (), more: int = 0) -> Plan:
        """Return the plan of a batch: from the kept ranking, or a new one. Raises what `plan` raises.

        ``more``: so many alike instances come in the next parts; filters and scores are asked for them now.
        """
        asked, count = without_id(requests[0]), len(requests)
        unfit = _unfit(requests, held) or ("ties_drawn" if inputs.profile.ties == "draw" else None)
        reason = unfit or self._check(asked, count, inputs)
        if self._kept is not None and reason in REUSED:
            self.reasons[reason] += 1
            return Plan(self._kept.machines(count), self._kept.ranking())
        self._forget()
        first: Ranking | None = None
        if unfit is None and count > 1:
            first = rank(asked, inputs)
            made = Continuation(first, inputs, count=count + more)
            short = made.extend(count)
            if short is None:
                self.reasons[reason] += 1
                self._kept, self._last, self._repeated = made, (asked, inputs.profile), True
                return Plan(made.machines(count), first)
            reason = short if short in LASTING else reason
        self.reasons[reason] += 1
        return plan(requests, inputs, held, first)

    def plan_steps(
        self, requests: Sequence[Request], inputs: RankingInputs, held: Sequence[str] = (), more: int = 0
    ) -> Steps[Plan]:
        """Return `plan` in steps; a plan of several steps neither uses the kept ranking nor keeps one."""
        alike = identical(requests)
        if len(requests) <= (ALIKE_STEP if alike else UNLIKE_STEP):
            return self.plan(requests, inputs, held, more)
        self._forget()
        self.reasons[_unfit(requests, held, alike) or "nothing_kept"] += 1
        found = yield from plan_steps(requests, inputs, held)
        return found

    def look_ahead(self, count: int) -> None:
        """Choose the next ``count`` machines by the kept ranking, counted from its last choice that was placed."""
        if self._kept is not None:
            self._kept.extend(count)

    def prepare(self, inputs: Callable[[Profile], RankingInputs]) -> None:
        """Bring the columns up to date; rank the last request again if it was asked for twice in a row.

        ``inputs``: returns the present ones for a profile.
        """
        if self._last is None:
            return
        kept, (request, profile) = self._kept, self._last
        now = inputs(profile)
        soon = replace(now, now_s=now.now_s + AGE_S_MAX / 4)
        if kept is not None and self._check(request, 0, soon) in REUSED:
            return
        placed = kept.placed if kept is not None else 0
        self._kept = kept = None
        try:
            if self._repeated:
                ranking = rank(request, now)
                ended: Reason | None = "explained" if request.explain else "few_alike" if placed < ALIKE_MIN else None
                self._kept = Continuation(ranking, now, ended=ended, placed=placed)
                self._kept.extend(1)
            else:
                see(request, now)
        except Exception:  # the next equal query will raise it and be answered with it
            self._last = None

    def _check(self, asked: Request, count: int, inputs: RankingInputs) -> Reason:
        """Return ``unchanged`` or ``continued`` if the kept ranking serves the next ``count`` instances, or why not.

        ``count`` 0: one instance; a ranking without a feasible machine serves too.
        """
        kept = self._kept
        if kept is None:
            return "nothing_kept"
        reason = kept.outdated(asked, inputs)
        if reason is None and (count or not kept.fresh):
            reason = kept.extend(count or 1)
        return reason or ("unchanged" if kept.fresh else "continued")

    def _forget(self) -> None:
        """Drop the kept ranking, which would make the next change of the ledger copy the fleet's columns.

        The last request is dropped too: one that cannot be ranked is not tried again.
        """
        self._kept = self._last = None


def _unfit(requests: Sequence[Request], held: Sequence[str], alike: bool | None = None) -> Reason | None:
    """Return the property of a batch that requires a plan of its own, None without one."""
    first = requests[0]
    if held:
        return "retried"
    if first.explain:
        return "explained"
    if first.machines_max or first.machines_min:
        return "machines_limited"
    return None if (identical(requests) if alike is None else alike) else "unlike"
