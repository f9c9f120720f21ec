"""How the script's outcome of one instance enters its placement: settled, hopeless, or to be tried again."""

from __future__ import annotations

from scorer.ledger.record.transition import ALL_OR_NONE, CHANGED, Outcome
from scorer.placement.offers.placement import IdTaken, Placement

GONE = "this query reserved it before, and that has ended"
"""Why a repeated query reserves nothing."""


def settle(placement: Placement, position: int, outcome: Outcome) -> bool:
    """Return whether the instance is reserved, and note it; raise IdTaken when another request has its id."""
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
    """Return whether another try would not help, and note the reason; else count a conflict."""
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
    """Return the refused positions, to be planned again, when a script has ended reservations or moves; once a query.

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
    """Note why the script reserved nothing and never will."""
    if outcome.kind == "gone":
        placement.gone.add(position)
        placement.missing[position] = GONE
    else:
        placement.late = True
        placement.missing[position] = "the query's deadline has passed"
