"""A proposed move: the message of the planner or of a command, on a Redis list, to the program that moves instances.

    {"v":1,"id":"7-1790000000-0","fence":7,"at":1790000000.0,"expires_at":1790000600.0,"attempt":1,
     "instance":"db-1","generation":3,"source":"m1","target":"m2","gain":0.012,"copy_s":41.0,"copy_bytes":2.6e9,
     "reason":"cpu of the source 95% -> 76%"}

A message is one move, or of kind ``role``: the instance stays and hands its role to ``swap_role_with``, by a failover
that copies nothing, and takes ``role``. These have version 2 and a list of their own: a program of a release before
them never takes one for a move. The program takes it with ``BLMOVE waiting taken RIGHT LEFT``, moves the instance, and
acknowledges with ``LREM taken 1 MESSAGE``: 1 is done, 0 means that the message was withdrawn meanwhile.
"""

from collections.abc import Collection, Sequence

import msgspec

from schemas.values.read_json import read_or

VERSION, ROLE_VERSION = 1, 2
COMMANDS = (1 << 53) - 1
"""The fence of a move that a command began: its target is reserved, and no planner overtakes it."""
LOST = "lost"
"""The reason of a move whose source is dead: there is nothing to copy, the instance starts anew on the target."""
READ_MAX = 10_000
"""The most messages of a list that who begins or cancels moves looks at, the oldest."""


class MoveProposal(msgspec.Struct, frozen=True, kw_only=True):
    """One instance that should move; unknown fields are ignored."""

    v: int = VERSION
    id: str
    """Id of the proposal; the same when it is delivered again."""
    fence: int
    """Number of the planner's lease: a message with an older number than the key ``fence`` is overtaken.

    It is 2^53 - 1 for a move that ``drain --apply``, ``plan --apply`` or ``rebalance --apply`` began.
    """
    at: float
    """When it was proposed, epoch s."""
    expires_at: float
    """The move must not begin after this, epoch s."""
    attempt: int = 1
    """How often it was delivered."""
    instance: str
    generation: int
    """The instance's generation: send it with the update, which refuses another one."""
    source: str
    target: str
    gain: float
    """The decrease of the objective by the move, in its unit."""
    copy_s: float = 0.0
    """How long the copy of its memory is expected to take."""
    copy_bytes: float = 0.0
    reason: str = ""
    kind: str = "move"
    """Or ``role``; ``target`` is then the machine of the other instance."""
    swap_role_with: str = ""
    role: str = ""
    """The role of the instance when it is done."""

    @property
    def of_command(self) -> bool:
        """Whether a command began the move, and its target is reserved."""
        return self.fence == COMMANDS


def begun_move(
    instance: str, generation: int, source: str, target: str, until: float, number: int, now_s: float, why: str
) -> MoveProposal:
    """Return the message of a move that a command began: ``until`` its target is reserved, ``number`` the move's."""
    return MoveProposal(
        id=f"{instance}/{number}", fence=COMMANDS, at=now_s, expires_at=until, instance=instance, generation=generation,
        source=source, target=target, gain=0.0, reason=why,
    )  # fmt: skip


def exchange_of_roles(
    instance: str, generation: int, machine: str, other: str, role: str, until: float, now_s: float, why: str
) -> MoveProposal:
    """Return the message of an exchange that a command proposes: the instance takes ``role``, the other its own."""
    return MoveProposal(
        v=ROLE_VERSION, kind="role", id=f"{instance}/{other}", fence=COMMANDS, at=now_s, expires_at=until,
        instance=instance, generation=generation, source=machine, target=machine, gain=0.0, reason=why,
        swap_role_with=other, role=role,
    )  # fmt: skip


def replaced(
    messages: Sequence[bytes], instances: Collection[str], now_s: float, *, waiting: bool = False
) -> list[bytes]:
    """Return the messages to take off a list when a command begins or cancels moves of these instances.

    These are the commands' messages on these instances, and all messages of commands that have expired. ``waiting``:
    also a planner's proposals for them that no mover has taken, since two movers would run one move.
    """

    def ends(found: MoveProposal) -> bool:
        if found.of_command and found.expires_at < now_s:
            return True
        return found.instance in instances and (found.of_command or waiting)

    return [raw for raw in messages if (found := read_proposal(raw)) is not None and ends(found)]


def write_proposal(proposal: MoveProposal) -> bytes:
    return msgspec.json.encode(proposal)


def read_proposal(raw: bytes) -> MoveProposal | None:
    """Return the proposal in a message; None when it cannot be read, or is of another version."""
    found = read_or(raw, MoveProposal, None)
    return found if found and found.v == (ROLE_VERSION if found.kind == "role" else VERSION) else None
