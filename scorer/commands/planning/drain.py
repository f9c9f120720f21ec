"""``windward drain``: take machines out of service: cordon them, and print a target for each instance.

A scorer makes the plan, in steps between which it answers others; without one, this process does
(`scorer.commands.shared.by_scorer`). With ``--apply`` a scorer reserves the targets (`carry_out`), each by a query: so
progress is told, and an answer that is lost is one move's. After a refused move it goes on with the others: each of
them leaves the machine anyway. Without an answer it ends. What stays is planned again by scorers, until the machines
are empty or uncordoned (`scorer.background.drainer`): the cordon says how.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from schemas.messages.operator import DEFAULT
from schemas.process.failures import Failure
from schemas.process.settings import SettingsError, load_settings, setting
from schemas.rpc.request import Draining
from scorer.client import CordonResult, WindwardError
from scorer.commands.machines.known_machines import known_machines, meant
from scorer.commands.machines.operator_facts import change_operator_facts
from scorer.commands.planning.drain_view import drain_answer, evict_answer, show, show_evicted, show_undone
from scorer.commands.shared import ask
from scorer.commands.shared.by_scorer import by_scorer, check_profile, planned_by_scorer
from scorer.commands.shared.show import counted
from scorer.commands.shared.whole_fleet import FleetSettings, chosen_profile
from scorer.settings import ClientSettings, LedgerSettings

if TYPE_CHECKING:
    from schemas.rpc.results import DrainResult
    from scorer.ranking.profiles.profile import Profile

POLL_S = 1.0
"""The interval at which `await_empty` reads the ledger, s."""
_PAGE = 1000


@dataclass(frozen=True, kw_only=True)
class DrainSettings(FleetSettings):
    """Print where all instances of machines would go; with --apply cordon the machines and reserve the targets.

    Without --apply nothing changes. The instances go where the profile would place them, the largest first; each move
    sees the ones before it. One that finds no machine stays, and the reason is printed. An instance with the label
    movable=false stays unless --force. With --apply each instance holds both machines, and its move is on the list from
    which a mover takes it, until `windward confirm ID --machine TARGET`, or until --ttl-s is over. After a move that
    the scorer refuses it goes on with the others. Scorers plan again every 30 s what stays: what found no machine, was
    refused, or whose move ended. --undo, and `windward machines uncordon`, end that; --undo cancels the moves, too.
    --consolidate chooses the machines with the least memory to copy whose instances all fit elsewhere without overload.
    --evict chooses instances: those of batch, free and mid that no longer fit, since higher classes use more. Free
    leaves before batch, both before mid; within a class first the instance that just covers the excess. It needs a
    profile that counts by class, and prints only.
    Exit codes: 0 every instance finds a machine; 3 some find none, or fewer machines than wanted can be emptied; 4 the
    running fleet cannot be read, no scorer answers, or --wait-s passed.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward drain sim-00001 'sim-0001*'                        # where would their instances go?",
        "windward drain sim-00001 --apply                            # cordon it and reserve the targets",
        "windward drain --consolidate 3                              # which three are the cheapest to empty?",
        "windward drain --evict --profile docs/examples/classes.toml   # who of lower classes no longer fits?",
        "windward drain --undo sim-00001 'sim-0001*'                 # they take instances again",
        "windward drain a1 --force --fleet-file docs/examples/hot.json   # of a file",
    )

    words: tuple[str, ...] = setting((), "machines, or globs", positional=True, metavar="MACHINE")
    selector: str = setting("", "the machines whose labels this selects", group="machines")
    consolidate: Annotated[int, Meta(ge=0, le=10_000)] = setting(
        0, "instead, this many machines: the cheapest to empty", group="machines", metavar="COUNT"
    )
    evict: bool = setting(False, "instead, the instances of lower classes that no longer fit", group="machines")
    evictions_max: Annotated[int, Meta(ge=1, le=100_000)] = setting(
        100, "of --evict: at most so many, of the machines that are furthest above their sums", group="machines"
    )
    profile: str = setting("", "name of a profile, or a profile file, by which the instances are placed",
                           metavar="NAME")  # fmt: skip
    same: tuple[str, ...] = setting((), "labels whose value source and target must share", metavar="LABEL")
    force: bool = setting(False, "also move instances with the label movable=false")
    apply: bool = setting(False, "cordon the machines, and reserve the target of each move until it is confirmed there")
    ttl_s: Annotated[float, Meta(gt=0, le=86_400)] = setting(
        3600.0, "how long each move may take; then it ends by itself", duration=True
    )
    undo: bool = setting(False, "cancel the moves away from the machines, and uncordon these")
    wait: bool = setting(
        False,
        "wait until the machines hold no instance; progress goes to stderr",
    )
    wait_s: Annotated[float, Meta(gt=0, le=31 * 86_400)] = setting(3600.0, "how long --wait waits", duration=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fleet_file is not None and (self.undo or self.wait or self.apply):
            raise ValueError("fleet_file: a file is only planned on, without --apply, --undo and --wait")
        if self.undo and (self.wait or self.apply):
            raise ValueError("undo: goes with machines alone, without --apply and --wait")
        if self.apply and self.profile.endswith(".toml"):
            raise ValueError("profile: --apply needs a profile of the scorer; give its name")
        if self.consolidate and (self.words or self.selector or self.undo):
            raise ValueError("consolidate: chooses the machines itself; goes without names, --selector and --undo")
        alone = not (self.words or self.selector or self.consolidate)
        if self.evict and not (alone and not (self.apply or self.undo or self.wait or self.force)):
            raise ValueError(
                "evict: looks at all machines and only prints; goes without machines, --apply and the like"
            )
        if alone and not self.evict:
            raise ValueError("drain which machines? Give names, globs, --selector, --consolidate or --evict")
        if DEFAULT in self.words:
            raise ValueError(f"machines: {DEFAULT!r} would drain every machine; name them")


SETTINGS = DrainSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the command."""
    return ask.run(load_settings(DrainSettings, "drain", argv, environ), "drain", _drain)


def _drain(settings: DrainSettings) -> int:
    if settings.evict:
        return _evict(settings, chosen_profile(settings.profile, settings.profiles))
    if settings.fleet_file is None:
        return _live(settings)
    return _tell(settings, drain_answer(_planned_here(settings, settings.words, settings.selector)))


def _evict(settings: DrainSettings, profile: Profile) -> int:
    from scorer.planning.drain.evicting import evicting

    fleet = settings.fleet()
    advice = evicting(fleet.inputs(profile), settings.evictions_max, settings.same)
    if advice is None:
        raise SettingsError(
            f"profile: {profile.name} counts all classes together; give `fits` a table `classes` "
            "(docs/examples/classes.toml)"
        )
    ask.tell(settings, evict_answer(advice, profile, fleet), show_evicted, indent=2)
    return ask.OK


def _live(settings: DrainSettings) -> int:
    if settings.profile:  # refused before anything is written
        check_profile(settings, settings.profile)
    machines = [] if settings.consolidate else machines_meant(settings, settings.words, settings.selector)
    if settings.undo:
        from scorer.commands.planning.announce import withdraw

        uncordoned = uncordon(settings, machines)  # first, so that no scorer begins another move
        cancelled = cancel(settings, machines)
        withdraw(settings, cancelled)
        ask.tell(settings, {"uncordoned": uncordoned, "cancelled": cancelled}, show_undone)
        return ask.OK
    if settings.apply:
        cordon(settings, machines)
    try:
        answer = drain_answer(_planned(settings, machines))
    except Failure as error:
        left = "; the machines stay cordoned (windward drain --undo)" if machines and settings.apply else ""
        raise Failure(f"{error}{left}") from error
    if settings.consolidate and settings.apply:
        cordon(settings, machines := answer["drained"])
    answer["cordoned"] = settings.apply
    if settings.apply:
        answer["announced"] = reserve(settings, answer["moves"])
        answer["blocked"] += [one for one in answer["moves"] if one["state"] == "refused"]
        answer["moves"] = [one for one in answer["moves"] if one["state"] != "refused"]
    code = _tell(settings, answer)
    return await_empty(settings, machines, settings.wait_s) if settings.wait else code


def _planned(settings: DrainSettings, machines: Sequence[str]) -> DrainResult:
    """Return the plan of these machines, or of those that are the cheapest to empty: a scorer's, where one runs."""
    from schemas.rpc.results import DrainResult

    asked = {"machines": machines, "consolidate": 0 if machines else settings.consolidate}
    asked |= {"same": settings.same, "force": settings.force}
    found = planned_by_scorer(settings, settings.profile, DrainResult, "drain", asked)
    return _planned_here(settings, machines) if found is None else found


def _planned_here(settings: DrainSettings, words: Sequence[str], selector: str = "") -> DrainResult:
    """Return the same plan, made by this process."""
    from schemas.rpc.request import InvalidRequest
    from scorer.planning.drain.as_result import consolidate_result, drain_result
    from scorer.planning.drain.consolidate import consolidate
    from scorer.planning.drain.drain import drain

    profile = chosen_profile(settings.profile, settings.profiles)
    fleet = settings.fleet()
    inputs = fleet.inputs(profile)
    try:
        if settings.consolidate and not words:
            found = consolidate(settings.consolidate, inputs, same=settings.same, force=settings.force)
            return consolidate_result(found, settings.consolidate, inputs)
        machines = words
        if settings.fleet_file is not None:
            known = {name: fleet.snapshot.rules.labels(row) for row, name in enumerate(fleet.snapshot.names)}
            machines = meant(words, selector, known, ahead=None)
        return drain_result(drain(machines, inputs, same=settings.same, force=settings.force), inputs)
    except InvalidRequest as error:
        raise SettingsError(str(error)) from None


def _tell(settings: DrainSettings, answer: Mapping[str, Any]) -> int:
    ask.tell(settings, answer, partial(show, live=settings.fleet_file is None), indent=2)
    short = len(answer["drained"]) < settings.consolidate
    return ask.NO_MACHINE if answer["blocked"] or short else ask.OK


def machines_meant(settings: FleetSettings, words: Sequence[str], selector: str) -> list[str]:
    """Return the machines of the running fleet that names, globs and a selector mean; raises WindwardError."""
    with ask.server(settings) as server:
        asked = {"machines": words, "selector": selector, "dry_run": True}
        if (found := by_scorer(settings, server, CordonResult, "cordon", asked)) is not None:
            return list(found.rules)
        with ask.open_windows(settings) as windows:
            return meant(words, selector, known_machines(server, windows, settings.names), ahead=None)


def cordon(settings: DrainSettings, machines: Sequence[str]) -> None:
    """Cordon machines, and say how they are emptied, so that scorers plan again what stays."""
    said = Draining(ttl_s=settings.ttl_s, profile=settings.profile, same=settings.same, force=settings.force)
    how = msgspec.to_builtins(said)
    _write(settings, "cordon", machines, {"cordon": True, "drain": how}, drain=how)


def uncordon(settings: ClientSettings, machines: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Uncordon machines; return the operators' rules of each."""
    return _write(settings, "uncordon", machines, {"cordon": False, "drain": None})


def _write(
    settings: ClientSettings, method: str, machines: Sequence[str], facts: dict[str, Any], **more: Any
) -> dict[str, dict[str, Any]]:
    """Have a scorer write these rules, or write them; return the operators' rules of each machine."""
    with ask.server(settings) as server:
        asked = {"machines": machines, "ahead": True, **more}
        if machines and (found := by_scorer(settings, server, CordonResult, method, asked)) is not None:
            return dict(found.rules)
        return {
            machine: change_operator_facts(server, settings.names, machine, lambda before: before | facts)
            for machine in machines
        }


def reserve(settings: DrainSettings, moves: Sequence[dict[str, Any]]) -> bool:
    """Reserve the target of each move, with a line on stderr; set its ``state``, and ``reason`` when it is refused.

    Then put them on the list of moves; return whether they are there. Raises WindwardError when no scorer answers.
    """
    from scorer.commands.planning.announce import announce
    from scorer.commands.planning.carry_out import Calls, OnRefusal, carry_out
    from scorer.planning.wanted.steps import Step

    steps = [Step("move", one["id"], one["source"], one["target"], generation=one["generation"]) for one in moves]
    begun, unanswered = [], None
    with ask.client(settings) as scorer:
        calls = Calls(scorer, settings.profile, settings.ttl_s)
        for number, outcome in enumerate(carry_out(steps, calls, OnRefusal.GO_ON)):
            one, error = moves[number], outcome.error
            if error is not None and outcome.state == "unanswered":
                unanswered = error
                break
            one |= {"state": "refused", "reason": error.message} if error else {"state": "moving"}
            sys.stderr.write(f"{number + 1} of {len(moves)}: {one['id']} to {one['target']}: {one['state']}\n")
            if outcome.moving is not None:
                begun.append((outcome.step, outcome.moving))
                one["until"] = outcome.moving.until
    done = announce(settings, begun, "drain")
    if unanswered is not None:
        raise unanswered
    return done


def cancel(settings: ClientSettings, machines: Sequence[str]) -> list[str]:
    """Cancel the unconfirmed moves away from these machines; return the ids. Raises WindwardError at a refusal."""
    from scorer.commands.planning.carry_out import Calls, OnRefusal, carry_out
    from scorer.planning.wanted.steps import Step

    steps = []
    with ask.client(settings) as scorer:
        for machine in machines:
            after, more = "", True
            while more:
                page = scorer.instances(machine=machine, after=after, limit=_PAGE).instances
                leaving = (one for one in page if one.moving and one.machine == machine)
                steps += [Step("cancel", one.id, generation=one.generation) for one in leaving]
                more = len(page) == _PAGE
                after = page[-1].id if page else ""
        for outcome in carry_out(steps, Calls(scorer), OnRefusal.STOP):
            if outcome.error is not None:
                raise outcome.error
    return [step.id for step in steps]


def await_empty(settings: LedgerSettings, machines: Sequence[str], wait_s: float) -> int:
    """Wait until the ledger has no instance on these machines, with the counts on stderr; return the exit code."""
    from scorer.ledger.store.check import instances_on

    told, end_s = "", time.monotonic() + wait_s
    with ask.open_ledger(settings) as ledger:
        while held := instances_on(ledger, machines):
            words = f"{counted(sum(held.values()), 'instance')} left: " + ", ".join(
                f"{one} {n}" for one, n in held.items()
            )
            if words != told:
                sys.stderr.write(f"{words}\n")
                told = words
            if time.monotonic() >= end_s:
                overdue = WindwardError("DEADLINE_EXCEEDED", f"after {wait_s:g} s {words}")
                return ask.report(overdue, "drain")
            time.sleep(min(POLL_S, max(0.0, end_s - time.monotonic())))
    sys.stderr.write("no instance is left\n")
    return ask.OK
