"""Shell: the verbs in time.

A call that is late, stale or fails gets a neutral answer, which leaves the decision to the scheduler.

| verb       | neutral                                            |
|------------|----------------------------------------------------|
| prioritize | no scores                                          |
| filter     | all nodes kept                                     |
| bind       | an error: the scheduler tries the pod again        |

A verb waits for the lock for the rest of `DEADLINE_S`. One node alone is kept at once: so a DaemonSet's pod comes.
Stale data make no difference to ``bind``: its limits are on promised amounts.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Literal, NamedTuple, TypeVar

import msgspec
import numpy as np

from schemas.rpc.request import InvalidRequest, Request
from scorer.kubernetes.extender.assumed import AssumedPods
from scorer.kubernetes.extender.binding import Binder, Refused
from scorer.kubernetes.extender.fleet import ANSWERED, FollowedFleet, Metrics
from scorer.kubernetes.extender.protocol import (
    NOT_NAMED,
    SCORE_MAX,
    ExtenderArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    HostPriority,
    read_args,
    read_binding,
)
from scorer.kubernetes.pods_request import Reading, hold_id, request_of
from scorer.ledger.record.instance import Instance, request_digest
from scorer.ledger.record.transition import Candidate, Wanted
from scorer.ledger.view.view import instance_of
from scorer.placement.placer import candidates
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.rank import Ranking, rank
from scorer.snapshot.arrays import Integers
from scorer.snapshot.rules import Roster

log = logging.getLogger("windward.extender")

Mode = Literal["score", "filter", "bind"]
LEFT_TO_KUBERNETES = ("machine_name", "taints", "selector", "fits", "ports", "affinity", "anti_affinity")
"""The filters for rules of the pod itself, which kube-scheduler checks."""
RESERVED_S = 60.0
"""How long a reservation waits for its pod to be seen bound."""
_ANY_VERSION = -1
DEADLINE_S = 0.15
"""Less than the scheduler's httpTimeout of 200 ms."""
BINDS_MAX = 6
"""Bindings that are under way at once: the other threads answer the other verbs."""
Found = TypeVar("Found")


class Neutral(Exception):
    """No answer is possible, for one of the reasons of `scorer.kubernetes.extender.fleet.NEUTRAL`."""


@dataclass(eq=False)
class Verbs:
    """Answers the bodies of the scheduler; raises nothing."""

    fleet: FollowedFleet
    mode: Mode
    how: Reading
    metrics: Metrics
    top: int = 500
    scheduler_names: Sequence[str] = ()
    binder: Binder | None = None
    clock: Callable[[], float] = time.time
    _told: bool = False
    _assumed: AssumedPods = field(default_factory=AssumedPods)
    _binds: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(BINDS_MAX))

    def prioritize(self, body: bytes) -> list[HostPriority]:
        """Return the scores of the best nodes; none where no answer is possible."""
        return self._counted("prioritize", lambda began_s: self._prioritize(body, began_s), lambda _: [])

    def filter(self, body: bytes) -> ExtenderFilterResult:
        """Return the kept nodes; all of them where no answer is possible, or where the mode is not filtering."""
        try:
            args, every = read_args(body), ExtenderFilterResult(error=NOT_NAMED)
        except msgspec.DecodeError as error:
            self.metrics.answers.labels("filter", "refused").inc()
            return ExtenderFilterResult(error=f"not a question: {error}")
        if args.node_names is not None:
            every = ExtenderFilterResult(args.node_names)
            if self.mode == "score" or len(args.node_names) <= 1:
                return self._counted("filter", lambda _: every, lambda _: every)

        def answer(began_s: float) -> ExtenderFilterResult:
            request, names = self._request(args), args.node_names or []
            return self._on_ranking(request, began_s, lambda ranking, _: kept(names, ranking))

        return self._counted("filter", answer, lambda _: every)

    def bind(self, body: bytes) -> ExtenderBindingResult:
        """Reserve the node in the ledger and bind the pod to it; an error where either fails."""
        return self._counted(
            "bind", lambda _: self._bind(body), lambda why: ExtenderBindingResult(f"windward cannot bind now: {why}")
        )

    def _counted(self, verb: str, make: Callable[[float], Found], neutral: Callable[[str], Found]) -> Found:
        """Return an answer, or the neutral one; count it, and measure its time."""
        began_s, result = time.monotonic(), ANSWERED
        try:
            answer = make(began_s)
        except Neutral as why:
            result, answer = str(why), neutral(str(why))
        except Exception as error:
            log.exception("extender.failed")
            result, answer = "failed", neutral(type(error).__name__)
        self.metrics.answers.labels(verb, result).inc()
        self.metrics.seconds.labels(verb).observe(time.monotonic() - began_s)
        return answer

    def _prioritize(self, body: bytes, began_s: float) -> list[HostPriority]:
        try:
            args = read_args(body)
        except msgspec.DecodeError:
            raise Neutral("refused") from None
        request, names = self._request(args), args.node_names or []
        return self._on_ranking(request, began_s, lambda ranking, held: self._scores(request, names, ranking, held))

    def _request(self, args: ExtenderArgs) -> Request:
        if args.node_names is None:
            if not self._told:  # prioritize has no field for an error
                log.warning("extender.not_named", extra={"values": {"error": NOT_NAMED}})
            self._told = True
            raise Neutral("refused")
        if self.scheduler_names and args.pod.spec.scheduler_name not in self.scheduler_names:
            raise Neutral("other")
        try:
            return request_of(args.pod, args.pod.metadata.uid, self.how)
        except ValueError:
            raise Neutral("refused") from None

    def _bind(self, body: bytes) -> ExtenderBindingResult:
        if self.binder is None:
            return ExtenderBindingResult(f"the extender's mode is {self.mode}: its entry must have no bindVerb")
        try:
            args = read_binding(body)
        except msgspec.DecodeError as error:
            return ExtenderBindingResult(f"not a binding: {error}")
        if not self._binds.acquire(timeout=DEADLINE_S):
            self.metrics.refused.labels("busy").inc()
            raise Neutral("late")
        try:
            request = self.binder.request(args, self.how)
            if request is not None:  # else it is bound there already
                wanted, held = self._reservation(request, args.node)
                if held is not None and held.machine == args.node:
                    self.binder.release(held)
                self.binder.bind(args, wanted)
        except Refused as refused:
            self.metrics.refused.labels(refused.reason).inc()
            return ExtenderBindingResult(str(refused))
        finally:
            self._binds.release()
        return ExtenderBindingResult()

    def _reservation(self, request: Request, node: str) -> tuple[Wanted, Instance | None]:
        """Return the request to reserve, and the pod's hold of a node."""
        now_s = self.clock()

        def of(ranking: Ranking, held: Instance | None) -> tuple[Wanted, Instance | None]:
            self._assumed.note(instance_of(request, node, now_s), now_s)
            return reservation(request, node, ranking), held

        return self._on_ranking(request, time.monotonic(), of, stale=True)

    def _on_ranking(
        self,
        request: Request,
        began_s: float,
        answer: Callable[[Ranking, Instance | None], Found],
        *,
        stale: bool = False,
    ) -> Found:
        """Return an answer made from a ranking and from the pod's hold, while the fleet does not change."""
        fleet, now_s = self.fleet, self.clock()
        if not fleet.lock.acquire(timeout=max(0.0, began_s + DEADLINE_S - time.monotonic())):
            raise Neutral("late")
        try:
            if why := fleet.why_not():
                raise Neutral(why)
            if not stale and fleet.is_stale():
                raise Neutral("stale")
            hold = hold_id(self.how.cluster, request.kind) if request.kind else ""
            held = fleet.held(hold)
            own = "" if held is None else hold
            inputs = fleet.inputs(lambda follower: self._assumed.over(follower.view, request.id, now_s, own))
            return answer(rank(request, inputs), held if held is not None and held.expires_at > now_s else None)
        except InvalidRequest:
            raise Neutral("refused") from None
        finally:
            self.metrics.pending.set(len(self._assumed))
            fleet.lock.release()

    def _scores(
        self, request: Request, names: Sequence[str], ranking: Ranking, held: Instance | None
    ) -> list[HostPriority]:
        found = scored(names, ranking, self.top)
        row = None if held is None else ranking.machines.roster.index.get(held.machine)
        if held is not None and row is not None and ranking.feasible[row] and held.machine in names:
            self.metrics.steered.inc()
            return [HostPriority(held.machine, SCORE_MAX)]
        self.metrics.unknown.inc(found.unknown)
        if found.scores:
            now_s = self.clock()
            self._assumed.note(instance_of(request, found.scores[0].host, now_s), now_s)
        return found.scores


UNKNOWN = -1
"""The row of a node that the fleet does not know."""
EVICTABLE = ("fits", "masters", "maxmemory")
"""The filters that compare promised amounts: the eviction of other pods may help."""


class Scored(NamedTuple):
    """The scores of the best nodes, best first, and the number of unknown nodes in the call."""

    scores: list[HostPriority]
    unknown: int


def rows_of(names: Sequence[str], roster: Roster) -> Integers:
    """Return the row of each node, `UNKNOWN` for one that the fleet does not know."""
    return np.array(list(map(roster.index.get, names, repeat(UNKNOWN))), np.int64)


def scored(names: Sequence[str], ranking: Ranking, top: int) -> Scored:
    """Return the scores of the best ``top`` of these nodes, 1 to `SCORE_MAX`, best first; the others have 0.

    Unknown and refused nodes are left out, and feasible ones beyond ``top``: a list of 5,000 is decoded by the
    scheduler in 5.1 ms, one of 500 in 0.4 ms.
    """
    rows = rows_of(names, ranking.machines.roster)
    places = np.flatnonzero(rows != UNKNOWN)
    unknown = len(names) - int(places.size)
    places = places[ranking.feasible[rows[places]]]
    totals = ranking.total[rows[places]]
    if top < places.size:
        best = np.argpartition(-totals, top)[:top]
        places, totals = places[best], totals[best]
    order = np.argsort(-totals, kind="stable")
    whole = np.clip(np.rint(totals[order]), 1, SCORE_MAX).astype(np.int64)
    found = zip(places[order].tolist(), whole.tolist(), strict=True)
    return Scored([HostPriority(names[place], score) for place, score in found], unknown)


def kept(names: Sequence[str], ranking: Ranking) -> ExtenderFilterResult:
    """Return the kept nodes, and for each other node the first filter that refuses it."""
    rows = rows_of(names, ranking.machines.roster)
    places = np.flatnonzero(rows != UNKNOWN)
    refused = places[~ranking.feasible[rows[places]]]
    if not refused.size:
        return ExtenderFilterResult(list(names))
    left = np.ones(len(names), np.bool_)
    left[refused] = False
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for place in refused.tolist():
        why = ranking.verdict_of(int(rows[place]))
        assert why is not None
        verdict, reason = why
        (failed if verdict.filter.name in EVICTABLE else unresolvable)[names[place]] = reason
    return ExtenderFilterResult(
        [name for name, keep in zip(names, left.tolist(), strict=True) if keep], failed, unresolvable
    )


def profile_for(profile: Profile, mode: Mode) -> Profile:
    """Return a profile without the filters that are left to Kubernetes, which come before an extender is called.

    Only mode ``bind`` keeps `fits`, which gives the limit that the ledger upholds.
    """
    left = [name for name in LEFT_TO_KUBERNETES if mode != "bind" or name != "fits"]
    return replace(profile, filters=tuple(each for each in profile.filters if each.filter.name not in left))


def reservation(request: Request, node: str, ranking: Ranking) -> Wanted:
    """Return the step for the ledger: a reservation on this node alone, within the limits of the profile's filters.

    Versions are not compared: the scheduler has chosen, and only hard limits are checked. A node that the fleet does
    not know has no limits. Ports have none: the scheduler tells protocols and addresses apart.
    """
    row = ranking.machines.roster.index.get(node)
    if row is None:
        offered = [Candidate(node, _ANY_VERSION)]
    else:
        asked = msgspec.structs.replace(request, ports=()) if request.ports else request
        offered = candidates(lambda _: _ANY_VERSION, ranking, [row], asked)
    record = instance_of(request, "", ranking.machines.now_s, digest=request_digest(request))
    return Wanted(record, RESERVED_S, offered)
