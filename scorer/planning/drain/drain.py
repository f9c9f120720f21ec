"""Drain: the targets of all instances of some machines, so that these can be taken out of service. Pure.

The machines count as cordoned, so that none of them is a target. An instance without a target stays, and counts there
for those after it. Where some have none, all are placed once more with those first; the try that moves more counts.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from scorer.ledger.record.instance import CLUSTER, DAEMON, MOVABLE, Instance
from scorer.placement.choosing.trial import Trial
from scorer.planning.anew import Anew, place_anew
from scorer.planning.candidates import takes_pod
from scorer.ranking.filters.cordon import Cordon
from scorer.ranking.inputs import RankingInputs
from scorer.ranking.machines.machines import Machines
from scorer.ranking.profiles.profile import PlacedFilter, Profile
from scorer.snapshot.arrays import Bools


@dataclass(frozen=True)
class Drained:
    machines: tuple[str, ...]
    found: tuple[Anew, ...]
    """Every instance of the machines: in the order of the moves, then those that may not move."""
    leaving: tuple[Instance, ...] = ()
    """Instances that are moving away already."""

    @property
    def moves(self) -> list[Anew]:
        return [one for one in self.found if one.target is not None]

    @property
    def blocked(self) -> list[Anew]:
        return [one for one in self.found if one.target is None]


def drain(
    machines: Sequence[str], inputs: RankingInputs, *, same: Collection[str] = (), force: bool = False,
    lost: bool = False,
) -> Drained:  # fmt: skip
    """Return the targets of the instances of these machines, each seeing the moves before it.

    ``same``: labels whose value source and target must share. ``force``: instances with the label ``movable=false``
    move, too. ``lost``: the machines are dead, which implies ``force``; the highest classes and their masters are
    placed first.
    """
    held = {one.id: one for machine in machines for one in inputs.ledger.held_on(machine)}
    leaving = [one for one in held.values() if one.moving and one.machine in machines and one.moving.to not in machines]
    instances = [one for one in held.values() if one not in leaving]
    stays = {one.id: why for one in instances if (why := why_it_stays(one, force=force or lost))}
    free = [one for one in instances if one.id not in stays]

    def placed(first: Collection[str] = ()) -> list[Anew]:
        trial = Trial(inputs.by(with_cordon(inputs.profile)))
        trial.cordon(machines)
        condition = Apart(trial, same, _together(instances))
        return place_anew(free, trial, condition=condition, by_class=lost, first=first)

    found = placed()
    if not lost and (failed := {one.instance.id for one in found if one.target is None}):
        again = placed(failed)
        found = again if sum(one.target is None for one in again) < len(failed) else found
    found += [Anew(one, None, stays[one.id]) for one in instances if one.id in stays]
    return Drained(tuple(machines), tuple(found), tuple(leaving))


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


def with_cordon(profile: Profile) -> Profile:
    """Return the profile with the filter that keeps instances from cordoned machines."""
    if profile.find(Cordon) is not None:
        return profile
    return dataclasses.replace(profile, filters=(PlacedFilter(Cordon()), *profile.filters))


def _together(instances: Sequence[Instance]) -> frozenset[str]:
    """Return the ids of instances that share their machine with another of their cluster."""
    counts = Counter((one.machine, one.cluster) for one in instances if one.cluster)
    return frozenset(one.id for one in instances if counts[one.machine, one.cluster] > 1)


@dataclass(frozen=True)
class Apart:
    """The condition on a target: no other instance of the cluster, equal labels of ``same``, room for a pod.

    An instance that shares its machine with another of its cluster may do so again when no other target is feasible.
    """

    trial: Trial
    same: Collection[str] = ()
    together: Collection[str] = ()
    """Ids of instances that share their machine with another of their cluster."""

    def concerns(self, instance: Instance) -> bool:
        """Return whether the instance has a cluster, or ``same`` names labels."""
        return bool(self.same or instance.cluster or CLUSTER in instance.labels)

    def allowed(self, instance: Instance, machines: Machines) -> Bools:
        allowed = self.trial.sharing(instance.machine, self.same) & takes_pod(self.trial, instance)
        if instance.cluster:
            apart = allowed & (machines.tally(frozenset([("cluster", instance.cluster)])) == 0)
            if instance.id not in self.together or (apart & machines.feasible).any():
                allowed = apart
        return allowed

    def words(self, instance: Instance) -> str:
        pods = [f"a node of {instance.labels[CLUSTER]!r} for one more pod"] if CLUSTER in instance.labels else []
        parts = [f"without another instance of cluster {instance.cluster!r}"] if instance.cluster else []
        parts += [f"with the {key} of {instance.machine}" for key in self.same]
        return " and ".join(parts + pods)
