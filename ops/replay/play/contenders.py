"""The runs of each world: the profiles, with and without moves or evictions, and the references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ops.replay.play.moves import ByAdvice, Evicting, Moving, Rebalancer
from ops.replay.play.policies import ProfilePolicy
from ops.replay.play.references import PARTS, REFERENCES, AsRecorded, KnowingBatch, ProdAlone, Told, told
from ops.replay.play.roles import Evictor, Mover, Policy
from ops.replay.workload import Workload
from scorer.ranking.class_sums import by_class_filter
from scorer.ranking.profiles.profile import Profile


class Contender(NamedTuple):
    """A policy, with its moves and evictions."""

    policy: Policy
    mover: Mover | None = None
    evictor: Evictor | None = None
    world: Workload | None = None
    """The world in which it takes part, if it is told more than the others."""


def contenders(
    world: Workload,
    profiles: Sequence[Profile],
    baseline: str,
    movings: Sequence[Moving],
    evicting: Sequence[Evicting] = (),
    *,
    oracles: bool = False,
) -> list[Contender]:
    """Return the profiles, with and without moves of their instances; the baseline's are not moved, unless it is alone.

    Profiles that count by class also take part with evictions.
    In a world with batch the references are the first profile without batch, and the first one that counts by class
    with known batch: with one sum for all classes, known batch would take prod's room. The recorded placement of a
    recorded world is a reference, too. ``oracles``: and what each part of an oracle's knowledge is worth, in a world
    without batch.
    """
    found = [Contender(ProfilePolicy(profile)) for profile in profiles]
    for profile in [one for one in profiles if one.name != baseline] or profiles:
        for moving in movings:
            name = f"{profile.name} + {100 * moving.share:g} %/h"
            found.append(Contender(ProfilePolicy(profile, name), Rebalancer(profile, moving, world)))
    by_class = [one for one in profiles if by_class_filter(one) is not None]
    for profile in by_class:
        for one in evicting:
            evictor = ByAdvice(one.profile or profile, world, one.every_minutes)
            found.append(Contender(ProfilePolicy(profile, one.named(profile.name)), None, evictor))
    if world.placed_on.size:
        found.append(Contender(AsRecorded(world.seed)))
    if not world.lower.any():
        if oracles:
            profile = next((one for one in profiles if one.name != baseline), profiles[0])
            found.append(Contender(Told(profile), world=told(world)))
        return [*found, *(Contender(kind(world.seed)) for kind in (*REFERENCES, *(PARTS if oracles else ())))]
    return [*found, Contender(ProdAlone(profiles[0])), *(Contender(KnowingBatch(one)) for one in by_class[:1])]
