"""What ``windward rebalance`` says: as JSON, and for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from schemas.process.tables import Column, Screen, table
from scorer.commands.show import ratio

if TYPE_CHECKING:
    from scorer.commands.fleet_file import OfflineFleet
    from scorer.ranking.profile import Profile
    from scorer.rebalance.leaving import Leaving
    from scorer.rebalance.world import Plan

_FLEET_WORDS = {
    "overload": "expected load above the limit, in machines of mean size",
    "machines_over": "machines above the limit",
    "highest": "highest utilization",
    "std": "standard deviation of utilization",
}


def plan_answer(plan: Plan, profile: Profile, fleet: OfflineFleet) -> dict[str, Any]:
    """Return the plan as JSON has it; utilization and overload are pairs: before, after."""
    moves = []
    for instance, step in zip(plan.instances, plan.steps, strict=True):
        loads = {
            side: {name: [float(x) for x in step.utilization[at, :, k]] for k, name in enumerate(plan.resources)}
            for at, side in enumerate(("source", "target"))
        }
        moves.append(
            {
                "id": instance.id,
                "source": instance.machine,
                "target": plan.machines[step.target],
                "gain": step.gain,
                "overload": {
                    "source": [step.source_before, step.source_after],
                    "target": [step.target_before, step.target_after],
                },
                "utilization": loads,
                "reason": _why(loads["source"]),
            }
        )
    totals = {name: list(pair) for name, pair in plan.totals.items()}
    return _head("overload", profile, fleet) | {
        "movable": plan.movable,
        "measured": plan.measured,
        "moves": moves,
        "totals": totals,
    }


def leaving_answer(moves: Sequence[Leaving], profile: Profile, fleet: OfflineFleet) -> dict[str, Any]:
    """Return the moves by thresholds as JSON has them; a target is null where the profile would place it nowhere."""
    rows = [
        {"id": one.instance.id, "source": one.instance.machine, "target": one.target, "reason": one.reason}
        for one in moves
    ]
    return _head("thresholds", profile, fleet) | {"moves": rows}


def _head(rule: str, profile: Profile, fleet: OfflineFleet) -> dict[str, Any]:
    return {
        "rule": rule,
        "profile": profile.name,
        "machines": len(fleet.snapshot),
        "instances": len(fleet.ledger),
    }


def _why(loads: Mapping[str, Sequence[float]]) -> str:
    name, (before, after) = max(loads.items(), key=lambda item: item[1][0] - item[1][1])
    return f"{name} of the source {ratio(before)} -> {ratio(after)}"


def show(answer: Mapping[str, Any], screen: Screen | None = None) -> str:
    """Return a table of the moves, and the fleet before and after."""
    about = f"{answer['machines']} machines, {answer['instances']} instances, profile {answer['profile']}"
    if not answer["moves"]:
        return f"nothing is worth a move ({about})"
    if answer["rule"] == "overload":
        columns = [
            Column("id"), Column("from", left=True), Column("to", left=True), Column("gain", 2),
            Column("source", 1, left=True), Column("target", 1, left=True),
        ]  # fmt: skip
        rows = [
            [one["id"], one["source"], one["target"], f"{one['gain']:.4f}",
             *(_pair(one["utilization"][side]) for side in ("source", "target"))]
            for one in answer["moves"]
        ]  # fmt: skip
    else:
        columns = [Column("id"), Column("from", left=True), Column("to", left=True), Column("why", 1, left=True)]
        rows = [[one["id"], one["source"], one["target"] or "-", one["reason"]] for one in answer["moves"]]
    if "measured" in answer:
        about += f"; usage is measured of {answer['measured']} instances, expected of the rest"
    lines = [table(columns, rows, screen), f"{len(rows)} moves; {about}"]
    for name, (before, after) in answer.get("totals", {}).items():
        shown = [f"{value:.3f}" if name == "overload" else f"{value:.0f}" if name == "machines_over" else ratio(value)
                 for value in (before, after)]  # fmt: skip
        lines.append(f"  {_FLEET_WORDS[name]}: {shown[0]} -> {shown[1]}")
    return "\n".join(lines)


def _pair(loads: Mapping[str, Sequence[float]]) -> str:
    """Return the resource that changes the most, before and after."""
    name, (before, after) = max(loads.items(), key=lambda item: abs(item[1][0] - item[1][1]))
    return f"{name} {ratio(before)} -> {ratio(after)}"
