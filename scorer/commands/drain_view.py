"""What ``windward drain`` says: as JSON, and for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schemas.process.tables import Column, Screen, table
from schemas.resources import RESOURCES
from scorer.commands.operator_facts import in_words
from scorer.commands.show import amount

if TYPE_CHECKING:
    from scorer.commands.fleet_file import OfflineFleet
    from scorer.placement.anew import Anew
    from scorer.ranking.profile import Profile
    from scorer.rebalance.drain import Drained

_SHOWN = ("cpu", "memory")


def drain_answer(drained: Drained, profile: Profile, fleet: OfflineFleet, *, cordoned: bool) -> dict[str, Any]:
    """Return the plan as JSON has it: the moves in their order, and what is blocked, with why."""
    return {
        "drained": list(drained.machines),
        "cordoned": cordoned,
        "profile": profile.name,
        "machines": len(fleet.snapshot),
        "instances": len(fleet.ledger),
        "moves": [_line(one) | {"target": one.target} for one in drained.moves],
        "blocked": [_line(one) | {"reason": one.why} for one in drained.blocked],
    }


def _line(one: Anew) -> dict[str, Any]:
    instance = one.instance
    amounts = {name: given for name, given in zip(RESOURCES, instance.amounts, strict=True) if given is not None}
    line = {"id": instance.id, "source": instance.machine, "generation": instance.generation}
    return line | {name: amounts.get(name) for name in _SHOWN}


def show(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    """Return a table of the moves, what is blocked, and the sums."""
    names, moves, blocked = answer["drained"], answer["moves"], answer["blocked"]
    of = names[0] if len(names) == 1 else f"{len(names)} machines"
    state = "cordoned" if answer["cordoned"] else "not cordoned: only planned"
    if not moves and not blocked:
        return f"{of}: {state}; no instance is there"
    lines = []
    if moves:
        columns = [
            Column("id"), Column("from", left=True), Column("to", left=True), *(Column(name, 1) for name in _SHOWN),
        ]  # fmt: skip
        rows = [
            [one["id"], one["source"], one["target"], *(amount(name, one[name]) for name in _SHOWN)] for one in moves
        ]
        lines.append(table(columns, rows, screen))
    if blocked:
        columns = [Column("stays"), Column("on", left=True), Column("why", left=True)]
        lines.append(table(columns, [[one["id"], one["source"], one["reason"]] for one in blocked], screen))
    about = f"{answer['machines']} machines, {answer['instances']} instances, profile {answer['profile']}"
    lines.append(f"{of}: {state}; {_counts(moves, blocked)} ({about})")
    return "\n".join(lines)


def _counts(moves: Sequence[object], blocked: Sequence[object]) -> str:
    there = f"{len(moves)} of {len(moves) + len(blocked)} instances find a machine"
    return f"{there}, {len(blocked)} {'stays' if len(blocked) == 1 else 'stay'}" if blocked else there


def show_undone(facts: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what operators say of the machines now."""
    return "\n".join(f"{name}: {in_words(said)}" for name, said in facts.items())
