"""Evictions for higher classes, by the plan of `windward drain --evict`.

Every ``every_minutes`` the plan is made for all machines and carried out at once. An evicted instance goes back to the
queue, and the profile places it again. Its work is lost, so its whole life begins anew.
"""

from __future__ import annotations

from typing import NamedTuple

from ops.replay.play.roles import Moment
from ops.replay.workload import Workload
from scorer.planning.drain.evicting import evicting
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.tables import Tables


class Evicting(NamedTuple):
    """How often the plan is carried out, and by which profile's sums."""

    every_minutes: int
    profile: Profile | None = None
    """None: each profile's own. One with a larger share evicts less: instances slightly above their sum stay."""

    def named(self, name: str) -> str:
        """Return the name of a profile with these evictions."""
        by = f" by {self.profile.name}" if self.profile is not None else ""
        return f"{name}, evict {self.every_minutes} min{by}"


class ByAdvice:
    """Evicts as `windward drain --evict` advises for a profile with sums by class."""

    def __init__(self, profile: Profile, workload: Workload, every_minutes: int) -> None:
        self.every_minutes = every_minutes
        self._profile = profile
        self._number = {name: number for number, name in enumerate(workload.instances)}

    def evictions(self, moment: Moment) -> list[int]:
        """Return all advised evictions."""
        most = max(len(moment.ledger.instances), 1)
        advice = evicting(moment.inputs(self._profile, Tables()), evictions_max=most)
        return [] if advice is None else [self._number[one.instance.id] for one in advice.evicted]
