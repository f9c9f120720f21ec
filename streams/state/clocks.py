"""The machines whose clock is far from the broker's. Pure.

The fold corrects the learned offset of a clock up to `SKEW_MAX_S`. Beyond that, messages of a machine ahead are
refused, and a machine behind looks stale; both are named here. A clock stays off by the same time; a backlog that is
sent after a broker's return shrinks with each message. So only an offset that stays within `SKEW_MAX_S` for `STEADY_S`
is due to the clock.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.fold.fold import SKEW_MAX_S

STEADY_S = 15.0
"""Two samples at the shortest interval, and more than a backlog takes."""

MOST = 100
KEPT_S = 900.0
"""At most so many machines are known, each for so long after its last message."""


class _Off(NamedTuple):
    ahead_s: float
    since: float
    """Record time of the first message that was so far off."""
    at: float
    """Record time of the last message."""


class Clocks:
    """The machines of a partition whose messages are further than `SKEW_MAX_S` from their record times."""

    def __init__(self) -> None:
        self._off: dict[str, _Off] = {}

    def note(self, machines: Sequence[str], ahead_s: NDArray[np.float64], recorded_at: NDArray[np.float64]) -> None:
        """Record the ends of samples less their record times. A sample near its record time clears a machine."""
        wrong = np.abs(ahead_s) > SKEW_MAX_S
        for place in np.flatnonzero(wrong).tolist():
            self.note_one(machines[place], float(ahead_s[place]), float(recorded_at[place]))
        if self._off and not wrong.all():
            for machine in self._off.keys() & {machines[place] for place in np.flatnonzero(~wrong).tolist()}:
                del self._off[machine]

    def note_one(self, machine: str, ahead_s: float, recorded_at: float) -> None:
        """Record one message that is too far from its record time."""
        known = self._off.get(machine)
        if known is not None and abs(ahead_s - known.ahead_s) <= SKEW_MAX_S:
            self._off[machine] = known._replace(at=recorded_at)
        elif known is not None or len(self._off) < MOST:
            self._off[machine] = _Off(ahead_s, recorded_at, recorded_at)

    def off(self, now_s: float) -> dict[str, float]:
        """Return how far the clock of each such machine is ahead of the broker's, s; drop machines that are silent.

        >>> clocks = Clocks()
        >>> for at in (1000.0, 1010.0, 1020.0):
        ...     clocks.note_one("late", -60.0, at)
        ...     clocks.note_one("backlog", at - 2000.0, at)
        >>> clocks.off(1020.0)
        {'late': -60.0}
        """
        self._off = {machine: one for machine, one in self._off.items() if one.at > now_s - KEPT_S}
        return {machine: one.ahead_s for machine, one in self._off.items() if one.at - one.since >= STEADY_S}
