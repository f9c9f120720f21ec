"""The runs of each world: the profiles, with and without moves or evictions, and the references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ops.replay.play.evictions import ByAdvice, Evicting
from ops.replay.play.moves import Moving, Rebalancer
from ops.replay.play.policies import ProfilePolicy
from ops.replay.play.references import REFERENCES, AsRecorded, KnowingBatch, ProdAlone
from ops.replay.play.roles import Evictor, Mover, Policy
from ops.replay.workload import Workload
from scorer.ranking.class_sums import by_class_filter
from scorer.ranking.profiles.profile import Profile


class Contender(NamedTuple):
    """A policy, with its moves and evictions."""

    policy: Policy
    mover: Mover | None = None
    evictor: Evictor | None = None


class Contenders:
    """The profiles, with and without moves of their instances; the baseline's are not moved, unless it is alone.

    Profiles that count by class also take part with evictions.
    In a world with batch the references are the first profile without batch, and the first one that counts by class
    with known batch: with one sum for all classes, known batch would take prod's room. The recorded placement of a
    recorded world is a reference, too.
    """

    def __init__(
        self, profiles: Sequence[Profile], baseline: str, movings: Sequence[Moving],
        evicting: Sequence[Evicting] = (),
    ) -> None:  # fmt: skip
        self._profiles, self._movings, self._evicting = profiles, movings, evicting
        self._moved = [one for one in profiles if one.name != baseline] or profiles
        self._by_class = [one for one in profiles if by_class_filter(one) is not None]

    def count(self, world: Workload) -> int:
        """Return how many there are."""
        references = 1 + bool(self._by_class) if world.lower.any() else len(REFERENCES)
        references += bool(world.placed_on.size)
        more = len(self._moved) * len(self._movings) + len(self._by_class) * len(self._evicting)
        return len(self._profiles) + more + references

    def of(self, world: Workload) -> Iterator[Contender]:
        """Yield each policy with its mover and its evictor."""
        for profile in self._profiles:
            yield Contender(ProfilePolicy(profile))
        for profile in self._moved:
            for moving in self._movings:
                name = f"{profile.name} + {100 * moving.share:g} %/h"
                yield Contender(ProfilePolicy(profile, name), Rebalancer(profile, moving, world))
        for profile in self._by_class:
            for one in self._evicting:
                evictor = ByAdvice(one.profile or profile, world, one.every_minutes)
                yield Contender(ProfilePolicy(profile, one.named(profile.name)), None, evictor)
        if world.placed_on.size:
            yield Contender(AsRecorded(world.seed))
        if world.lower.any():
            yield Contender(ProdAlone(self._profiles[0]))
            for profile in self._by_class[:1]:
                yield Contender(KnowingBatch(profile))
            return
        for kind in REFERENCES:
            yield Contender(kind(world.seed))
