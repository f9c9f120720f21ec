"""``windward rebalance``: which instances should move, and why; in the running fleet, or in that of a file.

A planner makes the plan (`scorer.commands.shared.whole_fleet.planned`). Nothing is moved. With ``--apply`` a scorer
reserves the targets (`carry_out`). After a refused move those that depend on it are dropped, since the plan counted on
it; the others are tried. When the command is interrupted, the reservations expire.

With ``--rounds`` this process asks several times, hands the state of a round to the next, and prints the last plan. The
daemon, ``windward planner``, observes all the time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.settings import SettingsError, load_settings, setting
from scorer.commands.planning.rebalance_view import plan_answer, show
from scorer.commands.shared import ask
from scorer.commands.shared.whole_fleet import FleetSettings, chosen_profile, planned
from scorer.planner.settings import BalanceSettings, balanced, given

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
        "windward rebalance --rounds 6 --rounds-over 5 --every 1m    # only machines overloaded for five minutes",
        "windward rebalance --rule thresholds --high cpu=65,memory=95 --low cpu=45,memory=60",
        "windward rebalance --rule repair                            # the fewest moves that mend broken rules",
        "windward rebalance --fleet-file docs/examples/hot.json      # of a file",
        "windward rebalance --moves-max 3 --apply                   # and reserve the targets, for an hour",
    )

    profile: str = setting(
        "", "name of a profile, or a profile file: its filters, its load, its expected use", metavar="NAME"
    )
    rounds: Annotated[int, Meta(ge=1, le=10_000)] = setting(
        1, "plan so many times and print the last plan: machines that are over only for a moment give nothing"
    )
    every: Annotated[float, Meta(gt=0, le=86_400)] = setting(60.0, "time between two rounds", duration=True)
    apply: bool = setting(False, "reserve the target of each move; a refused one drops those that depend on it")
    ttl_s: Annotated[float, Meta(gt=0, le=86_400)] = setting(3600.0, "with --apply: how long a target is held")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.apply and self.fleet_file is not None:
            raise ValueError("apply: the machines of a file cannot be reserved; leave --fleet-file out")
        if self.rounds > 1 and self.fleet_file is not None:
            raise ValueError("rounds: a file has one moment; several rounds need the running fleet")


SETTINGS = RebalanceSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    return ask.run(load_settings(RebalanceSettings, "rebalance", argv, environ), "rebalance", _rebalance)


def _rebalance(settings: RebalanceSettings) -> int:
    answer = plan_answer(_last_round(settings) if settings.rounds > 1 else _round(settings))
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


def _last_round(settings: RebalanceSettings) -> RebalanceResult:
    """Return the plan of the last of several rounds; raises SettingsError where the rounds are too few."""
    _check_rounds(settings)
    rounds = ""
    for left in range(settings.rounds, 0, -1):
        found = _round(settings, every_s=settings.every, rounds=rounds)
        rounds = found.rounds
        if left > 1:
            time.sleep(settings.every)
    return found


def _check_rounds(settings: RebalanceSettings) -> None:
    """Refuse fewer rounds than a machine must be overloaded in, if the profile is known here."""
    try:
        profile = chosen_profile(settings.profile, settings.profiles)
    except SettingsError:
        return
    over = balanced(profile, settings).rebalance.rounds_over
    if over >= settings.rounds:
        raise SettingsError(
            f"rounds: a machine gives after more than {over} rounds (rounds_over); "
            f"give --rounds {over + 1} or more, or --rounds-over 1"
        )


def _round(settings: RebalanceSettings, **several: Any) -> RebalanceResult:
    """Return the plan of one round; ``several``: its number among several rounds."""
    from schemas.rpc.results import RebalanceResult

    own = given(settings)
    params: dict[str, Any] = {name: own.pop(name) for name in ("moves_max", "same") if name in own} | several
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
