"""A profile whose instances are moved while they run, by the plan of `windward rebalance`.

Every `ROUND_MINUTES` the plan is made and carried out at once. The limit is a share of the live instances an hour;
moves that a round does not use may be made within the hour.

A move costs something. The instance's memory is copied at the rate of the machines' network. Until that is done, both
machines carry its whole load, and each needs a core for the copying. The plan knows that rate and asks for a gain
above the cost (`scorer.rebalance.cost`). Where the memory is not known, an instance has `MEMORY_BYTES_PER_CORE` for
each core that it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ops.replay.policies import ROUND_MINUTES, Moment, Move
from ops.replay.workload import MINUTE_S, Workload
from ops.replay.worlds import MEMORY_BYTES_PER_CORE
from schemas.resources import CPU, MEMORY
from scorer.ranking.kept import Kept
from scorer.ranking.profile import Profile
from scorer.rebalance.candidates import Wish
from scorer.rebalance.plan import Bounds
from scorer.rebalance.world import rebalance
from scorer.snapshot.arrays import Floats

BYTES_PER_GBIT = 1e9 / 8
_AT_ONCE = 1e30


@dataclass(frozen=True, kw_only=True)
class Moving:
    """The limit of moves, the least gain, and the cost of a move."""

    share: float
    """The share of the live instances that may move in an hour."""
    gain_min: float = Bounds.gain_min
    copy_gbit: float = 10.0
    """Rate at which memory is copied, Gbit/s; 0: a move costs nothing."""

    @property
    def copy_rate(self) -> float:
        """The rate in bytes/s; infinite for moves that cost nothing."""
        return self.copy_gbit * BYTES_PER_GBIT or _AT_ONCE


class Rebalancer:
    """A mover by the plan of `windward rebalance`, called every `ROUND_MINUTES`."""

    def __init__(self, profile: Profile, moving: Moving, workload: Workload) -> None:
        self._profile, self._moving = profile, moving
        self._number = {name: number for number, name in enumerate(workload.instances)}
        self._copy_minutes = copy_minutes(workload, moving.copy_gbit)
        self._left = 0.0
        self._kept = Kept()

    def moves(self, moment: Moment) -> list[Move]:
        """Return the moves of this round."""
        hourly = self._moving.share * len(moment.ledger.instances)
        self._left = min(self._left + hourly * ROUND_MINUTES / 60, max(hourly, 1.0))
        if self._left < 1.0:
            return []
        bounds = Bounds(
            moves_max=int(self._left), gain_min=self._moving.gain_min, nic_share=1.0, nic_unknown=self._moving.copy_rate
        )
        snapshot = moment.snapshot
        plan = rebalance(snapshot, moment.ledger, self._profile, Wish(), bounds, moment.now_s, self._kept)
        self._left -= len(plan.steps)
        found = []
        for instance, step in zip(plan.instances, plan.steps, strict=True):
            number = self._number[instance.id]
            row = snapshot.roster.index[plan.machines[step.target]]
            found.append(Move(number, row, float(self._copy_minutes[number])))
        return found


def copy_minutes(workload: Workload, gbit: float) -> Floats:
    """Return [K]: the minutes that the memory of each instance takes at this rate, of the workload's; 0 at no rate."""
    if not gbit:
        return np.zeros(len(workload.instances))
    asked = workload.asked[MEMORY]
    memory = np.where(asked > 0, asked, workload.asked[CPU] * MEMORY_BYTES_PER_CORE)
    with np.errstate(over="ignore"):
        minutes: Floats = np.minimum(memory / (gbit * BYTES_PER_GBIT) / MINUTE_S, workload.minutes)
    return minutes
