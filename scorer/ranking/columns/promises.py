"""Allocated amounts as columns: sums by machine over the amounts, limits or estimates of the placed instances."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from scorer.ranking.columns.kinds import SCORER
from scorer.ranking.machines.machines import Machines
from scorer.snapshot.arrays import Floats

_R = len(RESOURCES)
"""The models of credits and of the mean by which an instance that has not started counts with all of its usage."""


def reserved_since(machines: Machines) -> tuple[Floats, Floats] | None:
    """Return [R, 1] amounts and expected usage of what came to a single machine since its columns were made.

    None where they cannot be added to its columns: more has changed there, or what came has started. A debit of leavers
    does not change: what came adds as much to the credits of every window.
    """
    found: tuple[Floats, Floats] | None = machines.once("reserved since", lambda: _reserved_since(machines))
    return found


def _reserved_since(machines: Machines) -> tuple[Floats, Floats] | None:
    fleet, rows = machines.fleet, machines.rows
    if rows is None or rows.size != 1 or not fleet.credited or fleet.credits.model != "window":
        return None
    came = None if fleet.shelf.outdated.size else fleet.seats.came_to(int(rows[0]), fleet.shelf.position)
    if came is None or came.started_at.any():
        return None
    return came.amounts.sum(axis=1, keepdims=True), fleet.estimate.of_placed(came).sum(axis=1, keepdims=True)


def kept_of(machines: Machines, key: Hashable) -> Floats:
    """Return these machines' rows of a column as it was before they changed."""
    values: Floats = machines.fleet.shelf.derived[SCORER, key][0]
    return values[..., machines.picked]


def rows_of(column: NDArray[Any], machines: Machines) -> Any:
    """Return a copy of the rows of a [..., M] column."""
    return column.copy() if machines.rows is None else column[..., machines.picked]


def placed_sum(machines: Machines, key: Hashable, compute: Callable[[Any], Floats]) -> Floats:
    """Return [R, n]: the sum over each machine's instances of ``compute(placed) -> [R, K]``."""
    return machines.fleet.sums(key, compute, machines.rows)


def with_placed_sum(machines: Machines, measured: Floats, key: Hashable, compute: Callable[[Any], Floats]) -> Floats:
    """Return [R, n]: what was measured plus that sum; a copy while no instance is placed."""
    if machines.fleet.seats.empty:
        return measured.copy()
    return measured + placed_sum(machines, key, compute)


def estimated(machines: Machines) -> Floats:
    """Return [R, n]: sum of what the placed instances are expected to use, measured or not."""
    if (came := reserved_since(machines)) is not None:
        return kept_of(machines, "estimated") + came[1]
    return placed_sum(machines, "estimated", machines.fleet.estimate.of_placed)


def limited(machines: Machines) -> Floats:
    """Return [R, n]: sum of the limits, each at least its request."""
    return placed_sum(machines, "limited", lambda placed: np.fmax(placed.limits, placed.amounts))


def requested_or(machines: Machines, cpu: float, memory: float) -> Floats:
    """Return [R, n]: sum of the amounts, with defaults for an instance that gives no amount of cpu or of memory."""
    default = np.array([[cpu], [memory], *[[0.0]] * (_R - 2)])
    return placed_sum(
        machines, ("requested-or", cpu, memory), lambda placed: np.where(placed.missing, default, placed.amounts)
    )


def allocated_of(machines: Machines, *classes: str) -> Floats:
    """Return [R, n]: sum of the amounts of the instances of some priority classes."""
    codes = [PRIORITY_CLASSES.index(one) for one in classes]
    return placed_sum(machines, ("allocated", classes), lambda placed: placed.amounts * np.isin(placed.classes, codes))


def allocated_of_each(machines: Machines, *classes: str) -> Floats:
    """Return [R]: what one more copy of the requested instance adds to `allocated_of`."""
    return machines.requested_instance.amounts * (machines.request.priority_class in classes)
