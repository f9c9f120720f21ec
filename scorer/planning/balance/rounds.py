"""The state kept between rounds: a machine gives instances away only after several overloaded rounds in a row.

The planner keeps it in memory.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from scorer.planning.thresholds import FORGOTTEN_S, Condition, Detectors, SideDetectors
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.snapshot.arrays import Bools


class UnderWay(NamedTuple):
    """What earlier rounds and others have begun."""

    pending: Mapping[str, str] = {}
    """Instance id to target: moves that count as made."""
    handing: Mapping[str, str] = {}
    """Instance id to the other's: exchanges of roles that count as made."""
    stay: Collection[str] = ()
    """Ids of instances that do not move."""


NOTHING = UnderWay()


def condition_of(settings: Rebalancing, every_s: float) -> Condition:
    """Return when a machine counts as abnormal, with rounds ``every_s`` apart.

    The count begins anew after five minutes without overload, or after two rounds if these take longer.
    """
    return Condition(settings.rounds_over, settings.rounds_under, settings.over_s, max(FORGOTTEN_S, 2.5 * every_s))


@dataclass
class Rounds:
    """The state of one balancer, for both rules."""

    condition: Condition
    overload: Detectors = field(default_factory=Detectors)
    thresholds: SideDetectors = field(default_factory=SideDetectors)

    def sources(self, names: tuple[str, ...], over: Bools, now_s: float) -> Bools:
        """Record which machines [M] are overloaded; return [M] those that were so in enough rounds."""
        hot = [names[m] for m in np.flatnonzero(over).tolist()]
        found = {*self.overload.abnormal(hot, self.condition, now_s)}
        self.overload.mark_normal(self.overload.by_machine.keys() - {*hot}, now_s)
        return np.array([name in found for name in names], np.bool_)
