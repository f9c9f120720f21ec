"""The result of a query for instances; the candidates and limits that the reserve script gets."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from schemas.rpc.request import InvalidRequest, Request
from schemas.rpc.results import RankResult
from scorer.ledger.record.facets import facets_of, rule_of
from scorer.ledger.record.instance import Instance, too_large
from scorer.ledger.record.limits import Limit, adds, in_role, one_to_a_port
from scorer.ledger.record.transition import ALL_OR_NONE, CHANGED, Call, Candidate, Outcome, Wanted
from scorer.ledger.view.view import LedgerView
from scorer.ranking.explanation.explain import answer
from scorer.ranking.profiles import plugins
from scorer.ranking.rank import Decision, Ranking


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


def limits(ranking: Ranking | Decision, rows: Sequence[int], request: Request) -> list[tuple[Limit, ...]]:
    """Return, for each of some machines, the upper limits of its sums and counts with the request.

    Where one measure has two limits, both hold. Each port of a machine is used once, whatever the profile says.
    ``request`` may differ from the ranking's own.
    """
    index, found = np.array(rows, np.int64), list[Limit]()
    own = {id(each.placed): each.machines for each in ranking.verdicts}
    for placed in ranking.profile.limiting:
        asked = own.get(id(placed), ranking.machines).of(request)
        if plugins.wanted(placed.filter, request, asked):
            found += placed.filter.limit(request, asked.take(index))
    known = {limit.measure for limit in found}
    found += [limit for limit in one_to_a_port(request.ports) if limit.measure not in known]
    columns = [_of_each(limit, len(rows)) for limit in found]
    return list(zip(*columns, strict=True)) if columns else [()] * len(rows)


def _of_each(limit: Limit, count: int) -> list[Limit]:
    measure, most, reason = limit
    if not isinstance(most, np.ndarray):
        return [limit] * count
    return [Limit(measure, one, reason) for one in most.tolist()]


def of_growth(limits: Sequence[Limit], old: Instance, new: Instance) -> tuple[Limit, ...]:
    """Return the limits on the measures in which an instance that stays on its machine grows.

    Amounts that it holds already are not checked again, nor is its role.
    """
    role = in_role(new.cluster, new.role)
    return tuple(
        limit for limit in limits if limit.measure != role and adds(new, limit.measure) > adds(old, limit.measure)
    )
