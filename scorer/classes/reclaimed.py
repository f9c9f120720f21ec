"""The limits of lower classes on each machine, from measured load and the ledger, as a decision sees them.

A machine's figures depend on that machine alone. Instances of mid and prod that were added since the last report count
at once, with their requests. The amounts of batch and free do not change what these classes may have.
"""

from typing import Any, NamedTuple

import numpy as np

from schemas.resources import CPU
from schemas.tables.window_table import PERCENTILES
from scorer.classes.capacity import batch, batch_takings, mid, unused
from scorer.classes.prediction import Peaks
from scorer.classes.strategy import Reclaim, Uses, uses_from
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.snapshot import Snapshot

GROUPS = {"prod": ("prod",), "mid": ("mid",), "batch": ("batch",), "free": ("batch", "free")}
"""The classes whose amounts are added up with those of a class: free may use the rest of batch."""


def highest(snapshot: Snapshot) -> Floats:
    """Return [R, n]: the usage that is rarely exceeded: the day's peak, or a high percentile of the longest window.

    The percentile is 95 for cpu and 99 for other resources; the larger of both days' peaks and the
    percentile. NaN without data.
    """
    found = np.fmax(snapshot.column("peak_today"), snapshot.column("peak_yesterday"))
    if not snapshot.windows_s:
        return found
    percentiles = snapshot.window("percentile", len(snapshot.windows_s) - 1)
    last = percentiles[:, PERCENTILES.index(99)].copy()
    last[CPU] = percentiles[CPU, PERCENTILES.index(95)]
    highest: Floats = np.fmax(found, last)
    return highest


def predicted(snapshot: Snapshot) -> Floats:
    """Return [2, R, n]: the predicted peaks of prod and of the system; NaN where nothing is predicted."""
    found = np.full((2, *snapshot.capacity.shape), np.nan)
    if snapshot.predicted is not None:
        shares = Peaks(snapshot.predicted).of(snapshot.roster, snapshot.seen_at)
        found[:, : shares.shape[1]] = shares * snapshot.capacity[: shares.shape[1]]
    return found


class _Counted(NamedTuple):
    """The inputs of the rules: sums over instances, and figures of the machines, [R, n] each."""

    sums: Uses
    capacity: Floats
    reserved: Floats
    system: Floats
    usage: Floats


def _counted(machines: Any) -> _Counted:
    """Return the sums and figures of these machines.

    The system's usage is what the agent reports for it, plus the usage of ids that the ledger does not have. Without
    a report it is the machine's usage less that of its instances. Usage that is not measured by instance then counts
    against batch, even where an instance of batch caused it.
    """
    sums, usage = uses_from(machines.of_classes), machines.remaining_mean
    by_report = machines.usage_reported - sums.measured - machines.ended_lower
    beyond = np.where(np.isnan(by_report), usage - sums.measured - sums.unmeasured, by_report)
    system = np.where(np.isnan(beyond), np.nan, np.fmax(machines.system_usage, np.maximum(beyond, 0.0)))
    reserved = np.maximum(machines.capacity - machines.allocatable, 0.0)
    return _Counted(sums, machines.capacity, reserved, system, usage)


def _peaks(machines: Any, sums: Uses) -> tuple[Floats, Floats, Bools]:
    """Return the peaks of prod and of the system, and which are predicted.

    Where none is predicted, prod's is the machine's peak of the day less the usage of lower classes.
    """
    prod, system = machines.predicted
    predicted = ~(np.isnan(prod) | np.isnan(system))
    prod = np.where(predicted, prod, np.maximum(machines.usage_peak - sums.below_prod, 0.0))
    return prod, np.where(predicted, system, 0.0), predicted


def reclaimable(machines: Any, strategy: Reclaim, priority_class: str) -> Floats:
    """Return [R, n]: the limit of a class below prod; 0 where a resource is not sold by class, or its usage unknown."""
    seen = _counted(machines)
    if priority_class != "mid":
        return batch(strategy, seen.capacity, seen.reserved, seen.system, seen.sums)
    prod, beside, _ = _peaks(machines, seen.sums)
    spare = unused(seen.sums.prod_requested, prod, beside, machines.allocatable, strategy.peak_margin)
    return mid(strategy, seen.capacity, seen.reserved, seen.system, seen.usage, seen.sums, spare)


def reckoning(machines: Any, strategy: Reclaim, priority_class: str) -> dict[str, Floats]:
    """Return the terms of the limit of a class below prod, [R, n] each, for explanations.

    For batch and free these are subtracted from capacity: ``margin``, ``system`` (or the reserve), and ``higher``,
    the usage of prod and mid. For mid they are prod's requests, and the peaks that are subtracted from them.
    """
    seen = _counted(machines)
    if priority_class != "mid":
        return batch_takings(strategy, seen.capacity, seen.reserved, seen.system, seen.sums)
    prod, beside, predicted = _peaks(machines, seen.sums)
    return {
        "prod_asks": seen.sums.prod_requested,
        "predicted_peak": np.where(predicted, prod + beside, np.nan),
        "peak_of_day": np.where(predicted, np.nan, prod),
    }
