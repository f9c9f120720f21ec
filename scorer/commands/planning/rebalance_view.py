"""The output of ``windward rebalance``: as JSON, and for people. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.process.tables import Column, Screen, view
from schemas.values.numbers import counted, duration
from scorer.commands.shared.show import ON_THE_LIST, basis_in_words, ratio, time_of

if TYPE_CHECKING:
    from schemas.rpc.results import RebalanceMove, RebalanceResult

_NO_TARGET = "no machine that the filters allow would stay below the source's overload"
_FLEET_WORDS = {
    "overload": "expected load above the limit, in machines of mean size",
    "machines_over": "machines above the limit",
    "highest": "highest utilization",
    "std": "standard deviation of utilization",
}


def plan_answer(found: RebalanceResult) -> dict[str, Any]:
    """Return the plan as data for JSON; utilization and overload are pairs: before, after.

    The target is null where no machine takes an instance that should leave.
    """
    answer: dict[str, Any] = msgspec.to_builtins(found)
    moves = [_move(one) for one in found.moves]
    copied = {"bytes": sum(one.copy_bytes for one in found.moves), "seconds": sum(one.copy_s for one in found.moves)}
    return answer | {"moves": moves, "concerned": concerned(moves), "copy": copied}


def _move(one: RebalanceMove) -> dict[str, Any]:
    move: dict[str, Any] = msgspec.to_builtins(one)
    move["copy"] = {"bytes": move.pop("copy_bytes"), "seconds": move.pop("copy_s")}
    shown = ("id", "generation", "source", "target", "swap_role_with", "role", "reason") if one.target is None else move
    return {name: move[name] for name in shown}


def concerned(moves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each source and target machine before its first step and after its last, in the order of the plan."""
    found: dict[str, dict[str, Any]] = {}
    for move in moves:
        if move["target"] is None:
            continue
        for side, what in (("source", "gives"), ("target", "takes")):
            (before, after), utilization = move["overload"][side], move["utilization"][side]
            machine = found.setdefault(
                move[side],
                {
                    "machine": move[side], "gives": 0, "takes": 0, "overload": [before, after],
                    "utilization": {name: [pair[0], 0.0] for name, pair in utilization.items()},
                },
            )  # fmt: skip
            machine[what] += 1
            machine["overload"][1] = after
            for name, pair in utilization.items():
                machine["utilization"][name][1] = pair[1]
    return list(found.values())


def show(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    """Return a table of the moves, one of the sources and targets, and the fleet before and after."""
    about, limit = basis_in_words(answer), _limit(answer)
    if not answer["moves"]:
        return f"nothing is worth a move ({about})" + f": {answer['why']}" * bool(answer["why"])
    about += f"; usage is measured of {counted(answer['measured'], 'instance')}, expected of the rest"
    lines = [_moves(answer, screen), ""]
    if answer["concerned"]:
        lines += [_machines(answer, screen), ""]
    exchanged = sum(bool(move["swap_role_with"]) for move in answer["moves"])
    moves, copied = counted(len(answer["moves"]) - exchanged, "move"), _time(answer["copy"]["seconds"])
    if exchanged:
        listed = ": they are on the list for a mover" * answer.get("announced", False)
        lines.append(f"{counted(exchanged, 'exchange')} of roles, without a copy{listed}")
    lines.append(f"{moves}, memory copied in {copied} in all; {about}")
    for name, (before, after) in answer["totals"].items():
        shown = [f"{value:.3f}" if name == "overload" else f"{value:.0f}" if name == "machines_over" else ratio(value)
                 for value in (before, after)]  # fmt: skip
        lines.append(f"  {_FLEET_WORDS[name]}: {shown[0]} -> {shown[1]}")
    by_resource = ", ".join(f"{name} {100 * a:.1f}% -> {100 * b:.1f}%" for name, (a, b) in answer["std"].items())
    lines.append(f"  standard deviation by resource: {by_resource}")
    if missing := sum(move["target"] is None and not move["swap_role_with"] for move in answer["moves"]):
        why = "no move that the filters allow mends the rule" if answer["rule"] == "repair" else _NO_TARGET
        lines.append(f"  {missing} without a target: {why}")
    return "\n".join(
        [*lines, *([limit] if limit else []), *_applied(answer["moves"], announced=answer.get("announced", False))]
    )


def _applied(moves: Sequence[Mapping[str, Any]], *, announced: bool) -> list[str]:
    """Return the results of the moves that were applied, and what to do next."""
    applied = [(move, move["applied"]) for move in moves if move.get("applied")]
    reserved = [(move, what) for move, what in applied if what["outcome"] == "reserved"]
    lines = [f"  {what['outcome']}: {move['id']}: {what['why']}" for move, what in applied if what["why"]]
    if reserved:
        move, what = reserved[0]
        targets = f"{counted(len(reserved), 'target')} {'is' if len(reserved) == 1 else 'are'} reserved"
        lines.append(f"{targets} until {time_of(what['until'])}{ON_THE_LIST * announced}; when an instance runs there:")
        lines.append(f"  windward confirm {move['id']} --machine {move['target']} --move {what['number']}")
    return lines


def _moves(answer: Mapping[str, Any], screen: Screen | None) -> str:
    moves = answer["moves"]
    by_load = answer["rule"] == "overload" and all(move["target"] for move in moves)
    return view([*_MOVE, *(_BY_OVERLOAD if by_load else _BY_REASON)], moves, screen)


def _machines(answer: Mapping[str, Any], screen: Screen | None) -> str:
    names = [name for name in answer["std"] if any(any(one["utilization"][name]) for one in answer["concerned"])]
    by_resource = [Column(name, 1 + (name != "cpu"), of=partial(_change, name)) for name in names]
    return view([*_MACHINE, *by_resource], answer["concerned"], screen)


def _change(resource: str, machine: Mapping[str, Any]) -> str:
    return " -> ".join(map(ratio, machine["utilization"][resource]))


def _limit(answer: Mapping[str, Any]) -> str:
    moved, most = answer["moved_in_hour"], answer["hour_max"]
    if not most or moved + len(answer["moves"]) < most:
        return ""
    made = f"{moved} {'was' if moved == 1 else 'were'} made in the last one"
    return f"  the limit of {counted(most, 'move')} an hour is reached, {made} (hour_max)"


def _time(seconds: float) -> str:
    return duration(math.ceil(seconds)) if seconds >= 1 else "<1s"


def _pair(loads: Mapping[str, Sequence[float | None]]) -> str:
    """Return the resource that changes the most, before and after."""
    name, (before, after) = max(loads.items(), key=lambda item: abs((item[1][0] or 0.0) - (item[1][1] or 0.0)))
    return f"{name} {ratio(before)} -> {ratio(after)}"


_MOVE = (Column("id", of="id"), Column("from", left=True, of="source"), Column("to", left=True, of="target"))
_BY_REASON = (Column("why", 1, left=True, of="reason"),)
_BY_OVERLOAD = (
    Column("gain", 2, of=lambda move: f"{move['gain']:.4f}"),
    Column("source", 1, left=True, of=lambda move: _pair(move["utilization"]["source"])),
    Column("target", 1, left=True, of=lambda move: _pair(move["utilization"]["target"])),
    Column("copy", 3, of=lambda move: _time(move["copy"]["seconds"])),
)
_MACHINE = (
    Column("machine", of="machine"), Column("gives", 2, of="gives"), Column("takes", 2, of="takes"),
    Column("overload", 1, of=lambda machine: "{:.4f} -> {:.4f}".format(*machine["overload"])),
)  # fmt: skip
