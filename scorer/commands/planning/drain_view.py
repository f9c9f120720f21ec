"""The output of ``windward drain``, as JSON and as text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.process.tables import Column, Screen, view
from scorer.commands.machines.operator_facts import in_words
from scorer.commands.shared.show import ON_THE_LIST, amount, amount_of, basis, basis_in_words, counted, time_of

if TYPE_CHECKING:
    from schemas.rpc.results import DrainLine, DrainResult
    from scorer.planning.drain.evicting import Advice
    from scorer.ranking.inputs import FleetState
    from scorer.ranking.profiles.profile import Profile

_SHOWN = ("cpu", "memory")
_MOVES = (
    Column("id", of="id"), Column("from", left=True, of="source"), Column("to", left=True, of="target"),
    *(Column(name, 1, of=amount_of(name)) for name in _SHOWN),
)  # fmt: skip
_BLOCKED = (Column("stays", of="id"), Column("on", left=True, of="source"), Column("why", left=True, of="reason"))
_EMPTIED = (
    Column("emptied", of="machine"), Column("instances", of="instances"),
    Column("memory to copy", of=amount_of("memory")),
)  # fmt: skip


def drain_answer(found: DrainResult) -> dict[str, Any]:
    """Return the plan as data for JSON: the moves in their order, and the blocked instances with their reasons.

    A consolidation also lists each machine that would be empty, with the cost of its moves.
    """
    answer = {
        "drained": found.drained,
        "cordoned": False,
        "profile": found.profile,
        "machines": found.machines,
        "instances": found.instances,
        "moves": [_line(one) | {"target": one.target, "state": "planned"} for one in found.moves],
        "moving": [_line(one) | {"target": one.target, "until": one.until} for one in found.moving],
        "blocked": [_line(one) | {"reason": one.reason} for one in found.blocked],
    }
    return answer | ({"consolidate": msgspec.to_builtins(found.emptying)} if found.emptying else {})


def _line(one: DrainLine) -> dict[str, Any]:
    line = {"id": one.id, "source": one.source, "generation": one.generation}
    return line | {name: one.amounts.get(name) for name in _SHOWN}


def show(answer: Mapping[str, Any], screen: Screen | None = None, *, live: bool = False) -> str:
    """Return the tables of moves and blocked instances, and the counts."""
    names, moves, blocked = answer["drained"], answer["moves"], answer["blocked"]
    of = names[0] if len(names) == 1 else f"{len(names)} machines"
    state = "cordoned" if answer["cordoned"] else f"only planned, nothing is changed{' without --apply' * live}"
    moving, lines = answer["moving"], []
    if consolidated := answer.get("consolidate"):
        lines += _emptied(consolidated, screen)
    if consolidated and not names:
        return lines[0]
    if not moves and not blocked and not moving:
        return f"{of}: {state}; no instance is there"
    lines += [view(_MOVES, moves, screen)] * bool(moves) + [view(_BLOCKED, blocked, screen)] * bool(blocked)
    lines += [f"{one['id']} is moving to {one['target']} already" for one in moving]
    counts = _counts(moves, blocked, announced=answer.get("announced", False))
    lines.append(f"{of}: {state}; {counts} ({basis_in_words(answer)})")
    return "\n".join(lines)


def _emptied(found: Mapping[str, Any], screen: Screen | None) -> list[str]:
    """Return the table of machines that would be empty, or a line that none would be."""
    machines, wanted = found["machines"], found["wanted"]
    why = "; left out: " * bool(found["left"]) + ", ".join(f"{n} {words}" for words, n in found["left"].items())
    if not machines:
        return [f"no machine can be emptied: {found['tried']} were tried{why}"]
    lines = [view(_EMPTIED, machines, screen)]
    if len(machines) < wanted:
        lines.append(f"{len(machines)} of {wanted} machines can be emptied: {found['tried']} were tried{why}")
    return lines


def _counts(moves: Sequence[Mapping[str, Any]], blocked: Sequence[object], *, announced: bool) -> str:
    every = len(moves) + len(blocked)
    there = f"{len(moves)} of {counted(every, 'instance')} {'finds' if every == 1 else 'find'} a machine"
    if reserved := sum(one["state"] == "moving" for one in moves):
        until = time_of(min((one["until"] for one in moves if "until" in one), default=None))
        targets = f"{counted(reserved, 'target')} {'is' if reserved == 1 else 'are'} reserved until {until}"
        how = ON_THE_LIST * announced
        there += f", {targets}{how}: `windward confirm ID --machine TARGET` when each runs there"
    return f"{there}, {len(blocked)} {'stays' if len(blocked) == 1 else 'stay'}" if blocked else there


def show_undone(answer: Mapping[str, Any], _: Screen) -> str:
    """Return the machines' operators' rules, and the cancelled moves, a line each."""
    lines = [f"{name}: takes instances again; {in_words(said)}" for name, said in answer["uncordoned"].items()]
    return "\n".join([*lines, *(f"{one}: its move is cancelled" for one in answer["cancelled"])])


def evict_answer(advice: Advice, profile: Profile, fleet: FleetState) -> dict[str, Any]:
    """Return the advice as data for JSON: the instances to evict in their order, and the machines above a limit."""
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


def show_evicted(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    """Return a table of the instances to evict, and the number of machines that stay above a limit."""
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
