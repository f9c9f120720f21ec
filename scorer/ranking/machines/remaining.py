"""Measured statistics less the part due to leavers: where debits meet the windows, machine by machine.

The result is bounded from below by what was measured since the last leaver's end. A shorter window shows that, and with
it the instances that came since. Those are credited to the longer window that is used, so their load would count twice.
So it is compared without what is credited:

    remaining = max(measured - debit, since - (credit of the window used - credit of the shorter one))

For instances that use what is expected, ``remaining`` and credits together are the load. With the plain ``since`` it
was up to 8 of 32 cores too high in a fleet of lives of two hours (``test_simulation.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from scorer.ledger.view.seats import by_machine
from scorer.ledger.view.slots import PlacedInstances
from scorer.ranking.estimates.debits import since_left, taken_out
from scorer.ranking.machines.machines import Machines
from scorer.snapshot.arrays import Floats
from scorer.snapshot.windows import ChosenWindows

Credit = Callable[[PlacedInstances, ChosenWindows], Floats]
"""Returns [R, K]: what each of K placed instances adds to a statistic over these windows."""


class Credited(NamedTuple):
    """The credits of a statistic."""

    each: Credit
    total: Floats
    """[R, n] What they add to it on each machine."""


def without_leavers(
    machines: Machines,
    measured: Floats,
    of: str | Floats,
    compute: Callable[[Any], Floats],
    credited: Credited | None = None,
) -> Floats:
    """Return [R, n]: a measured statistic less the part due to leavers; the same array when there are none.

    ``of``: its column of the window tables [W, R, M], or the column's name; ``compute`` gives [R, K] of K leavers;
    ``credited``: the credits that will be added to the result; None: no credits are.
    """
    fleet = machines.fleet
    if not fleet.debits or not len(fleet.seats.ledger.leavers):
        return measured
    left = fleet.seats.leavers(machines.rows)
    if not left.rows.size:
        return measured
    at, count = left.at, len(machines)
    debit = by_machine(compute(left), at, count)
    column = fleet.snapshot.column(of) if isinstance(of, str) else of
    end = fleet.snapshot.column("end")
    if machines.rows is not None:
        column, end = column[..., machines.picked], end[machines.picked]
    last = np.full(count, np.inf)
    last[at] = 0.0
    np.maximum.at(last, at, left.ended_at)
    of_window = _nothing if credited is None else _credited(machines, credited)
    since = since_left(column, end - last, fleet.snapshot.windows_s, of_window)
    return taken_out(measured, debit, since)


def _credited(machines: Machines, credited: Credited) -> Callable[[int], Floats]:
    """Return what gives [R, n] of a window's length: what it shows, and the window used has only as credit.

    Only instances that are younger than a window, or have not started, have a credit in it.
    """
    snapshot, placed = machines.fleet.snapshot, machines.fleet.seats.placed(machines.rows)
    count = len(machines)
    age_s = np.where(placed.started_at > 0.0, snapshot.column("end")[placed.rows] - placed.started_at, 0.0)

    def of_window(window_s: int) -> Floats:
        young = age_s < window_s
        own = by_machine(credited.each(placed.some(young), snapshot.windows(window_s)), placed.at[young], count)
        return np.maximum(credited.total - own, 0.0)

    return of_window


def _nothing(window_s: int) -> Floats:
    return np.zeros(1)
