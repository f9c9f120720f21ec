"""The output of ``windward drain --evict``, as JSON and as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from schemas.process.tables import Column, Screen, view
from scorer.commands.shared.show import amount
from scorer.commands.shared.whole_fleet import basis, basis_in_words

if TYPE_CHECKING:
    from scorer.planning.drain.evicting import Advice
    from scorer.ranking.fleet_state import FleetState
    from scorer.ranking.profiles.profile import Profile


def evict_answer(advice: Advice, profile: Profile, fleet: FleetState) -> dict[str, Any]:
    """Return the advice for JSON: the instances that should leave in their order, and the machines above a sum."""
    return {
        **basis(fleet, profile),
        "above": list(advice.above),
        "stay": list(advice.stay),
        "unknown": advice.unknown,
        "evictions": [
            {
                "id": one.instance.id,
                "class": one.instance.priority_class,
                "source": one.instance.machine,
                "target": one.target,
                "sum": list(one.counted),
                "resource": one.resource,
                "excess": one.excess,
            }
            for one in advice.evicted
        ],
    }


def show(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    """Return a table of the instances that should leave, and how many machines stay above a sum."""
    lines, about = [], basis_in_words(answer)
    if answer["evictions"]:
        lines.append(view(_EVICTIONS, answer["evictions"], screen))
    lines.append(f"{len(answer['evictions'])} should leave; machines above a sum: {len(answer['above'])}; {about}")
    if answer["stay"]:
        lines.append(f"machines that stay above a sum, since their other instances may not move: {len(answer['stay'])}")
    if answer["unknown"]:
        lines.append(f"machines whose data is too old to judge: {answer['unknown']}")
    return "\n".join(lines)


def _why(one: Mapping[str, Any]) -> str:
    return f"{one['resource']} of {' and '.join(one['sum'])} is {amount(one['resource'], one['excess'], 2)} too much"


_EVICTIONS = (
    Column("id", of="id"), Column("class", left=True, of="class"), Column("from", left=True, of="source"),
    Column("to", left=True, of="target"), Column("why", 1, left=True, of=_why),
)  # fmt: skip
