"""The usage of instances, measured on their machines where known, else as expected. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schemas.tables.instance_table import FIRST, pair_name
from scorer.ledger.record.instance import Instance
from scorer.snapshot.arrays import Bools, Floats, Integers
from scorer.snapshot.usages import Usages

RECENT = 0.8
"""Weight of the mean of the last half hour in the usage; the rest is that of the mean of a day."""
COUNT_MIN = 6
"""The least number of reports of a figure that is used: the first minutes of an instance are not typical."""
AGE_MAX_S = 600.0
"""The largest age of a figure that is used, s."""


def measured(
    usages: Usages, instances: Sequence[Instance], expected: Floats, variance: Floats, now_s: float
) -> tuple[Floats, Floats, Bools]:
    """Return usage and variance [R, N] of instances, measured where that is known, and [N] whether it is.

    The usage is ``0.8 recent + 0.2 daily``, or the one that is known. Other instances keep the expected usage.
    """
    usage, spread = expected.copy(), variance.copy()
    newest = np.full(len(instances), now_s - AGE_MAX_S)
    names = [pair_name(one.machine, one.id) for one in instances]
    for table in usages.tables:  # an instance is in two while the topic has just got more partitions
        at, count, recent = (table.column(name) for name in ("at", "count", "recent"))
        if at is None or count is None or recent is None:
            continue
        rows = np.array([-1 if (row := table.row(name)) is None else row for name in names], np.int64)
        there = np.flatnonzero(rows >= 0)
        there = there[(count[rows[there]] >= COUNT_MIN) & (at[rows[there]] > newest[there])]
        newest[there] = at[rows[there]]
        daily, own = table.column("daily"), table.column("variance")
        _take(
            usage,
            there,
            _mean(recent[:, rows[there]], recent[:, rows[there]] if daily is None else daily[:, rows[there]]),
        )
        if own is not None:
            _take(spread[:FIRST], there, own[:FIRST, rows[there]])
    return usage, spread, newest > now_s - AGE_MAX_S


def _mean(recent: Floats, daily: Floats) -> Floats:
    both: Floats = RECENT * recent + (1 - RECENT) * daily
    return np.where(np.isfinite(both), both, np.where(np.isfinite(recent), recent, daily))


def _take(into: Floats, places: Integers, values: Floats) -> None:
    rows = len(into)
    into[:, places] = np.where(np.isfinite(values[:rows]), values[:rows], into[:, places])
