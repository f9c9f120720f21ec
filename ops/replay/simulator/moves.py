"""A profile whose instances are moved while they run, by the plan of `windward rebalance`.

Every `ROUND_MINUTES` the plan is made by the settings of the profile's ``[rebalance]``, and carried out at once. Four
of them do not hold. ``rule``: each plan is by expected overload, since a world without memory has none by thresholds.
``moves_max`` and ``hour_max``: the limit is a share of the live instances an hour; moves that a round does not use may
be made within the hour. ``nic_share``: the lab has a rate of its own.

A move costs something. The instance's memory is copied at that rate. Until that is done, both machines carry its whole
load, and each needs a core for the copying. The plan requires a gain above the cost (`part_of_gain`),
at the same rate, or at that of the machines' NICs where a recording has their capacity. Where the memory is not known,
an instance has `UNKNOWN_MEMORY` for each core that it asks for.
"""

from dataclasses import dataclass, replace

import numpy as np

from ops.replay.simulator.interfaces import Exchange, Moment, Move
from ops.replay.workload import MINUTE_S, Workload
from schemas.resources import CPU, MEMORY
from scorer.planning.balance.repair import by_overload
from scorer.planning.balance.tentative import memory_of
from scorer.planning.drain.evicting import evicting
from scorer.ranking.inputs import Tables
from scorer.ranking.profiles.profile import Profile
from scorer.ranking.profiles.rebalance_section import COUNT_MAX
from scorer.snapshot.arrays import Floats

ROUND_MINUTES = 10
BYTES_PER_GBIT = 1e9 / 8
_AT_ONCE = 1e30


@dataclass(frozen=True, kw_only=True)
class Moving:
    """The limit of moves, their least gain, and the cost of a move."""

    share: float
    """The share of the live instances that may move in an hour."""
    gain_min: float | None = None
    """In place of the profile's; None: the profile's."""
    copy_gbit: float = 10.0
    """Rate at which memory is copied, Gbit/s; 0: a move costs nothing."""

    @property
    def copy_rate(self) -> float:
        """The rate in bytes/s; 1e30 for moves that cost nothing."""
        return self.copy_gbit * BYTES_PER_GBIT or _AT_ONCE


class Rebalancer:
    """A changer by the plan of `windward rebalance`."""

    every_minutes = ROUND_MINUTES

    def __init__(self, profile: Profile, moving: Moving, workload: Workload) -> None:
        given = {} if moving.gain_min is None else {"gain_min": moving.gain_min}
        self._settings = profile.rebalance.with_given({**given, "hour_max": 0.0, "nic_share": 1.0})
        self._profile, self._moving = profile, moving
        self._number = {name: number for number, name in enumerate(workload.instances)}
        self._copy_minutes = copy_minutes(workload, moving.copy_gbit)
        self._left = 0.0
        self._tables = Tables()

    def changes(self, moment: Moment) -> list[Exchange | Move]:
        hourly = self._moving.share * len(moment.ledger.instances)
        self._left = min(self._left + hourly * ROUND_MINUTES / 60, max(hourly, 1.0))
        most, roles = min(int(self._left), COUNT_MAX), self._settings.roles
        if not most and not roles:
            return []
        settings = replace(self._settings, moves_max=max(most, self._settings.moves_max if roles else 1))
        inputs = moment.inputs(replace(self._profile, rebalance=settings), self._tables)
        plan, snapshot = by_overload(inputs, nic_unknown=self._moving.copy_rate), moment.snapshot
        moves = [one for one in plan.moves if one.target][:most]
        self._left -= len(moves)
        found: list[Exchange | Move] = [
            Exchange(self._number[one.id], self._number[one.swap_role_with]) for one in plan.moves if one.swap_role_with
        ]
        for one in moves:
            number = self._number[one.id]
            found.append(Move(number, snapshot.roster.index[str(one.target)], float(self._copy_minutes[number])))
        return found


def copy_minutes(workload: Workload, gbit: float) -> Floats:
    """Return [K]: the minutes to copy each instance's memory at this rate, at most the workload's; 0 at no rate."""
    if not gbit:
        return np.zeros(len(workload.instances))
    memory = memory_of(workload.asked[MEMORY], workload.asked[CPU])
    with np.errstate(over="ignore"):
        minutes: Floats = np.minimum(memory / (gbit * BYTES_PER_GBIT) / MINUTE_S, workload.minutes)
    return minutes


class ByAdvice:
    """Evicts the instances that `windward drain --evict` names for a profile with sums by class."""

    def __init__(self, profile: Profile, workload: Workload, every_minutes: int) -> None:
        self.every_minutes = every_minutes
        self._profile = profile
        self._number = {name: number for number, name in enumerate(workload.instances)}

    def changes(self, moment: Moment) -> list[int]:
        most = max(len(moment.ledger.instances), 1)
        advice = evicting(moment.inputs(self._profile, Tables()), evictions_max=most)
        return [] if advice is None else [self._number[one.instance.id] for one in advice.evicted]
