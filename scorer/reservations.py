"""The life of an instance: which step is allowed in which state. Pure; the scripts do the same atomically.

                 reserve              confirm
    (unknown) ───────────> reserved ───────────> confirmed ──┐ update: move, resize, role
                             │    │                │     ^───┘
                     expire  │    │ release        │ release
                             v    v                v
                         expired  released <───────┘          both: known for a day, then unknown

A repeated step changes nothing and gives the same answer: that is the row ``REPEAT``. ``expire`` is a transition like
the others, made by whichever script comes first after ``expires_at`` (at that very moment the reservation has ended).
"""

from __future__ import annotations

from typing import Literal

from scorer.instance import State

Step = Literal["reserve", "confirm", "update", "release", "expire"]
Verdict = Literal["REPEAT", "NOT_FOUND", "FAILED_PRECONDITION"]

LIVE: tuple[State, ...] = ("reserved", "confirmed")
"""States that hold their amounts, ports and role."""

TRANSITIONS: dict[tuple[State | None, Step], State | Verdict] = {
    (None, "reserve"): "reserved",
    (None, "confirm"): "NOT_FOUND",
    (None, "update"): "NOT_FOUND",
    (None, "release"): "NOT_FOUND",
    (None, "expire"): "REPEAT",
    ("reserved", "reserve"): "REPEAT",
    ("reserved", "confirm"): "confirmed",
    ("reserved", "update"): "FAILED_PRECONDITION",
    ("reserved", "release"): "released",
    ("reserved", "expire"): "expired",
    ("confirmed", "reserve"): "REPEAT",
    ("confirmed", "confirm"): "REPEAT",
    ("confirmed", "update"): "confirmed",
    ("confirmed", "release"): "released",
    ("confirmed", "expire"): "REPEAT",
    ("released", "reserve"): "REPEAT",
    ("released", "confirm"): "FAILED_PRECONDITION",
    ("released", "update"): "FAILED_PRECONDITION",
    ("released", "release"): "REPEAT",
    ("released", "expire"): "REPEAT",
    ("expired", "reserve"): "REPEAT",
    ("expired", "confirm"): "FAILED_PRECONDITION",
    ("expired", "update"): "FAILED_PRECONDITION",
    ("expired", "release"): "REPEAT",
    ("expired", "expire"): "REPEAT",
}
"""What a step does in a state (None: unknown id): the next state, or why there is none.

>>> TRANSITIONS["reserved", "confirm"], TRANSITIONS["expired", "confirm"]
('confirmed', 'FAILED_PRECONDITION')
"""


def has_expired(state: State | None, expires_at: float, now_s: float) -> bool:
    """Say whether a reservation's time is over.

    >>> has_expired("reserved", 100.0, 99.999), has_expired("reserved", 100.0, 100.0)
    (False, True)
    """
    return state == "reserved" and expires_at <= now_s
