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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from schemas.rpc.request import Request
from scorer.ledger.record.instance import Instance, as_held, copy_with, with_arrival
from scorer.ledger.record.limits import (
    Limit,
    adds,
    measures_in_script,
    mosts_in_script,
    one_to_a_port,
    scales_in_script,
)
from scorer.placement.choosing.trial import Trial, is_alone
from scorer.placement.offers.placement import of_growth
from scorer.planning.wanted.differences import (
    NOT_MOVED,
    Action,
    Step,
    Wanted,
    as_wanted,
    changes,
    fixed,
    grows,
    in_words,
    only_rules,
)
from scorer.ranking.filters.masters import Masters
from scorer.ranking.inputs import RankingInputs, Seen, quiet
from scorer.ranking.profiles import plugins
from scorer.ranking.profiles.profile import with_rules
from scorer.ranking.rank import refusal_of

_ARRIVING = "\n"
"""The end of the id under which the draft has a moving instance on its target; no instance's id ends so."""
_PASSES = 3
"""How often an instance is looked at whose neighbour may have left after it was decided."""
_Kept = tuple[Instance, Request, Step]
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
    released = [one for one in others if _pruned(one, labels)] if prune else []
    steps = [] if release_last else [comparison.release(one) for one in released]
    left = {one.id: (ledger.instances[one.id], one) for one in requests if one.id in ledger.instances}
    kept: dict[str, _Kept] = {}
    for phase in (comparison.shrunk, comparison.grown):
        kept |= {name: (*pair, step) for name, pair in left.items() if (step := phase(*pair)) is not None}
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
    steps += [step for *_, step in kept.values()]
    steps += [comparison.placed(one) for one in requests if one.id not in ledger.instances]
    steps += [comparison.release(one) for one in released if release_last]
    found = tuple(step for step in steps if step.action != "same")
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


def _pruned(instance: Instance, labels: Mapping[str, str]) -> bool:
    return instance.state == "confirmed" and labels.items() <= instance.labels.items()


@dataclass
class _Comparison:
    """The ledger with the steps so far."""

    trial: Trial

    def release(self, old: Instance) -> Step:
        self.trial.leave(old.id)
        return Step("release", old.id, old.machine, None, "not in the file", old.generation, old=old)

    @quiet
    def shrunk(self, old: Instance, request: Request) -> Step | None:
        """Return the step of an instance that stays without growing, or that cannot be changed; else None."""
        new = as_wanted(old, request)
        moves, differs = bool(request.machine) and request.machine != old.machine, changes(old, new)
        if why := fixed(old, request):
            return self._refused(old, f"{', '.join(why)}: release it and place it anew")
        if old.state != "confirmed":
            if not moves and not differs:
                return Step("same", old.id, old.machine, old.machine)
            return self._refused(old, f"{old.state}: only a confirmed instance is changed")
        if old.moving is not None:
            return self._under_way(old, request)
        return None if moves or grows(old, new) else self._in_place(old, new, request)

    def _under_way(self, old: Instance, request: Request) -> Step:
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
    def grown(self, old: Instance, request: Request) -> Step | None:
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
    def moved(self, old: Instance, request: Request) -> Step:
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
        return Step("move", old.id, old.machine, target, words, old.generation, changes(old, new), old=old)

    @quiet
    def is_alone(self, old: Instance, request: Request, step: Step) -> bool:
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
    def placed(self, request: Request) -> Step:
        target, why = self._best(request)
        if target is None:
            return Step("refuse", request.id, None, None, why, request=request)
        self.trial.propose(request, target)
        return Step("place", request.id, None, target, "", request=request)

    def _in_place(self, old: Instance, new: Instance, request: Request) -> Step | None:
        self.trial.leave(old.id)
        refused = self._refusal(old, new, request)
        self.trial.put(old if refused else new)
        return None if refused else self._changed(old, new)

    def _changed(self, old: Instance, new: Instance) -> Step:
        """Return the step of an instance that stays on its machine."""
        differs = changes(old, new)
        action: Action = "update" if only_rules(differs) else "change" if differs else "same"
        return Step(action, old.id, old.machine, old.machine, in_words(old, new), old.generation, differs, old=old)

    def _best(self, request: Request) -> tuple[str | None, str]:
        """Return the machine for a request, or None with the reason."""
        found = self.trial.best(request)
        if request.machine and request.machine not in self.trial.snapshot.roster.index:
            return found.machine, f"there is no machine {request.machine!r}"
        return found.machine, found.why

    def _refused(self, old: Instance, why: str) -> Step:
        return Step("refuse", old.id, old.machine, old.machine, why, old.generation)

    def _refusal(self, old: Instance, new: Instance, request: Request) -> str:
        """Return why an instance, taken out of the trial, must not stay on its machine; "": it may."""
        inputs = self.trial.inputs
        row = inputs.snapshot.roster.index.get(old.machine)
        if row is None:
            return f"{old.machine} is not known"
        stays = [each for each in inputs.profile.filters if not plugins.momentary(each.filter)]
        bounded = [each for each in stays if each in inputs.profile.limiting]
        profile = replace(inputs.profile, filters=tuple(each for each in stays if each not in bounded))
        if why := refusal_of(request, inputs.by(profile), row):
            return why
        seen, limits = Seen(request, inputs), list[Limit](one_to_a_port(request.ports))
        for each in bounded:  # amounts that it holds already are not checked: only what grows
            here = seen.machines(each.load_model).take(np.array([row]))
            if plugins.wanted(each.filter, request, here):
                limits += [_of_one(limit) for limit in each.filter.limit(request, here)]
        return self._exceeded(of_growth(limits, old, new), new)

    def _exceeded(self, limits: Sequence[Limit], new: Instance) -> str:
        """Return the reason of the first limit that an instance exceeds together with the others of its machine."""
        others = [as_held(one, new.machine) for one in self.trial.overlay.held_on(new.machine)] if limits else []
        measures = measures_in_script(new, limits)
        for limit, most in zip(limits, mosts_in_script(limits, scales_in_script(measures)), strict=True):
            if sum(adds(one, limit.measure) for one in (*others, new)) > most:
                return limit.reason
        return ""


def _of_one(limit: Limit) -> Limit:
    measure, most, reason = limit
    return Limit(measure, float(most[0]), reason) if isinstance(most, np.ndarray) else limit
