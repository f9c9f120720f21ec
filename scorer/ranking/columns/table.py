"""The table of columns: every column that plugins can read, and how it is made.

Every usage figure includes the credits and, where the profile says so, the debits, so no plugin can forget them. A
figure without them is named so (``measured_mean``). R resources in the order of `schemas.resources`, n machines.

Chosen: one table read by `Machines`. Rejected: a property of the fleet and one of the machines for each column: 22
columns were written twice, and 34 places tested whether there are rows or copies.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scorer.classes import reclaimed
from scorer.classes.class_usage import reported
from scorer.ranking.columns import load, promises
from scorer.ranking.columns.kinds import Fixed, Made, Overall, Part, Placed
from scorer.ranking.machines.machines import Column, Machines


def _all_true(machines: Machines) -> NDArray[np.bool_]:
    all_true = np.ones(len(machines), np.bool_)
    all_true.flags.writeable = False
    return all_true


COLUMNS: Mapping[str, Column] = {
    # ---- the requested instance, [R]
    "amounts": Made(lambda m: m.requested_instance.amounts),  # what it requests
    "expected": Made(lambda m: m.requested_instance.expected),  # what it is expected to use
    "limits": Made(lambda m: m.requested_instance.limits),  # its limits, at least its request
    "facets": Made(lambda m: m.requested_instance.facets),  # what it would be counted by
    # ---- what the machine has, [R, n]
    "capacity": Fixed(lambda m: m.fleet.snapshot.capacity),  # NaN where unknown
    "allocatable": Fixed(lambda m: m.fleet.snapshot.allocatable),  # what may be used: the one basis; NaN where unknown
    "inverse_allocatable": Fixed(lambda m: m.fleet.snapshot.inverse_allocatable),  # NaN where unknown or 0
    # ---- allocated, [R, n] or [n]
    "sums": Placed(load.sums),  # [4 R, n] all of `load.SUMS`, without copies
    "allocated": Part(0, lambda m: m.requested_instance.amounts),  # sum of the amounts
    "allocated_of": Placed(promises.allocated_of, promises.allocated_of_each),  # by some priority classes
    "requested_or": Placed(promises.requested_or, lambda m, cpu, memory: m.requested_instance.amounts_or(cpu, memory)),
    "limited": Placed(promises.limited, lambda m: m.requested_instance.limits),  # sum of the limits
    "estimated": Placed(promises.estimated, lambda m: m.requested_instance.expected),  # expected of all placed
    "maxmemory": Placed(lambda m: promises.rows_of(m.fleet.seats.maxmemory, m), lambda m: float(m.request.maxmemory)),
    "count": Placed(lambda m: promises.rows_of(m.fleet.seats.count, m), lambda m: 1),  # instances placed
    # ---- load with credits, [R, n]; NaN without data
    "credit": Part(1, load.credit_each),  # what is expected of placed instances and not in the mean yet
    "debit": Made(load.debit),  # what ended or moved away is taken out of the mean; nothing where a profile does not
    "mean": Part(2, load.credit_each),
    "utilization": Part(3, instead=lambda m: m.mean * m.inverse_allocatable),  # mean / allocatable
    "max": Placed(load.largest, load.credit_each),  # largest reading
    "percentile": Placed(load.percentile, load.credit_each),
    "class_mean": Placed(load.class_mean, load.class_credit_each),
    "peaks": Placed(load.peaks, load.credit_each),  # [D, R, n] of D days
    "remaining_mean": Made(load.remaining_mean),  # with debits, without credits
    "taken": Made(lambda m: np.maximum(m.allocated, m.mean)),  # the larger of promised and used
    # ---- over-commit by class (`scorer.classes.reclaimed`)
    "of_classes": Placed(reclaimed.of_classes),  # [5, C, R, n] what instances of each class ask for and use
    "has_report": Fixed(lambda m: reported(m.fleet.snapshot)),  # [n] whether a current report of its instances is there
    "system_usage": Fixed(reclaimed.system),  # [R, n] beside all instances, as measured; NaN where it is not
    "usage_reported": Fixed(reclaimed.reported),  # [R, n] of system and instances, as its last report has it
    "ended_lower": Placed(reclaimed.ended),  # [R, n] what that report still has of batch and free that ended
    "predicted": Fixed(reclaimed.predicted),  # [2, R, n] peaks of prod and of the system; NaN where there are none
    "usage_peak": Fixed(reclaimed.highest),  # [R, n] the usage that is rarely exceeded
    # ---- load as measured, [R, n]
    "measured_mean": Fixed(lambda m: m.fleet.windows.mean),
    "measured_peaks": Fixed(  # [D, R, n] of D days
        lambda m, *days: np.stack([m.fleet.snapshot.column(f"peak_{day}") for day in days])
    ),
    "shortest_mean": Fixed(load.shortest_mean),  # over the shortest window there is
    "std": Fixed(load.std),  # population standard deviation
    "deviation": Fixed(lambda m: m.std * m.inverse_allocatable, mended=True),  # std / allocatable
    "picked": Fixed(load.picked),  # any other column of the window tables, at the windows used
    # ---- data, [n]
    "has_data": Fixed(lambda m: m.fleet.snapshot.has_data),  # any sample was ever seen
    "has_load": Fixed(load.has_load, mended=True),  # utilization of any resource is known
    "seen_at": Fixed(lambda m: m.fleet.snapshot.seen_at),  # event time of the newest sample; -inf without data
    "age_s": Made(lambda m: m.now_s - m.seen_at),  # +inf without data
    "interval_s": Fixed(lambda m: m.fleet.snapshot.column("interval_s")),  # how often it publishes
    "window_s": Fixed(lambda m: m.fleet.windows.window_s),  # length of the window used
    "coverage": Fixed(lambda m: m.fleet.windows.coverage),  # filled share of that window
    "warming": Fixed(lambda m: m.fleet.windows.warming),  # it is less than half covered
    # ---- facts, [n]
    "cordon": Fixed(lambda m: m.rules.cordon),  # taken out by an operator
    "all_true": Fixed(_all_true),  # what a filter that refuses no machine may return, at no cost
    # ---- of the whole fleet, plain numbers, [R] or one
    "all_have_load": Overall(lambda m: bool(m.has_load.all()), fixed=True),
    "busiest": Overall(lambda m: m.utilization.max(axis=1, initial=0.0).tolist()),  # NaN where any is unknown
    "busiest_known": Overall(lambda m: np.fmax.reduce(m.utilization, axis=1, initial=0.0).tolist()),
    "smallest": Overall(  # 1 / allocatable of the smallest machine; 0 where none is known
        lambda m: np.fmax.reduce(m.inverse_allocatable, axis=1, initial=0.0).tolist(), fixed=True
    ),
}
