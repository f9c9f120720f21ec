"""``windward rebalance``: which instances should move, and why; in the running fleet, or in that of a file.

A planner makes the plan (`scorer.commands.shared.whole_fleet.planned`). Nothing is moved. With ``--apply`` a scorer
reserves the targets (`carry_out`). After a refused move those that depend on it are dropped, since the plan counted on
it; the others are tried. When the command is interrupted, the reservations expire.

One run is one round: every machine that is over gives. ``windward planner`` observes machines from round to round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from schemas.process.settings import load_settings, setting
from schemas.process.tables import Column, Screen, view
from schemas.values.numbers import counted, duration
from scorer.commands.shared import ask
from scorer.commands.shared.show import ON_THE_LIST, basis_in_words, ratio, time_of
from scorer.commands.shared.whole_fleet import FleetSettings, planned
from scorer.planner.settings import BalanceSettings, given

if TYPE_CHECKING:
    from schemas.rpc.results import PlanStep, RebalanceMove, RebalanceResult
    from scorer.client import Moving
    from scorer.commands.planning.carry_out import Calls, Outcome


@dataclass(frozen=True, kw_only=True)
class RebalanceSettings(FleetSettings, BalanceSettings):
    """Say which instances should move away from overloaded machines; it moves nothing itself.

    With rule `overload` each move reduces the expected load above 80 % of a machine, given the moves before it. With
    `thresholds` instances leave machines above --high while there is room on machines below --low, as with
    Koordinator's descheduler. With `repair` the fewest moves mend broken rules. An instance with the label
    movable=false stays. --same names labels that source and target must share, in addition to the rules of the
    instances' requests.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward rebalance                                          # the ten best moves now",
        "windward rebalance --moves-max 50 --same rack --json",
        "windward rebalance --rule thresholds --high cpu=65,memory=95 --low cpu=45,memory=60",
        "windward rebalance --rule repair                            # the fewest moves that mend broken rules",
        "windward rebalance --fleet-file docs/examples/hot.json      # of a file",
        "windward rebalance --moves-max 3 --apply                   # and reserve the targets, for an hour",
    )

    profile: str = setting(
        "", "name of a profile, or a profile file: its filters, its load, its expected use", metavar="NAME"
    )
    apply: bool = setting(False, "reserve the target of each move; a refused one drops those that depend on it")
    ttl_s: Annotated[float, Meta(gt=0, le=86_400)] = setting(3600.0, "with --apply: how long a target is held")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.apply and self.fleet_file is not None:
            raise ValueError("apply: the machines of a file cannot be reserved; leave --fleet-file out")


SETTINGS = RebalanceSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(RebalanceSettings, "rebalance", argv, environ), "rebalance", _rebalance)


def _rebalance(settings: RebalanceSettings) -> int:
    answer = plan_answer(_plan(settings))
    if settings.apply:
        from scorer.commands.planning.carry_out import Calls, announce

        profile_name = "" if settings.profile.endswith(".toml") else settings.profile
        with ask.client(settings) as scorer:
            begun = apply(answer["moves"], Calls(scorer, profile_name, settings.ttl_s))
        roles = [move for move in answer["moves"] if move["swap_role_with"]]
        answer["announced"] = announce(settings, begun, "rebalance", roles, settings.ttl_s)
    ask.tell(settings, answer, show, indent=2)
    return _code(answer) if settings.apply else ask.OK


def _plan(settings: RebalanceSettings) -> RebalanceResult:
    from schemas.rpc.results import RebalanceResult

    own = given(settings)
    params: dict[str, Any] = {name: own.pop(name) for name in ("moves_max", "same") if name in own}
    return planned(settings, settings.profile, RebalanceResult, "rebalance", params | {"settings": own})


def apply(moves: Sequence[dict[str, Any]], calls: Calls) -> list[tuple[PlanStep, Moving]]:
    """Reserve the target of each move; set its ``applied``: ``outcome`` and ``why``, or None without a target.

    Return the moves that began.

    The outcome is ``reserved`` (with ``until``, epoch s, and the ``number`` of the move), ``refused``, ``dropped``, or
    ``not tried`` after no scorer answered. An instance that is on its target already has nothing to be confirmed: it is
    reported as refused, and drops nothing.
    """
    from scorer.commands.planning.carry_out import OnRefusal, carry_out
    from scorer.planning.wanted.wanted import step

    for move in moves:
        move["applied"] = None
    aimed = [move for move in moves if move["target"] is not None]
    named = ("source", "target", "generation")
    steps = [step("move", move["id"], **{name: move[name] for name in named}) for move in aimed]
    begun = []
    for outcome in carry_out(steps, calls, OnRefusal.DROP_DEPENDENTS):
        aimed[outcome.position]["applied"] = _applied(outcome)
        if outcome.state == "done" and outcome.moving is not None:
            begun.append((outcome.step, outcome.moving))
    return begun


def _applied(outcome: Outcome) -> dict[str, Any]:
    step, cause, moving = outcome.step, outcome.cause, outcome.moving
    if cause is not None:
        leaves = cause.source == step.target
        why = f"does not leave {step.target}" if leaves else f"does not come to {step.source}"
        return {"outcome": "dropped", "why": f"{cause.id} {why}"}
    if outcome.error is not None:
        return {"outcome": "refused" if outcome.state == "refused" else "not tried", "why": str(outcome.error)}
    if moving is None:
        return {"outcome": "refused", "why": f"{step.id} is on {step.target} and does not move"}
    return {"outcome": "reserved", "why": "", "until": moving.until, "number": moving.number}


def _code(answer: Mapping[str, Any]) -> int:
    """Return 0 where every target is reserved, 4 where no scorer answered, 1 where one was refused."""
    outcomes = {move["applied"]["outcome"] for move in answer["moves"] if move["applied"]}
    if "not tried" in outcomes:
        return ask.NO_ANSWER
    return ask.FAILED if outcomes - {"reserved"} else ask.OK


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
    missing = sum(move["target"] is None and not move["swap_role_with"] for move in answer["moves"])
    moves, copied = counted(len(answer["moves"]) - exchanged - missing, "move"), _time(answer["copy"]["seconds"])
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
    if missing:
        why = "no move that the filters allow mends the rule" if answer["rule"] == "repair" else _NO_TARGET
        lines.append(f"  {missing} without a target: {why}")
    applied = _applied_words(answer["moves"], announced=answer.get("announced", False))
    return "\n".join([*lines, *([limit] if limit else []), *applied])


def _applied_words(moves: Sequence[Mapping[str, Any]], *, announced: bool) -> list[str]:
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
