"""What is run in each world: the profiles, those of them with moves, and the references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ops.replay.policies import Mover, Policy, ProfilePolicy
from ops.replay.rebalancing import Moving, Rebalancer
from ops.replay.references import REFERENCES, AsRecorded
from ops.replay.workload import Workload
from scorer.ranking.profile import Profile


class Contenders:
    """Profiles, and how many of their instances are moved; the baseline's are not, unless it is alone."""

    def __init__(
        self, profiles: Sequence[Profile], baseline: str, movings: Sequence[Moving], *, recorded: bool = False
    ) -> None:
        """``recorded``: the worlds know where their instances really were."""
        self._profiles, self._movings = profiles, movings
        self._references = (AsRecorded, *REFERENCES) if recorded else REFERENCES
        self._moved = [one for one in profiles if one.name != baseline] or profiles

    def __len__(self) -> int:
        return len(self._profiles) + len(self._moved) * len(self._movings) + len(self._references)

    def of(self, world: Workload) -> Iterator[tuple[Policy, Mover | None]]:
        """Yield each with what moves its instances."""
        for profile in self._profiles:
            yield ProfilePolicy(profile), None
        for profile in self._moved:
            for moving in self._movings:
                name = f"{profile.name} + {100 * moving.share:g} %/h"
                yield ProfilePolicy(profile, name), Rebalancer(profile, moving, world)
        for kind in self._references:
            yield kind(world.seed), None
