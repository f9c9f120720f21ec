"""What ``windward plan`` says: as JSON, and for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schemas.process.tables import Column, Screen, table

if TYPE_CHECKING:
    from scorer.commands.fleet_file import OfflineFleet
    from scorer.placement.wanted import Wanted
    from scorer.ranking.profile import Profile

_SIGNS = {"place": "+", "move": ">", "change": "~", "release": "-", "refuse": "!"}
_WORDS = {
    "place": "to place", "move": "to move", "change": "to change", "release": "to release", "refuse": "refused",
    "same": "unchanged",
}  # fmt: skip


def plan_answer(found: Wanted, profile: Profile, fleet: OfflineFleet) -> dict[str, Any]:
    """Return the plan as JSON has it: every step but those that change nothing, in their order."""
    return {
        "profile": profile.name,
        "machines": len(fleet.snapshot),
        "instances": len(fleet.ledger),
        "counts": {action: found.count(action) for action in _WORDS},  # type: ignore[arg-type]
        "others": found.others,
        "steps": [
            {"action": one.action, "id": one.id, "source": one.source, "target": one.target, "why": one.why}
            for one in found.steps
        ],
        "applied": False,
    }


def show(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    """Return a table of the steps, and the counts."""
    counts = ", ".join(f"{number} {_WORDS[action]}" for action, number in answer["counts"].items())
    about = f"{answer['machines']} machines, {answer['instances']} instances, profile {answer['profile']}"
    left = f"; {answer['others']} others are left alone" if answer["others"] else ""
    lines = []
    if answer["steps"]:
        columns = [
            Column(""), Column("id", left=True), Column("from", left=True), Column("to", left=True),
            Column("what", 1, left=True),
        ]  # fmt: skip
        rows = [
            [_SIGNS[one["action"]], one["id"], one["source"] or "-", one["target"] or "-", one["why"]]
            for one in answer["steps"]
        ]
        lines.append(table(columns, rows, screen))
    lines.append(f"{counts}{left} ({about})")
    return "\n".join(lines)
