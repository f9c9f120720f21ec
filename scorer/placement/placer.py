"""Shell: rank or plan, and reserve; again when another scorer was faster. One instance or many.

The view is current when a query is taken. The reserve script compares versions and limits once more. It gets the best
few machines, so that the loss of one costs no second round trip. When all of them are lost, the log is read and the
machines are ranked anew. When they are lost to limits and not to changed versions (for example a port that no filter
checks), the script gets more machines. Many instances are planned and reserved together, or a few at a time with other
queries served between. `Placement` is the result of a query.
"""

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby

from schemas.rpc.request import InvalidRequest, Request
from schemas.rpc.results import RankResult
from scorer.ledger.record.facets import facets_of, rule_of
from scorer.ledger.record.instance import Instance, request_digest, too_large
from scorer.ledger.record.transition import ALL_OR_NONE, CHANGED, NO_QUERY, Call, Candidate, Outcome, Wanted
from scorer.ledger.store.follower import Follower
from scorer.ledger.store.scripts import Ledger
from scorer.ledger.view.view import LedgerView, instance_of
from scorer.placement.choosing.plan import KIND, Result, Steps, by_kind, kinds_of, plan_steps, run_to_end, shape
from scorer.placement.choosing.trial import ranked
from scorer.ranking.explain import answer, summary
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.rank import Decision, Ranking, limits


class Conflict(Exception):
    """All tries lost their candidates to other scorers."""


class Late(Exception):
    """The deadline passed before every instance was reserved."""

    def __init__(self, reserved: int, asked: int) -> None:
        super().__init__(
            f"the deadline passed when {reserved} of {asked} instances were placed; "
            "the same query with more time continues from there"
        )


class IdTaken(Exception):
    """The id belongs to another live request."""

    def __init__(self, record: Instance) -> None:
        super().__init__(f"id: {record.id!r} was placed on {record.machine} for another request")


@dataclass
class Placement:
    """The result of a query for instances."""

    asked: list[Request]
    records: list[Instance | None]
    """By position; None where nothing was reserved."""
    digests: Sequence[str] = ()
    """The digest of each request, by position."""
    kinds: Sequence[int] = ()
    """The number of each request's kind, by position."""
    calls: Sequence[Call] = ()
    """By position, the query that asks for the instance."""
    deadline: float = 0.0
    """When the caller no longer waits, epoch s; 0: never."""
    ranking: Ranking | None = None
    """The ranking of the first instance, when one was made."""
    answer: RankResult | None = None
    """That ranking's part of the answer, made before the ledger's view changed."""
    missing: dict[int, str] = field(default_factory=dict)
    """The reason, by position, of instances without a machine."""
    known: set[int] = field(default_factory=set)
    """Positions of instances that had been reserved before this query."""
    gone: set[int] = field(default_factory=set)
    """Positions of instances that this query reserved before and that have ended: they stay missing."""
    near_at: int = -1
    """The ledger's change when planning began, where any other may take the room that ``survive`` keeps; else -1."""
    late: bool = False
    """The reserve script ran after the query's deadline and reserved no more."""
    replanned: bool = False
    """Whether refused instances were planned again, because something expired meanwhile."""
    lost: Counter[int] = field(default_factory=Counter)
    """Candidates that were lost to another scorer, by position."""

    @property
    def conflicts(self) -> int:
        """The number of candidates that were lost to another scorer."""
        return self.lost.total()

    @property
    def repeated(self) -> int:
        """The number of instances that were reserved before this query."""
        return len(self.known)

    def explain(self) -> None:
        """Make the ranking's part of the answer; called while the server reserves, so that it takes no extra time.

        The verdicts of `explain` follow later, in steps, for the state at this time.
        """
        if self.ranking is not None:
            self.answer = answer(self.ranking, explain_all=False)


GONE = "this query reserved it before, and that has ended"
"""Why a repeated query reserves nothing."""


def settle(placement: Placement, position: int, outcome: Outcome) -> bool:
    """Return whether the instance is reserved, and record it then. Raises IdTaken for an id of another request."""
    if outcome.kind == "other" and outcome.instance is not None:
        raise IdTaken(outcome.instance)
    if outcome.kind not in ("placed", "known"):
        return False
    placement.records[position] = outcome.instance
    placement.missing.pop(position, None)
    if outcome.kind == "known":
        placement.known.add(position)
    if outcome.reasons:
        placement.lost[position] += len(outcome.reasons)
    return True


def hopeless(placement: Placement, position: int, outcome: Outcome, current: bool) -> bool:
    """Return whether another try would not help, and record why; a lost candidate counts as a conflict."""
    if outcome.kind in ("gone", "late"):
        refused(placement, position, outcome)
        return True
    if outcome.kind == "none":
        return position in placement.missing
    if ALL_OR_NONE in outcome.reasons:
        return False
    if current and CHANGED not in outcome.reasons:
        placement.missing[position] = f"the ledger refused its machine: {', '.join(outcome.reasons)}"
        return True
    placement.lost[position] += 1
    return False


def replanned(placement: Placement) -> list[int]:
    """Return the refused positions for a new plan when a script has expired reservations or moves; once per query.

    Rejected: each time. In a full fleet something ends while each large batch is planned.
    """
    if placement.replanned or placement.late:
        return []
    again = [position for position in placement.missing if position not in placement.gone]
    for position in again:
        del placement.missing[position]
    placement.replanned = bool(again)
    if again and not any(placement.records):
        placement.ranking = placement.answer = None
    return again


def refused(placement: Placement, position: int, outcome: Outcome) -> None:
    """Record why the script reserved nothing for this instance and never will."""
    if outcome.kind == "gone":
        placement.gone.add(position)
        placement.missing[position] = GONE
    else:
        placement.late = True
        placement.missing[position] = "the query's deadline has passed"


def candidates(
    version: Callable[[str], int], ranking: Ranking | Decision, rows: list[int], *requests: Request
) -> list[Candidate]:
    """Return these machines with the versions that the scorer read, and the limits for the script.

    ``requests``: one, or some of one shape (`scorer.placement.choosing.plan.shape`), which have the same limits.
    """
    large = (too_large(one.amounts(), float(one.maxmemory)) for one in requests if rows)
    if why := next(filter(None, large), ""):
        raise InvalidRequest(why)
    names = ranking.machines.roster.names
    allowed = limits(ranking, rows, requests[0])
    return [Candidate(names[row], version(names[row]), of) for row, of in zip(rows, allowed, strict=True)]


def expected_change(change: int, request: Request, ledger: LedgerView, *, near: bool = False) -> int:
    """Return the ledger's change that must still be the last one: ``near``, or where a rule looks beyond one machine.

    The rules are the request's own, and those of instances that avoid it. Without any, a number below -1 encodes the
    change after which no instance with such a rule may have been added (``expect`` in ``ledger.lua``).
    """
    rules = list(map(rule_of, (*request.affinity, *request.anti_affinity)))
    for several in filter(None, ledger.avoiders):
        rules += several.of(facets_of(request))
    return change if near or any(rule.far for rule in rules) else -2 - change


def as_of(own: dict[str, int], wanted: Wanted) -> Wanted:
    """Return the instance with its candidates' versions updated by our own scripts since the plan."""
    if not own:
        return wanted
    candidates = [one._replace(version=own.get(one.machine, one.version)) for one in wanted.candidates]
    return wanted._replace(candidates=candidates)


CANDIDATES = 4
"""Machines given to the reserve script at first."""
TOGETHER_MAX = 1_000
"""Instances that can be reserved in one script, as all or none."""
SCRIPT_INSTANCES_MAX = 64
"""Instances reserved by one script, unless all or none are wanted: the server serves no other client meanwhile."""
STEP_MAX = 192
"""Most instances of a step of a batch: its fixed part, some 1 ms, is a tenth of it then."""
FIRST_STEP = 100
"""Choices of a batch's first step, a kind counted as `KIND`; the next steps follow from how long it took."""
STEP_S = 0.008
"""How long a step of a batch should last with its script, s: other queries wait meanwhile."""
STEP_MIN = 50
"""Fewest choices of a step: smaller steps would make the batch slower and the other queries no faster."""


Inputs = Callable[[], RankingInputs]
"""Returns the present inputs: the newest snapshot, the ledger as of now, and the time."""


class Placing:
    """Places requests; ``attempts_max`` bounds the tries. ``clock`` returns the time that deadlines refer to."""

    def __init__(
        self,
        ledger: Ledger,
        follower: Follower,
        attempts_max: int = 20,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
        self._attempts_max = attempts_max
        self._clock = clock

    def steps(
        self,
        requests: Sequence[Request],
        inputs: Inputs,
        *,
        digests: Sequence[str] = (),
        calls: Sequence[Call] = (),
        deadline: float = 0.0,
    ) -> Steps[Placement]:
        """Reserve a machine for each request, in steps of about `STEP_S`; each step uses the present inputs.

        Each request has an id and stands for one instance. ``digests``, ``calls``: by position, or empty. Requests of
        one digest are of one kind. Only the script decides on an id that is live or has ended: it knows what the query
        did before, and the server's time.

        Raises IdTaken, Conflict, Late, NotAcknowledged, InvalidRequest.
        """
        if len(requests) > TOGETHER_MAX and (why := together(requests[0])):
            raise InvalidRequest(f"{why}: {len(requests)} instances, at most {TOGETHER_MAX} are reserved in one step")
        placement = Placement(
            list(requests),
            [None] * len(requests),
            digests or [request_digest(request) for request in requests],
            [0] * len(requests) if len({*digests}) == 1 else kinds_of(requests),
            calls or [NO_QUERY] * len(requests),
            deadline,
        )
        pending = list(range(len(requests)))
        attempts, depth = 0, CANDIDATES
        while pending:
            if attempts >= self._attempts_max or (attempts and self._late(placement)):
                raise Conflict(f"lost to other scorers {attempts} times")
            attempts += 1
            if len(requests) == 1:
                pending, depth = self._try_one(placement, inputs(), depth)
            else:
                pending = yield from self._try_many(placement, pending, inputs)
        return placement

    def _late(self, placement: Placement) -> bool:
        return bool(placement.deadline) and self._clock() > placement.deadline

    # ---- one instance

    def _try_one(self, placement: Placement, inputs: RankingInputs, depth: int) -> tuple[list[int], int]:
        request = placement.asked[0]
        if request.id in inputs.ledger.instances:
            ranking, rows = None, []
        else:
            ranking = ranked(request, inputs)
            placement.ranking = ranking
            rows = [int(row) for row in ranking.best(depth)]
        offered = candidates(self._follower.version, ranking, rows, request) if ranking is not None else []
        record = instance_of(request, "", inputs.now_s, digest=placement.digests[0])
        asked = Wanted(record, request.ttl_s, offered, placement.calls[0])
        change = self._follower.change
        transition = self._ledger.reserve(
            [asked],
            expected_change=expected_change(
                change, request, self._follower.view, near=ranking is not None and ranking.near
            ),
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
            if ranking is None or (transition.changes and not placement.replanned):
                placement.replanned = ranking is not None  # the script ended what was due: there may be room now
                return [0], depth
            placement.missing[0] = summary(ranking)
            return [], depth
        if outcome.kind in ("gone", "late"):
            refused(placement, 0, outcome)
            return [], depth
        placement.lost[0] += len(outcome.reasons)
        if current and CHANGED not in outcome.reasons:
            if ranking is not None and len(rows) == ranking.feasible_count:
                why = max(set(outcome.reasons), key=outcome.reasons.count)
                placement.missing[0] = f"{summary(ranking)}; the ledger refused them: {why}"
                return [], depth
            depth *= 8
        return [0], depth

    # ---- many

    def _try_many(self, placement: Placement, pending: list[int], inputs: Inputs) -> Steps[list[int]]:
        """Plan the pending instances and reserve them; return the positions to try again."""
        head = placement.asked[0]
        if together(head) or head.dry_run:
            planned = yield from self._plan(placement, pending, inputs())
            self._in_time(placement)
            lost = yield from self._reserve(placement, planned)
            if placement.missing and head.all_or_nothing:
                return self._nothing(placement)
            if lost and together(head):
                lost = sorted({*lost, *placement.missing})
                placement.missing.clear()
            return lost
        lost, size, kinds = [], FIRST_STEP, by_kind(placement.kinds, pending)
        left, firsts = list(chain.from_iterable(kinds)), {kind[0] for kind in kinds}
        while left:
            choices = [*accumulate(1 + KIND * (position in firsts) for position in left[:STEP_MAX])]
            count = max(1, bisect_right(choices, size))
            part, left = left[:count], left[count:]
            now = inputs()
            steps = timed(self._plan(placement, part, now))
            # others' placements in a pause could take the room that `survive` keeps, and all would be planned again
            planned, plan_s = run_to_end(steps) if now.profile.survive else (yield from steps)
            self._in_time(placement)
            lost_here, reserve_s = run_to_end(timed(self._reserve(placement, planned)))
            lost += lost_here
            size = next_size(size, choices[count - 1], plan_s + reserve_s)
            if left:
                yield
        return lost

    def _in_time(self, placement: Placement) -> None:
        """Raise Late after the deadline: the caller no longer waits."""
        if self._late(placement):
            raise Late(sum(record is not None for record in placement.records), len(placement.asked))

    def _reserve(self, placement: Placement, planned: Mapping[int, Wanted]) -> Steps[list[int]]:
        """Reserve the planned instances; return the positions to plan again.

        Their machine was lost to another scorer, or the script has expired due reservations, so that refused instances
        may have room now. The script expires these even when it gets no instance.
        """
        head, positions = placement.asked[0], list(planned)
        as_one = bool(together(head))
        lost: list[int] = []
        own: dict[str, int] = {}  # the versions after our own scripts
        step = len(positions) if as_one else SCRIPT_INSTANCES_MAX

        def meanwhile() -> None:
            if not placement.answer:
                placement.explain()

        for first in range(0, max(1, len(positions)), max(1, step)):
            part = positions[first : first + step]
            near, view = placement.near_at >= 0, self._follower.view
            change = placement.near_at if near else self._follower.change
            asked = [placement.asked[position] for position in part]
            changes = [expected_change(change, one, view, near=near) for one in asked]
            transition = self._ledger.reserve(
                [as_of(own, planned[position]) for position in part],
                expected_change=max(changes, default=-1),
                all_or_nothing=as_one,
                dry_run=head.dry_run,
                meanwhile=meanwhile,
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

    def _plan(self, placement: Placement, pending: list[int], inputs: RankingInputs) -> Steps[dict[int, Wanted]]:
        """Return the instances to reserve, by position; an instance without a machine is recorded as missing.

        It is still sent to the script, without candidates: its id may be known to the ledger.
        """
        view = inputs.ledger
        fresh = [position for position in pending if placement.asked[position].id not in view.instances]
        held: list[str] = []
        if together(placement.asked[0]):
            held = [view.instances[one.id].machine for one in placement.asked if one.id in view.instances]
        plan, change, placement.near_at = None, self._follower.change, -1
        if fresh:
            asked, kinds = [placement.asked[p] for p in fresh], [placement.kinds[p] for p in fresh]
            plan = yield from plan_steps(asked, inputs, held, explained=placement.ranking is None, kinds=kinds)
            placement.near_at = change if plan.near else -1
            placement.ranking = placement.ranking or plan.ranking
        machines = dict(zip(fresh, plan.machines, strict=True)) if plan else {}
        reasons = {fresh[at]: why for at, why in plan.reasons.items()} if plan else {}
        found: dict[int, Wanted] = {}
        alike = [list(run) for _, run in groupby(pending, lambda position: placement.kinds[position])]
        for _, shaped in groupby(alike, lambda run: shape(placement.asked[run[0]], inputs.profile)):
            runs = list(shaped)
            firsts = [placement.asked[run[0]] for run in runs]
            offers = self._offers(inputs, firsts, [machines.get(position) for run in runs for position in run])
            for first, run in zip(firsts, runs, strict=True):
                record = instance_of(first, "", inputs.now_s)
                for position in run:
                    request, machine = placement.asked[position], machines.get(position)
                    if machine is None and position in machines:
                        placement.missing[position] = reasons.get(position, "")
                        if request.machines_max or request.machines_min:
                            continue  # the others are reserved together, and this one must not make that fail
                    offered = offers[machine] if machine else ()
                    call, digest = placement.calls[position], placement.digests[position]
                    found[position] = Wanted(record, request.ttl_s, offered, call, request.id, digest)
        return found

    def _offers(
        self, inputs: RankingInputs, requests: Sequence[Request], machines: Sequence[str | None]
    ) -> dict[str, tuple[Candidate]]:
        """Return by machine the one candidate that instances of one shape on this machine share."""
        names = list(dict.fromkeys(machine for machine in machines if machine is not None))
        if not names:
            return {}
        decision, index = Decision(requests[0], inputs, scores=False), inputs.snapshot.roster.index
        offered = candidates(self._follower.version, decision, [index[name] for name in names], *requests)
        return {one.machine: (one,) for one in offered}

    @staticmethod
    def _nothing(placement: Placement) -> list[int]:
        """Record all instances of an all-or-nothing batch as missing."""
        reason = next((why for why in placement.missing.values() if why), "")
        for position, record in enumerate(placement.records):
            if record is None:
                placement.missing[position] = placement.missing.get(position) or f"all or nothing: {reason}"
        return []


def timed(steps: Steps[Result]) -> Steps[tuple[Result, float]]:
    """Take the steps; return the result, and how long they took without the pauses, s."""
    spent_s = 0.0
    while True:
        started_s = time.perf_counter()
        try:
            next(steps)
        except StopIteration as done:
            return done.value, spent_s + time.perf_counter() - started_s
        spent_s += time.perf_counter() - started_s
        yield


def next_size(size: int, made: int, elapsed_s: float) -> int:
    """Return the choices of the step after one of ``size``, which took ``elapsed_s`` for those it made.

    >>> next_size(100, 100, 0.001), next_size(200, 200, 0.016), next_size(200, 52, 0.004), next_size(100, 100, 1.0)
    (200, 100, 104, 50)
    """
    return max(STEP_MIN, min(2 * size, int(made * STEP_S / elapsed_s)))


def together(head: Request) -> str:
    """Return the field that requires a batch to be reserved in one script; "" for none."""
    fields = ("all_or_nothing", "machines_max", "machines_min")
    return next((name for name in fields if getattr(head, name)), "")
