"""The load as columns: what was measured, with credits and debits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from schemas.resources import PRIORITY_CLASSES, RESOURCES
from schemas.tables.window_table import PERCENTILES
from scorer.classes.class_usage import measured_usage
from scorer.ledger.view.slots import PlacedInstances
from scorer.ranking.columns.promises import kept_of, placed_sum, reserved_since, with_placed_sum
from scorer.ranking.estimates.credits import Day
from scorer.ranking.estimates.debits import mean_debit, percentile_debit
from scorer.ranking.machines.machines import Machines
from scorer.ranking.machines.remaining import Credited, without_leavers
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.usage_columns import AGE_MAX_S
from scorer.snapshot.windows import ChosenWindows

_R = len(RESOURCES)


SUMS = ("allocated", "credit", "mean", "utilization")
"""The columns that every placement changes, made together."""


def credit_each(machines: Machines, *_: Any) -> Floats:
    """Return [R]: what one more copy adds to a credited figure: all of its expected usage, nothing without credits."""
    if machines.requests_alone:
        return machines.requested_instance.amounts
    return np.zeros(_R) if machines.fleet.credits.model == "none" else machines.requested_instance.expected


def class_credit_each(machines: Machines, priority_class: str) -> Floats:
    """Return [R]: the same for the mean of one priority class."""
    return credit_each(machines) if machines.request.priority_class == priority_class else np.zeros(_R)


def sums(machines: Machines) -> Floats:
    """Return [4 R, n]: allocated, credit, mean and utilization, which every placement changes, made together."""
    fleet = machines.fleet
    if (came := reserved_since(machines)) is not None:
        amounts, expected = came
        share = expected * machines.inverse_allocatable
        added: Floats = kept_of(machines, "sums") + np.concatenate([amounts, expected, expected, share])
        return added
    found = np.empty((4, _R, len(machines)))
    allocated, credit, mean, utilization = found
    allocated[:] = fleet.seats.allocated if machines.rows is None else fleet.seats.allocated[:, machines.picked]
    measured = fleet.windows.mean if machines.rows is None else fleet.windows.mean[:, machines.picked]
    if fleet.credited:
        credit[:] = placed_sum(machines, "mean", lambda placed: fleet.credits.mean(placed, fleet.windows))
        np.add(_without_leavers_mean(machines, Credited(fleet.credits.mean, credit)), credit, out=mean)
    else:
        credit[:] = 0.0
        mean[:] = np.where(np.isnan(machines.allocatable), np.nan, allocated) if fleet.requests_alone else measured
    np.multiply(mean, machines.inverse_allocatable, out=utilization)
    return found.reshape(4 * _R, -1)


def has_load(machines: Machines) -> Bools:
    """Return [n]: whether the utilization of any resource is known; no placement changes that."""
    known = np.isfinite(machines.inverse_allocatable)
    if not machines.requests_alone:
        known &= np.isfinite(machines.measured_mean)
    found: Bools = known.any(axis=0)
    return found


def remaining_mean(machines: Machines) -> Floats:
    """Return [R, n]: the window's mean with debits and without credits."""
    return _without_leavers_mean(machines)


def _without_leavers_mean(machines: Machines, credited: Credited | None = None) -> Floats:
    """Return the same, before what is ``credited`` is added."""
    fleet = machines.fleet
    measured = machines.measured_mean
    if not fleet.credited:
        return measured
    return without_leavers(
        machines,
        measured,
        "mean",
        lambda left: mean_debit(fleet.estimate, left, fleet.snapshot, fleet.windows),
        credited,
    )


def debit(machines: Machines) -> Floats:
    """Return [R, n]: what debits subtract from the mean; NaN where that is unknown."""
    if not machines.fleet.debits:
        return np.zeros((_R, len(machines)))
    found: Floats = debit_of(machines.measured_mean, machines.credit, machines.mean, np.maximum)
    return found


def debit_of(measured: Any, credit: Any, mean: Any, larger: Callable[[Any, float], Any]) -> Any:
    """Return what is missing from measured mean and credit in a window's mean; arrays, or numbers with ``max``."""
    return larger(measured + credit - mean, 0.0)


def picked(machines: Machines, name: str) -> Floats:
    """Return a column of the window tables [..., R, n] at the windows used."""
    fleet = machines.fleet
    return fleet.snapshot.picked(name, fleet.windows)


def statistic(machines: Machines, name: str, measured: Floats, quantile: float, column: Floats) -> Floats:
    """Return [R, n]: a measured statistic with its credits and debits; ``column`` [W, R, M] has it over all windows."""
    fleet = machines.fleet
    if fleet.requests_alone:
        return machines.mean
    if not fleet.credited:
        return measured

    def credit(placed: PlacedInstances, windows: ChosenWindows) -> Floats:
        return fleet.credits.percentile(placed, windows, quantile)

    added = placed_sum(machines, name, lambda placed: credit(placed, fleet.windows))
    measured = without_leavers(
        machines,
        measured,
        column,
        lambda left: percentile_debit(fleet.estimate, left, fleet.snapshot, fleet.windows, quantile),
        Credited(credit, added),
    )
    return measured + added


def largest(machines: Machines) -> Floats:
    """Return [R, n]: the largest reading, with credits."""
    return statistic(machines, "max", machines.column("picked", "max"), 1.0, machines.fleet.snapshot.column("max"))


def percentile(machines: Machines, percent: int) -> Floats:
    """Return [R, n]: a percentile of the slot means, with credits."""
    place = PERCENTILES.index(percent)
    measured = machines.column("picked", "percentile")[:, place]
    column = machines.fleet.snapshot.column("percentile")[:, :, place]
    return statistic(machines, f"p{percent}", measured, percent / 100, column)


def class_mean(machines: Machines, priority_class: str) -> Floats:
    """Return [R, n]: mean usage by the instances of one priority class, with credits; NaN where not measured.

    Where the samples split usage by class, that is used. Elsewhere it is the sum over the instances that the ledger has
    in the class. An instance that is not measured counts with its expected usage; with credits ``koordinator-pending``,
    as for the peer, only while it is pending.
    """
    split = _split_by_samples(machines, priority_class)
    if not np.isnan(split).any():
        return split
    return np.where(np.isnan(split), _sum_of_instances(machines, priority_class), split)


def _sum_of_instances(machines: Machines, priority_class: str) -> Floats:
    """Return [R, n]: the sum over a class; NaN where an instance has run for long and no report is current.

    An agent reports only when it has instances: a machine without any of the class uses nothing for it.
    """
    fleet, code = machines.fleet, PRIORITY_CLASSES.index(priority_class)
    at = fleet.snapshot.column("at")

    def used(placed: PlacedInstances) -> Floats:
        found = measured_usage(fleet.snapshot, placed)
        if fleet.credits.model == "koordinator-pending":
            credit = fleet.credits.mean(placed, fleet.windows)
            pending: Floats = (np.nan_to_num(found) + credit) * (placed.classes == code)
            return pending
        expected = fleet.estimate.of_placed(placed) if fleet.credited else 0.0
        each: Floats = np.where(np.isnan(found), expected, found) * (placed.classes == code)
        return each

    def settled(placed: PlacedInstances) -> Floats:
        long = (placed.started_at > 0) & (at[placed.rows] - placed.started_at >= AGE_MAX_S)
        return np.tile(long & (placed.classes == code), (_R, 1)).astype(np.float64)

    known = machines.has_report | (machines.has_data & (placed_sum(machines, ("settled", code), settled) == 0))
    found: Floats = np.where(known, placed_sum(machines, ("used", code), used), np.nan)
    return found


def _split_by_samples(machines: Machines, priority_class: str) -> Floats:
    fleet, code = machines.fleet, PRIORITY_CLASSES.index(priority_class)
    measured: Floats = machines.column("picked", "class_mean")[code]
    if not fleet.credited:
        return measured

    def credit(placed: PlacedInstances, windows: ChosenWindows) -> Floats:
        found: Floats = fleet.credits.mean(placed, windows) * (placed.classes == code)
        return found

    added = placed_sum(machines, ("class", code), lambda placed: credit(placed, fleet.windows))
    measured = without_leavers(
        machines,
        measured,
        fleet.snapshot.column("class_mean")[code],
        lambda left: mean_debit(fleet.estimate, left, fleet.snapshot, fleet.windows) * (left.classes == code),
        Credited(credit, added),
    )
    return measured + added


def peaks(machines: Machines, *days: Day) -> Floats:
    """Return [D, R, n]: the highest one-minute mean of each of D days, with credits."""
    fleet = machines.fleet
    if (came := reserved_since(machines)) is not None:
        return kept_of(machines, ("peaks", *days)) + came[1]
    measured: Floats = machines.column("measured_peaks", *(name for name, _, _ in days))
    if not fleet.credited:
        return measured

    def credit(placed: PlacedInstances) -> Floats:
        each = (fleet.credits.peak(placed, day) for day in days)
        return np.concatenate(list(each))

    flat = measured.reshape(len(days) * _R, -1)
    return with_placed_sum(machines, flat, ("peaks", days), credit).reshape(measured.shape)


def std(machines: Machines) -> Floats:
    """Return [R, n]: the population standard deviation, as measured."""
    fleet = machines.fleet
    return np.zeros((_R, len(fleet))) if fleet.requests_alone else fleet.windows.std


def shortest_mean(machines: Machines) -> Floats:
    """Return [R, n]: the mean over the shortest window of the tables, as measured."""
    return machines.fleet.snapshot.window("mean", 0)
