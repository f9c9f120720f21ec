"""A proposed move, as the rebalancer puts it on a Redis list for the program that moves instances.

    {"v":1,"id":"7-1790000000-0","fence":7,"at":1790000000.0,"expires_at":1790000600.0,"attempt":1,
     "instance":"db-1","generation":3,"source":"m1","target":"m2","gain":0.012,"copy_s":41.0,"copy_bytes":2.6e9,
     "reason":"cpu of the source 95% -> 76%"}

A message is one move. The program takes it with ``BLMOVE waiting taken RIGHT LEFT``, moves the instance, and
acknowledges with ``LREM taken 1 MESSAGE``: 1 is done, 0 says that the message was withdrawn meanwhile.
"""

from __future__ import annotations

import msgspec

VERSION = 1


class MoveProposal(msgspec.Struct, frozen=True, kw_only=True):
    """One instance that should move; unknown fields are passed over."""

    v: int = VERSION
    id: str
    """Of the proposal; the same when it is delivered again."""
    fence: int
    """Number of the rebalancer's lease: a message with an older one than the key ``fence`` has is overtaken."""
    at: float
    """When it was proposed, epoch s."""
    expires_at: float
    """Not to be begun after this, epoch s."""
    attempt: int = 1
    """How often it was delivered."""
    instance: str
    generation: int
    """Of the instance: to be sent with the update, which refuses another."""
    source: str
    target: str
    gain: float
    """What the move cuts, in the objective's unit."""
    copy_s: float = 0.0
    """How long the copy of its memory is expected to take."""
    copy_bytes: float = 0.0
    reason: str = ""


def write_proposal(proposal: MoveProposal) -> bytes:
    """Return the message."""
    return msgspec.json.encode(proposal)


def read_proposal(raw: bytes) -> MoveProposal | None:
    """Return what a message says; None for one that cannot be read, or is of a newer version."""
    try:
        found = msgspec.json.decode(raw, type=MoveProposal)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.v == VERSION else None
