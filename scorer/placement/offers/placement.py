"""The result of a query for instances."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.rpc.request import Request
from schemas.rpc.results import RankResult
from scorer.ledger.record.instance import Instance
from scorer.ledger.record.transition import ALL_OR_NONE, CHANGED, Call, Outcome
from scorer.ranking.explanation.explain import answer
from scorer.ranking.ranking import Ranking


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
