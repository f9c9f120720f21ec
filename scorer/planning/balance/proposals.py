"""The outcomes of proposed moves, by the ledger as it is now; and the proposals of a new plan. Pure.

    waiting ──BLMOVE──► taken ──LREM (acknowledged)──► gone
       ▲                  │
       └── not in time ───┘        done, expired, overtaken: withdrawn from either list

A proposal whose instance is moving stays open: the move in the ledger has its own time limit. A proposal is overtaken
when another planner has taken the lease since, or when the instance is of another generation or on another machine.

A move that a command began has its target reserved. It belongs to no term, and ends when the ledger's move does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from schemas.messages.proposal import COMMANDS, ROLE_VERSION, MoveProposal, read_proposal, write_proposal
from schemas.rpc.results import RebalanceMove, RebalanceResult
from scorer.ledger.record.instance import Instance

Outcome = str
"""``done``, ``declined``, ``expired``, ``overtaken``, ``malformed``, ``redelivered``, ``proposed``."""
OUTCOMES: tuple[Outcome, ...] = (
    "proposed", "done", "declined", "redelivered", "expired", "overtaken", "malformed",
)  # fmt: skip


@dataclass(frozen=True)
class Settled:
    """The result of `Term.settle`: the changes to write, and the proposals that stay open."""

    withdrawn: tuple[bytes, ...]
    """Messages to take off both lists."""
    returned: tuple[tuple[bytes, bytes], ...]
    """Messages to take off the list of those taken, each with the one that goes back to those waiting."""
    pending: Mapping[str, str]
    """The target by instance, of the proposals that stay open."""
    outcomes: tuple[Outcome, ...]
    handing: Mapping[str, str]
    """The other by instance, of the open proposals to exchange roles."""


@dataclass
class Term:
    """One term of the lease: the daemon's state while it holds the lease. Its proposals end with it."""

    fence: int
    """The number of the lease."""
    ack_s: float
    """How long a taken proposal may stay without acknowledgement, s."""
    taken_since: dict[str, float] = field(default_factory=dict)
    """By the proposal's id: when it was first seen on the list of taken ones."""
    opened: dict[str, MoveProposal] = field(default_factory=dict)
    """By the proposal's id: the proposals open after the last round."""
    resting: dict[str, float] = field(default_factory=dict)
    """By the instance's id: until when it is not proposed again, epoch s."""

    def settle(
        self,
        waiting: Sequence[bytes],
        taken: Sequence[bytes],
        instances: Mapping[str, Instance],
        now_s: float,
        rest_s: float,
    ) -> Settled:
        """Return the outcomes of the open proposals, and update the term's state.

        An acknowledged proposal whose instance is still where it was counts as declined: that instance is not proposed
        again for ``rest_s``.
        """
        withdrawn, returned, outcomes, pending, handing = [], [], [], {}, {}
        opened: dict[str, MoveProposal] = {}
        for raw, is_taken in [*((raw, False) for raw in waiting), *((raw, True) for raw in taken)]:
            proposal = read_proposal(raw)
            ended = "malformed" if proposal is None else _ended(proposal, instances, self.fence, now_s)
            if proposal is None or ended:
                withdrawn.append(raw)
                outcomes.append(ended)
                continue
            opened[proposal.id] = proposal
            if (
                instances[proposal.instance].moving is not None
            ):  # the plan sees it in the ledger; its time is the move's
                self.taken_since.pop(proposal.id, None)
                continue
            if proposal.kind == "role":
                handing[proposal.instance] = proposal.swap_role_with
            else:
                pending[proposal.instance] = proposal.target
            if is_taken and now_s - self.taken_since.setdefault(proposal.id, now_s) >= self.ack_s:
                again = msgspec.structs.replace(proposal, attempt=proposal.attempt + 1)
                returned.append((raw, write_proposal(again)))
                outcomes.append("redelivered")
                del self.taken_since[proposal.id]
        gone = {read.id for raw in withdrawn if (read := read_proposal(raw)) is not None}
        for name, proposal in self.opened.items():
            if name not in opened and name not in gone:  # acknowledged
                outcomes.append(_acknowledged(proposal, instances))
                if outcomes[-1] == "declined":
                    self.resting[proposal.instance] = now_s + rest_s
        self.opened = opened
        self.taken_since = {name: at for name, at in self.taken_since.items() if name in opened}
        self.resting = {name: until for name, until in self.resting.items() if until > now_s}
        return Settled(tuple(withdrawn), tuple(returned), pending, tuple(outcomes), handing)


def _ended(proposal: MoveProposal, instances: Mapping[str, Instance], fence: int, now_s: float) -> Outcome:
    """Return how a proposal ended; "" while it is open."""
    instance = instances.get(proposal.instance)
    if instance is None or instance.generation != proposal.generation:
        return "overtaken"
    if _is_done(proposal, instance):
        return "done"
    alone = proposal.kind == "role" and proposal.swap_role_with not in instances
    if alone or proposal.fence not in (fence, COMMANDS) or instance.machine != proposal.source:
        return "overtaken"
    if instance.moving is not None:
        return "" if instance.moving.to == proposal.target else "overtaken"
    return "expired" if now_s >= proposal.expires_at or (proposal.of_command and proposal.kind == "move") else ""


def _acknowledged(proposal: MoveProposal, instances: Mapping[str, Instance]) -> Outcome:
    instance = instances.get(proposal.instance)
    if instance is None or instance.generation != proposal.generation:
        return "overtaken"
    stays = instance.machine == proposal.source and instance.moving is None and not _is_done(proposal, instance)
    return "declined" if stays else "done"


def _is_done(proposal: MoveProposal, instance: Instance) -> bool:
    if proposal.kind == "role":
        return instance.role == proposal.role
    return instance.machine == proposal.target


def propose(
    plan: RebalanceResult, instances: Mapping[str, Instance], fence: int, now_s: float, lasts_s: float
) -> list[MoveProposal]:
    """Return a proposal for each exchange of roles and each move of a plan, in its order."""
    found: list[MoveProposal] = []
    for one in plan.moves:
        target, more = one.target, dict[str, Any]()
        if one.swap_role_with:
            target = instances[one.swap_role_with].machine
            more = {"v": ROLE_VERSION, "kind": "role", "swap_role_with": one.swap_role_with, "role": one.role}
        if target is not None:
            found.append(
                MoveProposal(
                    id=f"{fence}-{int(now_s)}-{len(found)}", fence=fence, at=now_s, expires_at=now_s + lasts_s,
                    instance=one.id, generation=one.generation, source=one.source, target=target, gain=one.gain,
                    copy_s=one.copy_s, copy_bytes=one.copy_bytes, reason=_why(plan, one), **more,
                )
            )  # fmt: skip
    return found


def _why(plan: RebalanceResult, one: RebalanceMove) -> str:
    """Return why an instance should move, in words."""
    if plan.rule != "overload" or one.target is None:
        return one.reason
    before, after = one.overload["source"]
    return f"expected overload of the source {before:.4f} -> {after:.4f}"
