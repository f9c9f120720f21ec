"""How much of each machine batch and mid may have: Koordinator's rules for whole fleets at once. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schemas.resources import ALL, RESOURCES
from scorer.reclaim.strategy import Reclaim
from scorer.reclaim.uses import Uses
from scorer.snapshot.arrays import Bools, Floats

_UNITS = np.array([[one.whole_units] for one in ALL])
_NEAR = 1e-12
"""A product just below a whole number is that number: shares are given in tenths and hundredths."""


def batch(strategy: Reclaim, capacity: Floats, reserved: Floats, system: Floats, uses: Uses) -> Floats:
    """Return [R, n]: what batch may have, all arguments [R, n]; 0 where anything it goes by is unknown.

        usage               capacity - margin - max(system, reserved) - used by prod and mid
        request             capacity - margin - reserved              - requested by prod and mid
        max-usage-request   capacity - margin - max(system, reserved) - the larger of each instance

    ``margin = capacity * (1 - share)``; never below 0, and at most ``capacity * batch_share``. ``reserved``: what
    operators keep back; ``system``: what is used by no instance.
    """
    by = {"usage": uses.used, "request": uses.requested, "max-usage-request": uses.larger}
    busy = np.maximum(system, reserved)
    left = capacity - cut(capacity * (1.0 - _column(strategy.share, 1.0)))
    found = np.zeros_like(capacity)
    for row in strategy.rows:
        policy = strategy.policy.get(RESOURCES[row], "usage")
        found[row] = left[row] - (reserved if policy == "request" else busy)[row] - by[policy][row]
    return _at_most(found, capacity, strategy.batch_share)


def mid(
    strategy: Reclaim, capacity: Floats, reserved: Floats, system: Floats, usage: Floats, uses: Uses, unused: Floats
) -> Floats:
    """Return [R, n]: what mid may have, all arguments [R, n]; 0 where anything it goes by is unknown.

        min(min(unused, capacity - usage) + mid_unallocated * unallocated, capacity * mid_share)
        unallocated = capacity - max(system, reserved) - requested by prod

    ``usage``: of the whole machine; ``unused``: what prod asked for and will not use (`peaks.unused`). With
    ``mid_static`` it is ``min(capacity * mid_static, capacity * mid_share)``.
    """
    most = {name: strategy.mid_share.get(name, 1.0) for name in strategy.share}
    rows = np.zeros((len(RESOURCES), 1))
    rows[strategy.rows] = 1.0
    if strategy.mid_static:
        return _at_most(cut(capacity * _column(strategy.mid_static, 0.0)) * rows, capacity, most)
    free = np.maximum(_known(np.minimum(unused, capacity - usage)), 0.0)
    unallocated = np.maximum(capacity - np.maximum(system, reserved) - uses.prod_requested, 0.0)
    if strategy.mid_unallocated:
        free = free + cut(unallocated * strategy.mid_unallocated)
    return _at_most(free * rows, capacity, most)


def degraded(strategy: Reclaim, age_s: Floats) -> Bools:
    """Return [n]: whether the data of a machine is too old to reclaim anything of it."""
    return ~(age_s <= strategy.degrade_s)


def cut(values: Floats) -> Floats:
    """Return the amounts cut to the peer's whole units (millicores, bytes), toward 0; NaN stays.

    >>> cut(np.array([[0.7199], [23999999999.9999996], [-2.5], [1.0]])).ravel().tolist()
    [0.719, 24000000000.0, -2.0, 1.0]
    """
    found: Floats = np.trunc(values * _UNITS * (1.0 + _NEAR)) / _UNITS
    return found


def _at_most(values: Floats, capacity: Floats, shares: Mapping[str, float]) -> Floats:
    """Return the values, never below 0 nor above these shares of capacity; 0 where unknown."""
    found, most = np.maximum(_known(values), 0.0), cut(capacity * _column(shares, 0.0))
    for row in (RESOURCES.index(name) for name in shares):
        found[row] = np.where(found[row] > most[row], most[row], found[row])
    return found


def _known(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, 0.0)


def _column(given: Mapping[str, float], absent: float) -> Floats:
    """Return [R, 1] in the order of the resources."""
    return np.array([[given.get(name, absent)] for name in RESOURCES])
