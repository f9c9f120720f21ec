"""Drain: the targets of all instances of some machines, so that these can be taken out of service. Pure.

The machines count as cordoned, so that none of them is a target. An instance without a target stays, and counts there
for those after it. Where some have none, all are placed again, those first that had none most often; the try that moves
the most counts. Of 600 tight drains with a full plan 36 found none with one more try, 2 with five.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from schemas.resources import RESOURCES
from schemas.rpc.results import DrainLine, DrainResult, Emptying
from scorer.ledger.record.instance import DAEMON, MOVABLE, Instance
from scorer.placement.choosing.trial import Anew, Apart, Trial, class_first, place_anew, side_by_side
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.survive import largest_first, packing, with_cordon

_TRIES_MAX = 5
"""The most tries after the first one."""


def drain(
    machines: Sequence[str], inputs: RankingInputs, *, same: Collection[str] = (), force: bool = False,
    lost: bool = False,
) -> DrainResult:  # fmt: skip
    """Return the targets of the instances of these machines, each seeing the moves before it.

    ``same``: labels whose value source and target must share. ``force``: instances with the label ``movable=false``
    move, too. ``lost``: the machines are dead, which implies ``force``; the highest classes and their masters are
    placed first, with machines filled up, and clusters less apart, where only so all of them find a place.
    """
    found, leaving = anew(machines, inputs, same, force=force or lost, lost=lost)
    return drain_result(machines, found, inputs, leaving)


def anew(
    machines: Sequence[str], inputs: RankingInputs, same: Collection[str] = (), *, force: bool = False,
    lost: bool = False,
) -> tuple[list[Anew], list[Instance]]:  # fmt: skip
    """Return all instances in the order of placing, then those that may not move; and those that leave already."""
    held = {one.id: one for machine in machines for one in inputs.ledger.held_on(machine)}
    leaving = [one for one in held.values() if one.moving and one.machine in machines and one.moving.to not in machines]
    instances = [one for one in held.values() if one not in leaving]
    stays = {one.id: why for one in instances if (why := why_it_stays(one, force=force))}
    free = [one for one in instances if one.id not in stays]

    profile, together = with_cordon(inputs.profile), held.keys() if lost else side_by_side(instances)

    def placed(how: Profile, upper: Sequence[Instance], first: Mapping[str, int] | None = None) -> list[Anew]:
        """Place some in one way, the others after them."""
        trial = Trial(inputs.by(how))
        trial.cordon(machines)
        condition = Apart(trial, same, together)
        by_class, key = lost and how is profile, None if how is profile else largest_first(inputs)
        found = place_anew(upper, trial, condition=condition, by_class=by_class, first=first, key=key)
        trial.inputs, done = trial.inputs.by(profile), {one.id for one in upper}
        lower = [one for one in free if one.id not in done]
        return found + place_anew(lower, trial, condition=condition, by_class=lost)

    found = placed(profile, free)
    failures, failed = Counter[str](), _without(found)
    if lost and failed:
        found = _of_lost(free, profile, placed) or found
    for _ in range(0 if lost else _TRIES_MAX):
        most = max(failures.values(), default=0)
        if not failed or failed == {name for name, count in failures.items() if count == most}:
            break
        failures.update(failed)
        again = placed(profile, free, failures)
        failed = _without(again)
        found = min(found, again, key=lambda one: len(_without(one)))
    found += [Anew(one, None, stays[one.id]) for one in instances if one.id in stays]
    return found, leaving


def drain_result(
    machines: Sequence[str], found: Sequence[Anew], inputs: RankingInputs, leaving: Sequence[Instance] = (),
    emptying: Emptying | None = None,
) -> DrainResult:  # fmt: skip
    """Return the plan: the moves in their order, the instances that are leaving already, and those that stay."""
    lines = [msgspec.structs.replace(_line(one.instance), target=one.target, reason=one.why) for one in found]
    return DrainResult(
        drained=list(machines),
        cordoned=False,
        profile=inputs.profile.name,
        machines=len(inputs.snapshot),
        instances=len(inputs.ledger),
        moves=[one for one in lines if one.target is not None],
        moving=[
            msgspec.structs.replace(_line(one), target=one.moving.to, until=one.moving.until, move=one.moving.number)
            for one in leaving
            if one.moving
        ],
        blocked=[one for one in lines if one.target is None],
        emptying=emptying,
    )


def _line(one: Instance) -> DrainLine:
    amounts = {name: amount for name, amount in zip(RESOURCES, one.amounts, strict=True) if amount is not None}
    return DrainLine(id=one.id, generation=one.generation, source=one.machine, amounts=amounts)


def _without(found: Sequence[Anew]) -> set[str]:
    return {one.instance.id for one in found if one.target is None}


_Placed = Callable[[Profile, Sequence[Instance]], list[Anew]]


def _of_lost(free: Sequence[Instance], profile: Profile, placed: _Placed) -> list[Anew]:
    """Return the targets for which the most classes, from the highest on, are all placed; none where no class is."""
    for lowest in sorted(set(map(class_first, free)), reverse=True):
        upper = [one for one in free if class_first(one) <= lowest]
        for how in (profile, packing(profile)):
            found = placed(how, upper)
            if all(one.target for one in found[: len(upper)]):
                return found if how is profile else sorted(found, key=lambda one: class_first(one.instance))
    return []


def why_it_stays(instance: Instance, *, force: bool = False) -> str:
    """Return why an instance may not be moved; "" when it may."""
    if instance.state != "confirmed":
        return f"{instance.state}: an instance moves once it is confirmed, a reservation expires or is released"
    if instance.moving is not None:
        return f"moving from {instance.machine} to {instance.moving.to}: confirm or cancel that move first"
    if instance.labels.get(DAEMON) == "true":
        return f"its label {DAEMON}=true says that it is of its machine"
    if instance.labels.get(MOVABLE) == "false" and not force:
        return f"its label {MOVABLE}=false says that it stays (--force moves it)"
    return ""
