"""``windward drain``: take machines out of service: cordon them, and print a target for each instance.

A planner makes the plan (`scorer.commands.shared.whole_fleet.planned`), and carries it out with ``--apply``
(`scorer.planner.drain`).
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from schemas.messages.operator import DEFAULT
from schemas.process.settings import SettingsError, load_settings, setting
from schemas.process.tables import Column, Screen, readable, view
from schemas.rpc.results import DrainLine, DrainResult
from schemas.values.numbers import amount, counted
from scorer.client import WindwardError
from scorer.commands.machines.operator_facts import in_words, write_cordon
from scorer.commands.shared import ask
from scorer.commands.shared.show import ON_THE_LIST, amount_of, basis, basis_in_words, time_of
from scorer.commands.shared.whole_fleet import FleetSettings, chosen_profile, planned
from scorer.settings import ClientSettings, LedgerSettings

if TYPE_CHECKING:
    from scorer.planning.drain.evicting import Advice
    from scorer.ranking.inputs import FleetState
    from scorer.ranking.profiles.profile import Profile


POLL_S = 1.0
"""The interval at which `await_empty` reads the ledger, s."""
STILL_S = 3.0
"""When nothing has left for so long, `await_empty` says what must run."""
APPLY_S = 60.0
"""How long ``--apply`` waits for the answer at least, s: a target takes a few milliseconds."""


@dataclass(frozen=True, kw_only=True)
class DrainSettings(FleetSettings):
    """Print where all instances of machines would go; with --apply cordon the machines and reserve the targets.

    Without --apply nothing changes. The instances go where the profile would place them, the largest first; each move
    sees the ones before it. One that finds no machine stays, and the reason is printed. An instance with the label
    movable=false stays unless --force. With --apply each instance holds both machines, and its move is on the list from
    which a mover takes it, until `windward confirm ID --machine TARGET`, or until --ttl-s is over. After a move that
    the scorer refuses it goes on with the others. Planners plan again every 30 s what stays: what found no machine, was
    refused, or whose move ended. --undo, and `windward machines uncordon`, end that; --undo cancels the moves, too.
    --lost says that the machines are dead: what they held starts anew elsewhere, high classes first, and in each class
    masters first. It implies --force, and refuses a machine that sends data.
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
        "windward drain sim-00001 --lost --apply                     # it is dead: its instances start anew elsewhere",
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
    profile: str = setting(
        "", "name of a profile, or a profile file, by which the instances are placed", metavar="NAME"
    )
    same: tuple[str, ...] = setting((), "labels whose value source and target must share", metavar="LABEL")
    force: bool = setting(False, "also move instances with the label movable=false")
    lost: bool = setting(False, "the machines are dead: place what they held anew, the highest class first")
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
        if self.lost and (self.consolidate or self.evict or self.undo):
            raise ValueError("lost: names machines that are dead; goes without --consolidate, --evict and --undo")
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
    return ask.run(load_settings(DrainSettings, "drain", argv, environ), "drain", _drain)


def _drain(settings: DrainSettings) -> int:
    if settings.evict:
        return _evict(settings, chosen_profile(settings.profile, settings.profiles))
    if settings.undo:
        return _undo(settings)
    asked = {"machines": settings.words, "selector": settings.selector, "consolidate": settings.consolidate}
    asked |= {"same": settings.same, "force": settings.force}
    if settings.lost:
        asked["lost"] = True
    if settings.apply:
        asked |= {"apply": True, "ttl_s": settings.ttl_s}
        settings = dataclasses.replace(settings, timeout=max(settings.timeout, APPLY_S))
    answer = drain_answer(planned(settings, settings.profile, DrainResult, "drain", asked))
    ask.tell(settings, answer, partial(show, live=settings.fleet_file is None), indent=2)
    if settings.wait:
        return await_empty(settings, answer["drained"], settings.wait_s)
    short = len(answer["drained"]) < settings.consolidate
    return ask.NO_MACHINE if answer["blocked"] or short else ask.OK


def _undo(settings: DrainSettings) -> int:
    from scorer.rpc.operator_rules import take_off
    from scorer.wire import Wire

    # first, so that no planner begins another move
    uncordoned = write_cordon(settings, "uncordon", settings.words, settings.selector)
    cancelled = cancel(settings, [*uncordoned])
    with closing(Wire(settings.redis_arguments())) as wire:
        take_off(wire, settings.names, cancelled, time.time())
    ask.tell(settings, {"uncordoned": uncordoned, "cancelled": cancelled}, show_undone)
    return ask.OK


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


def cancel(settings: ClientSettings, machines: Sequence[str]) -> list[str]:
    """Cancel the unconfirmed moves away from these machines; return the ids. Raises WindwardError at a refusal."""
    from scorer.commands.planning.carry_out import Calls, OnRefusal, carry_out
    from scorer.planning.wanted.wanted import step

    steps = []
    with ask.client(settings) as scorer:
        for machine in machines:
            there = ask.every_instance(scorer, machine)
            leaving = (one for one in there if one.moving and one.machine == machine)
            steps += [step("cancel", one.id, generation=one.generation) for one in leaving]
        for outcome in carry_out(steps, Calls(scorer), OnRefusal.STOP):
            if outcome.error is not None:
                raise outcome.error
    return [one.id for one in steps]


def await_empty(settings: LedgerSettings, machines: Sequence[str], wait_s: float) -> int:
    """Wait until the ledger has no instance on these machines, with the counts on stderr; return the exit code."""
    from scorer.ledger.store.check import instances_on

    told, still, end_s = "", math.inf, time.monotonic() + wait_s
    with ask.open_ledger(settings) as ledger:
        while held := instances_on(ledger, machines):
            words = f"{counted(sum(held.values()), 'instance')} left: " + ", ".join(
                f"{one} {n}" for one, n in held.items()
            )
            if words != told:
                sys.stderr.write(f"{readable(words)}\n")
                told, still = words, time.monotonic() + STILL_S
            elif time.monotonic() >= still:
                sys.stderr.write(f"none has left for {STILL_S:g} s: does a mover run (docs/draining.md)?\n")
                still = math.inf
            if time.monotonic() >= end_s:
                overdue = WindwardError("DEADLINE_EXCEEDED", f"after {wait_s:g} s {words}")
                return ask.report(overdue, "drain")
            time.sleep(min(POLL_S, max(0.0, end_s - time.monotonic())))
    sys.stderr.write("no instance is left\n")
    return ask.OK


_SHOWN = ("cpu", "memory")
_MOVES = (
    Column("id", of="id"), Column("from", left=True, of="source"), Column("to", left=True, of="target"),
    *(Column(name, 1, of=amount_of(name)) for name in _SHOWN),
)  # fmt: skip
_BLOCKED = (Column("stays", of="id"), Column("on", left=True, of="source"), Column("why", left=True, of="reason"))
_EMPTIED = (
    Column("emptied", of="machine"),
    Column("instances", of="instances"),
    Column("memory to copy", of=amount_of("memory")),
)


def drain_answer(found: DrainResult) -> dict[str, Any]:
    """Return the plan as data for JSON: the moves in their order, and the blocked instances with their reasons.

    A consolidation also lists each machine that would be empty, with the cost of its moves.
    """
    answer = {name: found[name] for name in ("drained", "cordoned", "profile", "machines", "instances")} | {
        "moves": [_to(one) | {"state": "moving" if found.cordoned else "planned"} for one in found.moves],
        "moving": [_to(one) for one in found.moving],
        "blocked": [_line(one) | {"reason": one.reason} for one in found.blocked],
    }
    if found.cordoned:
        answer["announced"] = bool(found.moves)
    return answer | ({"consolidate": msgspec.to_builtins(found.emptying)} if found.emptying else {})


def _to(one: DrainLine) -> dict[str, Any]:
    return _line(one) | {"target": one.target} | ({"until": one.until} if one.until is not None else {})


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
