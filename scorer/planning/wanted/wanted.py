"""Wanted instances compared with the ledger: what would be placed, moved, changed, refused, released, or stays. Pure.

An instance of the ledger stays on its machine while the filters of the profile allow it there. It moves when the file
names another machine, when a filter refuses it on its machine, or when it grows beyond a limit of its machine. Filters
that are declared `momentary` (a cordon, old data, high load) do not make it move. Amounts that it holds already are not
checked again, as in an update.

Each step is planned as if the steps before it were done, in the order of execution: releases, instances that shrink,
instances that grow on their machine, moves, new instances in the order of the file. A move holds both machines until
it is confirmed, so the room that it leaves is for a later plan. Rules of others do not see it at its source any more:
of two that avoid each other on one machine, one moves.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from schemas.resources import RESOURCES, UNITS
from schemas.rpc.request import CHANGEABLE_FIELDS, KEPT_FIELDS, Request
from schemas.rpc.results import PlanStep
from schemas.values.numbers import size
from scorer.ledger.record.instance import RULES, Instance, Rules, as_held, copy_with, declared, with_arrival
from scorer.ledger.record.limits import Limit, adds, measures_in_script, mosts_in_script, of_growth, scales_in_script
from scorer.ledger.view.view import instance_of
from scorer.placement.choosing.trial import Trial, is_alone
from scorer.ranking.filters.masters import Masters
from scorer.ranking.inputs import RankingInputs, quiet
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.profile import with_rules
from scorer.ranking.rank import Decision, limits, refusal_of

NOT_MOVED = CHANGEABLE_FIELDS
"""Fields that a move leaves as they are: they change where the instance is, before it moves or while it does."""
CHANGEABLE = ("amounts", "maxmemory", *NOT_MOVED, "limits", "expected", "rules")
"""Fields that an update changes."""
FIXED = ("priority_class", *(name for name in KEPT_FIELDS if name not in CHANGEABLE_FIELDS))
"""Fields that only a new instance can have otherwise."""

_ONLY_NAMED = ("limits", "expected", "prefer", "affinity", "anti_affinity", "tolerations")
"""Parameters whose values are too long for one line."""


def as_wanted(old: Instance, request: Request) -> Instance:
    """Return the record that an instance would have if it met a request, on its present machine."""
    new = instance_of(request, old.machine, 0.0)
    return msgspec.structs.replace(old, **{name: getattr(new, name) for name in CHANGEABLE})


def changes(old: Instance, new: Instance) -> dict[str, Any]:
    """Return the parameters of the update that changes ``old`` to ``new``; amounts in base units, 0 for none."""
    found: dict[str, Any] = {}
    for name in CHANGEABLE:
        if getattr(old, name) == getattr(new, name):
            continue
        before, after = _plain(name, old), _plain(name, new)
        if before == after:
            continue
        if name == "amounts":
            found |= {r: b for r, a, b in zip(RESOURCES, before, after, strict=True) if a != b}
        elif name in ("limits", "expected"):
            found[name] = declared(after)
        elif name == "rules":
            found |= {rule: b for rule, a, b in zip(RULES, before, after, strict=True) if a != b}
        else:
            found[name] = after
    return found


def restoring(old: Instance, parameters: Iterable[str]) -> dict[str, Any]:
    """Return the parameters of the update that restores these fields of an instance.

    >>> one = Instance(id="a", machine="m", state="confirmed", amounts=(1.0, None, None, None), limits=(2.0, -1.0))
    >>> restoring(one, ["cpu", "memory", "limits", "selector", "role"])
    {'cpu': 1.0, 'memory': 0.0, 'limits': {'cpu': 2.0}, 'selector': '', 'role': ''}
    """
    found: dict[str, Any] = {}
    for name in parameters:
        if name in RESOURCES:
            found[name] = old.amounts[RESOURCES.index(name)] or 0.0
        elif name in ("limits", "expected"):
            found[name] = declared(getattr(old, name))
        else:
            found[name] = getattr(old.rules or Rules(), name) if name in RULES else getattr(old, name)
    return found


def fixed(old: Instance, request: Request) -> list[str]:
    """Return in words the changes that no update can make."""
    pairs = ((name, getattr(old, name), getattr(request, name)) for name in FIXED)
    return [f"{name} {before!r} is to be {after!r}" for name, before, after in pairs if before != after]


def in_words(old: Instance, new: Instance) -> str:
    """Return the changes as text; amounts by resource.

    >>> one = Instance(id="a", machine="m", state="confirmed", amounts=Request(cpu=1.0).amounts(), role="replica")
    >>> in_words(one, msgspec.structs.replace(one, amounts=Request(cpu=2.0, memory=1e9).amounts(), role="master"))
    'cpu 1 -> 2, memory 0 -> 1.0G, role replica -> master'
    """
    found = []
    for name, after in changes(old, new).items():
        if name in RESOURCES:
            before = old.amounts[RESOURCES.index(name)] or 0.0
            found.append(f"{name} {_amounts(before, after, in_bytes=UNITS[name].startswith('bytes'))}")
        elif name == "maxmemory":
            found.append(f"maxmemory {_amounts(old.maxmemory, after, in_bytes=True)}")
        elif name in _ONLY_NAMED:
            found.append(f"{name} changed")
        elif name == "selector":
            found.append(f"selector {(old.rules or Rules()).selector or '-'} -> {after or '-'}")
        else:
            found.append(f"{name} {_text(getattr(old, name))} -> {_text(after)}")
    return ", ".join(found)


def only_rules(parameters: Collection[str]) -> bool:
    """Return whether the parameters of an update change rules and nothing else.

    >>> only_rules(["selector"]), only_rules(["cpu", "selector"]), only_rules([])
    (True, False, False)
    """
    return bool(parameters) and set(parameters) <= set(RULES)


def grows(old: Instance, new: Instance) -> bool:
    """Return whether any amount or maxmemory rises, or a port is new."""
    more = any((b or 0.0) > (a or 0.0) for a, b in zip(old.amounts, new.amounts, strict=True))
    return more or new.maxmemory > old.maxmemory or bool({*new.ports} - {*old.ports})


def _plain(name: str, instance: Instance) -> Any:
    """Return a field's value for comparison: an amount of 0 is equal to none."""
    value = getattr(instance, name)
    if name == "amounts":
        return tuple(one or 0.0 for one in value)
    if name == "rules":
        return [msgspec.to_builtins(getattr(value or Rules(), rule)) for rule in RULES]
    return value if name not in ("limits", "expected") or any(one >= 0 for one in value) else ()


def _amounts(before: float, after: float, *, in_bytes: bool) -> str:
    """Return two amounts for people; with all digits where they would otherwise look equal."""
    words = size if in_bytes else "{:g}".format
    first, second = words(before), words(after)
    return f"{first} -> {second}" if first != second else f"{before} -> {after}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={each}" for key, each in value.items()) or "-"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value)) or "-"
    return f"{value:g}" if isinstance(value, float) else str(value) or "-"


Action = Literal["release", "change", "update", "move", "place", "refuse", "same", "cancel", "restore"]
"""The last two undo a move and a release: no plan has them, `scorer.commands.planning.carry_out.undo` has."""


def step(action: Action, of: str | Instance, target: str | None = None, why: str = "", **more: Any) -> PlanStep:
    """Return a step of an instance of the ledger, which gives source, generation and record, or of a new id."""
    given: dict[str, Any] = {"source": None, "generation": 0, "changes": {}, "record": None}
    if isinstance(of, Instance):
        given |= {"source": of.machine, "generation": of.generation, "record": msgspec.to_builtins(of)}
        of = of.id
    return PlanStep(action=action, id=of, target=target, why=why, **given | more)


@dataclass(frozen=True)
class Wanted:
    """The steps in the order of execution, without those that change nothing."""

    steps: tuple[PlanStep, ...]
    same: int
    """Instances that are as wanted."""
    others: int
    """Instances of the ledger that the file does not name and that are left alone."""

    def count(self, action: Action) -> int:
        return self.same if action == "same" else sum(one.action == action for one in self.steps)


_ARRIVING = "\n"
"""The end of the id under which the draft has a moving instance on its target; no instance's id ends so."""
_PASSES = 3
"""How often an instance is looked at whose neighbour may have left after it was decided."""
_Kept = tuple[Instance, Request, PlanStep]
"""An instance of the ledger, its request, and what becomes of it."""


def compare(
    requests: Sequence[Request],
    inputs: RankingInputs,
    *,
    prune: bool = False,
    prune_labels: Mapping[str, str] | None = None,
    release_last: bool = False,
) -> Wanted:
    """Return the steps that give the ledger the instances of these requests, each of which has its own id.

    ``prune``: confirmed instances that no request names are released, those with ``prune_labels`` only.
    ``release_last``: releases come after all other steps, which then do not have the room of the released ones.
    Raises InvalidRequest where `rank` does.
    """
    comparison, ledger = _Comparison(Trial(inputs)), inputs.ledger
    requests = [with_rules(inputs.profile.rules, one) for one in requests]
    ids = {request.id for request in requests}
    others = [one for one in ledger.instances.values() if one.id not in ids]
    labels = prune_labels or {}
    released = [one for one in others if one.state == "confirmed" and labels.items() <= one.labels.items()] * prune
    steps = [] if release_last else [comparison.release(one) for one in released]
    left = {one.id: (ledger.instances[one.id], one) for one in requests if one.id in ledger.instances}
    kept: dict[str, _Kept] = {}
    for phase in (comparison.shrunk, comparison.grown):
        kept |= {name: (*pair, one) for name, pair in left.items() if (one := phase(*pair)) is not None}
        left = {name: pair for name, pair in left.items() if name not in kept}
    left = comparison.first_to_leave(left)
    kept |= {name: (*pair, comparison.moved(*pair)) for name, pair in left.items()}
    done = {name: kept[name][2].action for name in left}
    again = [name for name in left if done[name] == "refuse"] if "move" in done.values() else []
    for _ in range(_PASSES):
        again += [name for name, one in kept.items() if comparison.is_alone(*one)]
        for old, request, _ in [kept.pop(name) for name in again]:
            kept[old.id] = old, request, comparison.moved(old, request)
        again = []
    steps += [one for *_, one in kept.values()]
    steps += [comparison.placed(one) for one in requests if one.id not in ledger.instances]
    steps += [comparison.release(one) for one in released if release_last]
    found = tuple(one for one in steps if one.action != "same")
    return Wanted(found, len(steps) - len(found), len(others) - len(released))


def undoable(
    requests: Sequence[Request], inputs: RankingInputs, *, prune: bool, prune_labels: Mapping[str, str] | None = None
) -> Wanted:
    """Return the result of `compare`, with releases last unless more is refused then: so none has to be undone."""
    found = compare(requests, inputs, prune=prune, prune_labels=prune_labels)
    if not found.count("release"):
        return found
    last = compare(requests, inputs, prune=prune, prune_labels=prune_labels, release_last=True)
    return last if last.count("refuse") <= found.count("refuse") else found


@dataclass
class _Comparison:
    """The ledger with the steps so far."""

    trial: Trial

    def release(self, old: Instance) -> PlanStep:
        self.trial.leave(old.id)
        return step("release", old, why="not in the file")

    @quiet
    def shrunk(self, old: Instance, request: Request) -> PlanStep | None:
        """Return the step of an instance that stays without growing, or that cannot be changed; else None."""
        new = as_wanted(old, request)
        moves, differs = bool(request.machine) and request.machine != old.machine, changes(old, new)
        if why := fixed(old, request):
            return self._refused(old, f"{', '.join(why)}: release it and place it anew")
        if old.state != "confirmed":
            if not moves and not differs:
                return step("same", old, old.machine)
            return self._refused(old, f"{old.state}: only a confirmed instance is changed")
        if old.moving is not None:
            return self._under_way(old, request)
        return None if moves or grows(old, new) else self._in_place(old, new, request)

    def _under_way(self, old: Instance, request: Request) -> PlanStep:
        """Return the step of a moving instance, which holds two machines until its move is confirmed."""
        assert old.moving is not None
        if request.machine not in ("", old.moving.to):
            return self._refused(old, f"moving to {old.moving.to}: confirm or cancel that move first")
        there = with_arrival(old)
        new = as_wanted(there, request)
        if grows(there, new):
            return self._refused(old, f"moving to {old.moving.to}: it grows once it is confirmed there")
        if old.moving.new is not None and not changes(there, new).keys() <= {*NOT_MOVED}:
            return self._refused(
                old, f"moving to {old.moving.to} with other amounts or rules: confirm or cancel it first"
            )
        return self._changed(there, new)

    @quiet
    def grown(self, old: Instance, request: Request) -> PlanStep | None:
        """Return the step of an instance that stays on its machine; None when it has to move."""
        if request.machine and request.machine != old.machine:
            return None
        return self._in_place(old, as_wanted(old, request), request)

    @quiet
    def first_to_leave(self, left: dict[str, tuple[Instance, Request]]) -> dict[str, tuple[Instance, Request]]:
        """Return those that may have to move, first the ones that must even when the others are gone."""
        for name in left:
            self.trial.leave(name)
        stay = {
            name: request.machine in ("", old.machine) and not self._refusal(old, as_wanted(old, request), request)
            for name, (old, request) in left.items()
        }
        for old, _ in left.values():
            self.trial.put(old)
        return {name: left[name] for name in sorted(left, key=stay.__getitem__)}

    @quiet
    def moved(self, old: Instance, request: Request) -> PlanStep:
        """Return the step of an instance that moves, finds no machine, or can stay because others move."""
        new = as_wanted(old, request)
        self.trial.leave(old.id)
        named = request.machine not in ("", old.machine)
        because = "the file names the machine" if named else self._refusal(old, new, request)
        if not because:
            self.trial.put(new)
            return self._changed(old, new)
        target, why = self._best(msgspec.structs.replace(request, id=""))
        if target is None or target == old.machine:
            self.trial.put(old)
            return self._refused(old, f"{because}; {why}")
        self.trial.put(self._leaving(old))
        self.trial.move(copy_with(new, id=f"{old.id}{_ARRIVING}"), target)
        words = "; ".join(filter(None, (because, in_words(old, new))))
        return step("move", old, target, words, changes=changes(old, new))

    @quiet
    def is_alone(self, old: Instance, request: Request, step: PlanStep) -> bool:
        """Return whether a neighbour that it must have has left since its step; then take it out of the trial."""
        if step.action == "refuse" or old.state != "confirmed" or old.moving is not None:
            return False
        moves = step.action == "move"
        new = copy_with(as_wanted(old, request), id=f"{old.id}{_ARRIVING}" if moves else old.id)
        self.trial.leave(new.id)
        if is_alone(new, str(step.target), self.trial):
            return True
        if moves:
            self.trial.move(new, str(step.target))
        else:
            self.trial.put(new)
        return False

    def _leaving(self, old: Instance) -> Instance:
        """Return the part of a moving instance that remains at its source: amounts, ports, the role of a master."""
        masters = self.trial.inputs.profile.find(Masters)
        if masters is not None and old.role == masters.role:
            return copy_with(old, labels={}, rules=None)
        return copy_with(old, labels={}, rules=None, cluster="", role="")

    @quiet
    def placed(self, request: Request) -> PlanStep:
        target, why = self._best(request)
        if target is None:
            return step("refuse", request.id, why=why)
        self.trial.propose(request, target)
        return step("place", request.id, target)

    def _in_place(self, old: Instance, new: Instance, request: Request) -> PlanStep | None:
        self.trial.leave(old.id)
        refused = self._refusal(old, new, request)
        self.trial.put(old if refused else new)
        return None if refused else self._changed(old, new)

    def _changed(self, old: Instance, new: Instance) -> PlanStep:
        """Return the step of an instance that stays on its machine."""
        differs = changes(old, new)
        action: Action = "update" if only_rules(differs) else "change" if differs else "same"
        return step(action, old, old.machine, in_words(old, new), changes=differs)

    def _best(self, request: Request) -> tuple[str | None, str]:
        """Return the machine for a request, or None with the reason."""
        found = self.trial.best(request)
        if request.machine and request.machine not in self.trial.snapshot.roster.index:
            return found.machine, f"there is no machine {request.machine!r}"
        return found.machine, found.why

    def _refused(self, old: Instance, why: str) -> PlanStep:
        return step("refuse", old, old.machine, why)

    def _refusal(self, old: Instance, new: Instance, request: Request) -> str:
        """Return why an instance, taken out of the trial, must not stay on its machine; "": it may."""
        inputs = self.trial.inputs
        row = inputs.snapshot.roster.index.get(old.machine)
        if row is None:
            return f"{old.machine} is not known"
        stays = [each for each in inputs.profile.filters if not plugins.momentary(each.filter)]
        free = replace(inputs.profile, filters=tuple(each for each in stays if each not in inputs.profile.limiting))
        if why := refusal_of(request, inputs.by(free), row):
            return why
        decision = Decision(request, inputs.by(replace(free, filters=tuple(stays))), scores=False)
        # amounts that it holds already are not checked: only what grows
        return self._exceeded(of_growth(limits(decision, [row], request)[0], old, new), new)

    def _exceeded(self, limits: Sequence[Limit], new: Instance) -> str:
        """Return the reason of the first limit that an instance exceeds together with the others of its machine."""
        others = [as_held(one, new.machine) for one in self.trial.overlay.held_on(new.machine)] if limits else []
        measures = measures_in_script(new, limits)
        for limit, most in zip(limits, mosts_in_script(limits, scales_in_script(measures)), strict=True):
            if sum(adds(one, limit.measure) for one in (*others, new)) > most:
                return limit.reason
        return ""
