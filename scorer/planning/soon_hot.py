"""Soon hot: the chance that a machine's CPU is above a limit within the next hour, from level, spread and trend. Pure.

With the mean and std of the last hour, and the mean of the last minutes, as shares of allocatable:

    expected = mean + TREND * (recent - mean)
    margin   = (limit - expected) / sqrt((SPREAD * std)^2 + FLOOR^2)
    chance   = 1 - (1 - Q(margin))^(within_s / LOOK_S)

Q is the upper tail of the normal distribution. A rising machine comes before a falling one with the same mean and std.
A machine of high margin is safe; the list is ordered by the margin, since chances near 1 are equal.

The four figures were chosen on the earlier halves of three public traces (`tests.bench.bench_soon_hot`). They have the
least log loss at limits of 0.7 and 0.9, within 15, 30 and 60 minutes. Rejected there: the mean of the last 15 minutes
as the recent one (no better), no trend (1 % more loss), one look in the whole hour (13 % more).
"""

import numpy as np

from schemas.resources import CPU
from schemas.rpc.parameters import Risk
from scorer.ranking.formulas.overload import upper_tail
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot

LIMIT, WITHIN_S = Risk().limit, Risk().within_s
TREND, SPREAD, FLOOR = 0.25, 1.5, 0.02
LOOK_S = 900.0
"""After this time the load is independent of what it was."""


def margins(recent: Floats, mean: Floats, std: Floats, limit: float = LIMIT) -> Floats:
    """Return [M]: how many deviations the limit is above the expected load, the hottest machine lowest; NaN if unknown.

    >>> rising, falling = margins(np.array([0.6, 0.4]), np.array([0.5, 0.5]), np.array([0.1, 0.1]))
    >>> bool(rising < falling)
    True
    """
    return (limit - mean - TREND * (recent - mean)) / np.hypot(SPREAD * std, FLOOR)


def chances(margin: Floats, within_s: float = WITHIN_S) -> Floats:
    """Return [M]: the chance that the load is above the limit at some time within so many seconds.

    >>> chances(np.array([-9.0, 0.0, 9.0])).tolist()
    [1.0, 0.9375, 0.0]
    """
    return 1.0 - (1.0 - upper_tail(margin)) ** (within_s / LOOK_S)


def loads_of(snapshot: Snapshot) -> tuple[Floats, Floats, Floats]:
    """Return [M] each: recent mean, mean and std of the CPU, as shares of allocatable."""
    recent, whole = snapshot.windows(min(snapshot.windows_s, default=0)), snapshot.windows()
    inverse = snapshot.inverse_allocatable[CPU]
    return recent.mean[CPU] * inverse, whole.mean[CPU] * inverse, whole.std[CPU] * inverse
