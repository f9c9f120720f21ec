"""Drain: the targets of all instances of some machines, so that these can be taken out of service. Pure.

The machines count as cordoned, so that none of them is a target. An instance that finds no machine stays, and the ones
after it see it there.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from scorer.ledger.record.instance import Instance
from scorer.ledger.view.overlay import Overlay
from scorer.ledger.view.view import LedgerView
from scorer.planning.anew import Anew, place_anew
from scorer.planning.candidates import MOVABLE
from scorer.ranking.filters.cordon import Cordon
from scorer.ranking.machines.kept import Kept
from scorer.ranking.profiles.profile import PlacedFilter, Profile
from scorer.ranking.ranking import Ranking
from scorer.snapshot.arrays import Bools
from scorer.snapshot.snapshot import Snapshot


@dataclass(frozen=True)
class Drained:
    """The plan of a drain."""

    machines: tuple[str, ...]
    found: tuple[Anew, ...]
    """Every instance of the machines: in the order of the moves, then those that may not move."""
    leaving: tuple[Instance, ...] = ()
    """Instances that are moving away already."""

    @property
    def moves(self) -> list[Anew]:
        """The instances that would move."""
        return [one for one in self.found if one.target is not None]

    @property
    def blocked(self) -> list[Anew]:
        """The instances that stay, with their reasons."""
        return [one for one in self.found if one.target is None]


def drain(
    machines: Sequence[str],
    snapshot: Snapshot,
    ledger: LedgerView,
    profile: Profile,
    now_s: float,
    *,
    same: Collection[str] = (),
    force: bool = False,
    kept: Kept | None = None,
) -> Drained:
    """Return the targets of the instances of these machines, each seeing the moves before it.

    ``same``: labels whose value source and target must share. ``force``: instances that are labelled to stay move, too.
    """
    held = {one.id: one for machine in machines for one in ledger.held_on(machine)}
    leaving = [one for one in held.values() if one.moving and one.machine in machines and one.moving.to not in machines]
    instances = [one for one in held.values() if one not in leaving]
    stays = {one.id: why for one in instances if (why := why_it_stays(one, force=force))}
    cordoned = snapshot.with_cordon(machines)
    free = [one for one in instances if one.id not in stays]
    kept = Kept() if kept is None else kept
    condition = Apart(cordoned, same, _together(instances))
    found = place_anew(free, cordoned, Overlay(ledger), with_cordon(profile), now_s, kept, condition=condition)
    found += [Anew(one, None, stays[one.id]) for one in instances if one.id in stays]
    return Drained(tuple(machines), tuple(found), tuple(leaving))


def why_it_stays(instance: Instance, *, force: bool = False) -> str:
    """Return why an instance may not be moved; "" when it may."""
    if instance.state != "confirmed":
        return f"{instance.state}: an instance moves once it is confirmed, a reservation expires or is released"
    if instance.moving is not None:
        return f"moving from {instance.machine} to {instance.moving.to}: confirm or cancel that move first"
    if instance.labels.get(MOVABLE) == "false" and not force:
        return f"its label {MOVABLE}=false says that it stays (--force moves it)"
    return ""


def with_cordon(profile: Profile) -> Profile:
    """Return the profile with the filter that keeps instances from cordoned machines."""
    if any(isinstance(each.filter, Cordon) for each in profile.filters):
        return profile
    return dataclasses.replace(profile, filters=(PlacedFilter(Cordon()), *profile.filters))


def _together(instances: Sequence[Instance]) -> frozenset[str]:
    """Return the ids of those that share their machine with another of their cluster."""
    counts = Counter((one.machine, one.cluster) for one in instances if one.cluster)
    return frozenset(one.id for one in instances if counts[one.machine, one.cluster] > 1)


@dataclass(frozen=True)
class Apart:
    """The condition on a target: it has no other instance of the cluster, and the source's labels of ``same``.

    An instance that shares its machine with another of its cluster may do so again when no other target is feasible.
    """

    snapshot: Snapshot
    same: Collection[str] = ()
    together: Collection[str] = ()
    """Ids of those that share their machine with another of their cluster."""

    def concerns(self, instance: Instance) -> bool:
        """Return whether the instance has a cluster, or ``same`` names labels."""
        return bool(self.same or instance.cluster)

    def allowed(self, instance: Instance, ranking: Ranking) -> Bools:
        """Return [M]."""
        allowed = np.ones(len(self.snapshot), np.bool_)
        row = self.snapshot.roster.index.get(instance.machine)
        for key in self.same:
            codes = ranking.machines.label(key).codes
            allowed &= codes == (-1 if row is None else codes[row])
        if instance.cluster:
            apart = allowed & (ranking.machines.tally(frozenset([("cluster", instance.cluster)])) == 0)
            if instance.id not in self.together or (apart & ranking.feasible).any():
                allowed = apart
        return allowed

    def words(self, instance: Instance) -> str:
        """Return the condition as text."""
        parts = [f"without another instance of cluster {instance.cluster!r}"] if instance.cluster else []
        parts += [f"with the {key} of {instance.machine}" for key in self.same]
        return " and ".join(parts)
