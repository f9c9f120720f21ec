"""The values of a comparison of wanted instances with the ledger: the outcome for each instance. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance

Action = Literal["release", "change", "update", "move", "place", "refuse", "same", "cancel", "restore"]
"""The last two undo a move and a release: no plan has them, `scorer.commands.planning.carry_out.undo` has."""


@dataclass(frozen=True)
class Step:
    action: Action
    id: str
    source: str | None = None
    """Its machine; None for a new instance."""
    target: str | None = None
    """Its machine after the step; None when it is released or refused."""
    why: str = ""
    """The changes, or the reason of a refusal."""
    generation: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of an update, in base units."""
    request: Request | None = None
    """The request of the instance to place."""
    old: Instance | None = None
    """The record that it was decided on; None for a new instance."""


@dataclass(frozen=True)
class Wanted:
    """The steps in the order of execution, without those that change nothing."""

    steps: tuple[Step, ...]
    same: int
    """Instances that are as wanted."""
    others: int
    """Instances of the ledger that the file does not name and that are left alone."""

    def count(self, action: Action) -> int:
        return self.same if action == "same" else sum(step.action == action for step in self.steps)
