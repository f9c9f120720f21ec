"""The state kept between rounds: a machine gives instances away only after several rounds over in a row."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scorer.planning.thresholds.anomaly import FORGOTTEN_S, Condition, Detectors, SideDetectors
from scorer.ranking.profiles.rebalance_section import Rebalancing
from scorer.snapshot.arrays import Bools


def condition_of(settings: Rebalancing, every_s: float) -> Condition:
    """Return when a machine counts as abnormal, with rounds ``every_s`` apart.

    A machine that was not over for five minutes, or for two rounds where those are longer, begins anew.
    """
    return Condition(settings.rounds_over, settings.rounds_under, settings.over_s, max(FORGOTTEN_S, 2.5 * every_s))


@dataclass
class Rounds:
    """The state of one balancer, for both rules."""

    condition: Condition
    overload: Detectors = field(default_factory=Detectors)
    thresholds: SideDetectors = field(default_factory=SideDetectors)

    def sources(self, names: tuple[str, ...], over: Bools, now_s: float) -> Bools:
        """Note which machines [M] are over; return [M] those that were over in enough rounds."""
        hot = [names[m] for m in np.flatnonzero(over).tolist()]
        found = {*self.overload.abnormal(hot, self.condition, now_s)}
        self.overload.mark_normal(self.overload.by_machine.keys() - {*hot}, now_s)
        return np.array([name in found for name in names], np.bool_)
