"""``windward rebalance``: which instances should move, and why; in the running fleet, or in that of a file.

A planner makes the plan (`scorer.commands.shared.whole_fleet.planned`). Nothing is moved. With ``--apply`` a scorer
reserves the targets (`carry_out`). After a refused move those that depend on it are dropped, since the plan counted on
it; the others are tried. When the command is interrupted, the reservations expire.

One run is one round: every machine that is over gives. ``windward planner`` observes machines from round to round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.settings import load_settings, setting
from scorer.commands.planning.rebalance_view import plan_answer, show
from scorer.commands.shared import ask
from scorer.commands.shared.whole_fleet import FleetSettings, planned
from scorer.planner.settings import BalanceSettings, given

if TYPE_CHECKING:
    from schemas.rpc.results import RebalanceResult
    from scorer.client import Moving
    from scorer.commands.planning.carry_out import Calls, Outcome
    from scorer.planning.wanted.differences import Step


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
        from scorer.commands.planning.announce import announce
        from scorer.commands.planning.carry_out import Calls

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


def apply(moves: Sequence[dict[str, Any]], calls: Calls) -> list[tuple[Step, Moving]]:
    """Reserve the target of each move; set its ``applied``: ``outcome`` and ``why``, or None without a target.

    Return the moves that began.

    The outcome is ``reserved`` (with ``until``, epoch s, and the ``number`` of the move), ``refused``, ``dropped``, or
    ``not tried`` after no scorer answered. An instance that is on its target already has nothing to be confirmed: it is
    reported as refused, and drops nothing.
    """
    from scorer.commands.planning.carry_out import OnRefusal, carry_out
    from scorer.planning.wanted.differences import Step

    for move in moves:
        move["applied"] = None
    aimed = [move for move in moves if move["target"] is not None]
    steps = [Step("move", move["id"], move["source"], move["target"], generation=move["generation"]) for move in aimed]
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
