"""The limits of lower classes on each machine, from measured load and the ledger, as a decision sees them.

A machine's figures depend on that machine alone. Instances of mid and prod that were added since the last report count
at once, with their requests. The amounts of batch and free do not change what these classes may have.
The rules (`batch`, `mid`, `unused`) are Koordinator's, for whole fleets at once. Pure.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from schemas.resources import ALL, CPU, RESOURCES
from schemas.tables.window_table import PERCENTILES
from scorer.classes.prediction import Peaks
from scorer.classes.strategy import Reclaim, Uses, uses_from
from scorer.snapshot.arrays import Bools, Floats
from scorer.snapshot.snapshot import Snapshot

_UNITS = np.array([[one.whole_units] for one in ALL])
_NEAR = 1e-6
"""An amount so close to a whole unit is that unit: cores are given in thousandths."""


def batch(strategy: Reclaim, capacity: Floats, reserved: Floats, system: Floats, uses: Uses) -> Floats:
    """Return [R, n]: the limit of batch, all arguments [R, n]; 0 where an argument is unknown.

        usage               capacity - margin - max(system, reserved) - used by prod and mid
        request             capacity - margin - reserved              - requested by prod and mid
        max-usage-request   capacity - margin - max(system, reserved) - the larger of each instance

    ``margin = capacity * (1 - share)``, cut to whole units; never below 0, and at most ``capacity * batch_share``.
    ``reserved``: operators' reserves; ``system``: usage of no instance.
    """
    taken = batch_takings(strategy, capacity, reserved, system, uses)
    found = np.zeros_like(capacity)
    found[strategy.rows] = (capacity - taken["margin"] - taken["system"] - taken["higher"])[strategy.rows]
    return _at_most(found, capacity, strategy.batch_share)


def batch_takings(
    strategy: Reclaim, capacity: Floats, reserved: Floats, system: Floats, uses: Uses
) -> dict[str, Floats]:
    """Return the terms taken off capacity for batch, [R, n] each: ``margin``, ``system``, ``higher`` (prod and mid)."""
    by = {"usage": uses.used, "request": uses.requested, "max-usage-request": uses.larger}
    busy, higher = np.maximum(system, reserved), np.zeros_like(capacity)
    for row in strategy.rows:
        policy = strategy.policy.get(RESOURCES[row], "usage")
        higher[row] = by[policy][row]
        if policy == "request":
            busy[row] = reserved[row]
    rest = (100.0 - np.round(_column(strategy.share, 1.0) * 100.0, 9)) / 100.0  # from percentages, as the peer does
    return {"margin": part_of(capacity, rest), "system": busy, "higher": higher}


def mid(
    strategy: Reclaim, capacity: Floats, reserved: Floats, system: Floats, usage: Floats, uses: Uses, unused: Floats
) -> Floats:
    """Return [R, n]: the limit of mid, all arguments [R, n]; 0 where an argument is unknown.

        min(min(unused, capacity - usage) + mid_unallocated * unallocated, capacity * mid_share)
        unallocated = capacity - max(system, reserved) - requested by prod

    ``usage``: of the whole machine; ``unused``: prod's requests that it will not use (`peaks.unused`). With
    ``mid_static`` it is ``min(capacity * mid_static, capacity * mid_share)``.
    """
    most = {name: strategy.mid_share.get(name, 1.0) for name in strategy.share}
    rows = np.zeros((len(RESOURCES), 1))
    rows[strategy.rows] = 1.0
    if strategy.mid_static:
        return _at_most(part_of(capacity, _column(strategy.mid_static, 0.0)) * rows, capacity, most)
    free = np.maximum(_known(np.minimum(unused, capacity - usage)), 0.0)
    unallocated = np.maximum(capacity - np.maximum(system, reserved) - uses.prod_requested, 0.0)
    if strategy.mid_unallocated:
        free = free + part_of(unallocated, strategy.mid_unallocated)
    return _at_most(free * rows, capacity, most)


def degraded(strategy: Reclaim, age_s: Floats) -> Bools:
    """Return [n]: whether the data of a machine is too old to reclaim any of its capacity."""
    return ~(age_s <= strategy.degrade_s)


def cut(values: Floats) -> Floats:
    """Return the amounts cut to the peer's whole units (millicores, bytes), toward 0; NaN stays.

    >>> amounts = np.zeros((len(ALL), 2))
    >>> amounts[:2] = [[0.7199, -2.5], [24e9 + 0.3, -2.5]]
    >>> cut(amounts)[:2].tolist()
    [[0.719, -2.5], [24000000000.0, -2.0]]
    """
    found: Floats = np.trunc(_in_units(values)) / _UNITS
    return found


def part_of(amounts: Floats, share: Floats | float) -> Floats:
    """Return a share of the amounts, multiplied as the peer does: whole units, rounded up, times the share, cut again.

    Its product is that of two floats of 64 bits, so that 0.29 of 100 cores is a millicore less than 29.

    >>> amounts = np.zeros((len(ALL), 1))
    >>> amounts[:2] = [[100.0], [120e9]]
    >>> part_of(amounts, 0.29)[:2].tolist()
    [[28.999], [34800000000.0]]
    """
    hundredths = np.round(np.asarray(share, np.float64) * 100.0, 9) / 100.0  # of a percentage, as the peer multiplies
    found: Floats = np.trunc(np.ceil(_in_units(amounts)) * hundredths) / _UNITS
    return found


def _in_units(values: Floats) -> Floats:
    units = values * _UNITS
    near = np.rint(units)
    found: Floats = np.where(np.abs(units - near) < _NEAR, near, units)
    return found


def _at_most(values: Floats, capacity: Floats, shares: Mapping[str, float]) -> Floats:
    """Return the values, never below 0 nor above these shares of capacity; 0 where unknown."""
    found, most = np.maximum(_known(values), 0.0), part_of(capacity, _column(shares, 0.0))
    for row in (RESOURCES.index(name) for name in shares):
        found[row] = np.where(found[row] > most[row], most[row], found[row])
    return found


def _known(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, 0.0)


def _column(given: Mapping[str, float], absent: float) -> Floats:
    """Return [R, 1] in the order of the resources."""
    return np.array([[given.get(name, absent)] for name in RESOURCES])


def unused(requested: Floats, peak: Floats, system_peak: Floats, allocatable: Floats, margin: float) -> Floats:
    """Return [R, n]: ``min(requested, allocatable) - (peak + system peak) * (1 + margin)``, never below 0.

    ``requested``: prod's requests; ``peak`` and ``system_peak``: predicted usage of prod and of the system. 0 where a
    peak is not known: without a prediction nothing is allocated on it.
    """
    busy = part_of(cut(peak) + cut(system_peak), 1.0 + margin)
    found = np.minimum(requested, allocatable) - busy
    return np.maximum(np.where(np.isfinite(found), found, 0.0), 0.0)


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
    return np.fmax(found, last)


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
