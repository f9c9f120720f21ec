"""Debits: the load of instances that ended or moved away, which the windows still show.

The counterpart of credits (`scorer.ranking.estimates.credits`): a window shows an instance by the share of its filled
slots in which it ran. That share of what it used is taken out, and fades as those slots leave the window:

    debit = used * (share of the slots later than the start - share of the slots later than the end)

``used`` is its measured mean of about half an hour, from the usage by instance, if the last report is of its end. Else
it is what was expected of it. The stream app keeps the figures of ended instances for a day, longer than a window shows
them, and every scorer reads the same ones. So the ledger need not store them.

A percentile q loses all as long as that share exceeds 1 - q, a maximum as long as it is above 0. Time is measured to
the end of the machine's window, as for credits: while data is late nothing is forgotten. A standard deviation keeps
its value, and so does a day's peak: an instance that ended may start again the next day.

With its credits the result is never below what was measured since: the same statistic, with the credits of its own,
over the longest window that began after the last leaver's end. Those credits are smaller: what came since is measured
there. It is never below 0, nor above what was measured.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from scorer.ledger.view.slots import PlacedInstances
from scorer.ranking.estimates.credits import absorbed
from scorer.ranking.estimates.estimate import Estimate
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.windows import ChosenWindows

LATE_S = 180.0
"""How far the last report of an instance may be from its end: three of an agent's intervals."""


def shown_share(left: PlacedInstances, snapshot: Snapshot, windows: ChosenWindows) -> Floats:
    """Return [R, K]: in which share of the window's filled slots each of the leavers ran."""
    since_start, _ = absorbed(left, snapshot, windows)
    since_end, _ = absorbed(dataclasses.replace(left, started_at=left.ended_at), snapshot, windows)
    share: Floats = np.maximum(since_start - since_end, 0.0)
    return share


def used(estimate: Estimate, left: PlacedInstances, snapshot: Snapshot) -> Floats:
    """Return [R, K]: what each of the leavers used: as measured at its end, else as expected.

    A report counts from the start on, and within `LATE_S` of the end. A later or an earlier one may be of another
    instance with the same id, and one long before the end says too little of it.
    """
    expected = estimate.of_placed(left)
    if not snapshot.usages or not left.rows.size:
        return expected
    columns = snapshot.usages.columns
    rows = columns.index.rows(left.pairs)
    at = columns.take(columns.at, rows)
    own = (at > left.started_at) & (np.abs(at - left.ended_at) <= LATE_S)
    measured = columns.take(columns.recent, np.where(own, rows, -1))
    return np.where(np.isfinite(measured), measured, expected)


def mean_debit(estimate: Estimate, left: PlacedInstances, snapshot: Snapshot, windows: ChosenWindows) -> Floats:
    """Return [R, K]: the part of its machine's mean usage that is due to each of the leavers."""
    return used(estimate, left, snapshot) * shown_share(left, snapshot, windows)


def percentile_debit(
    estimate: Estimate, left: PlacedInstances, snapshot: Snapshot, windows: ChosenWindows, quantile: float
) -> Floats:
    """Return [R, K]: the part of a percentile (0-1) of the usage due to each leaver; quantile 1 is the maximum."""
    share = shown_share(left, snapshot, windows)
    return np.where(share > 1.0 - quantile + 1e-9, used(estimate, left, snapshot), 0.0)


def taken_out(measured: Floats, debit: Floats, since: Floats) -> Floats:
    """Return [..., n]: the measured usage less the debit, never below what was measured since; NaN stays.

    >>> taken_out(np.array([8.0, 8.0, 8.0]), np.array([3.0, 9.0, 3.0]), np.array([0.0, 2.0, 9.0])).tolist()
    [5.0, 2.0, 8.0]
    """
    least = np.minimum(measured, np.maximum(since, 0.0))
    return np.maximum(measured - debit, least)


def since_left(column: Floats, since_s: Floats, windows_s: Sequence[int], credited: Callable[[int], Floats]) -> Floats:
    """Return [R, n]: a [W, R, n] column over the longest window that began after the last end on a machine; 0 without.

    ``since_s`` [n]: how long before the end of its windows that was. ``credited`` gives [R, n]: the part of the column
    of one window that is credited to the window used.
    """
    found = np.zeros(column.shape[1:])
    for position, window_s in enumerate(windows_s):
        began = since_s >= window_s
        if began.any():
            since = column[position] - credited(window_s)
            found = np.where(began & np.isfinite(since), since, found)
    return found
