"""The whole units that the ledger counts in: millionths of a core, bytes, bytes/s.

The scorer makes them; the scripts add and compare them and never scale. Whole numbers below 2^53 are exact in a float,
so a sum never drifts and a value read back is the one written.
"""

from collections.abc import Sequence

from schemas.resources import RESOURCES
from schemas.rpc.request import DECIMALS, too_much

UNITS = {name: 10.0**decimals for name, decimals in DECIMALS.items()}
"""How many units make one base unit, by resource name and ``maxmemory``."""
SUMS = frozenset({*RESOURCES, "maxmemory", "instances"})
"""The sums that this release keeps for each machine; a newer one may keep more, under other names."""
RESOURCE_UNITS = tuple(UNITS[name] for name in RESOURCES)
COUNT_MAX = 2.0**53
"""The largest limit: larger whole numbers are not exact."""
NO_LIMIT = -1


def in_units(name: str, amount: float | None) -> int:
    """Return an amount, or a limit, in the ledger's units; NaN is no limit, None (not given) is 0.

    >>> in_units("cpu", 3.9), in_units("memory", 1.5e9), in_units("nic", float("nan")), in_units("cpu", None)
    (3900000, 1500000000, -1, 0)
    """
    return as_units(amount, UNITS[name])


def as_units(amount: float | None, units: float) -> int:
    """Return `in_units` of an amount whose base unit is this number of ``units``."""
    if amount is None:
        return 0
    if amount != amount:  # noqa: PLR0124 - NaN, at a third of the price of a call
        return NO_LIMIT
    counted = amount * units + 0.5
    return int(counted) if counted < COUNT_MAX else int(COUNT_MAX)


def too_large(amounts: Sequence[float | None], maxmemory: float) -> str:
    """Return the error for the first amount that the ledger cannot count exactly; "" without one.

    >>> too_large((2e9, *[0.0] * (len(RESOURCES) - 1)), 0.0)
    'cpu: at most 1,125,899,906 cores can be counted'
    """
    for name, amount in zip((*RESOURCES, "maxmemory"), (*amounts, maxmemory), strict=True):
        if large := too_much(name, amount or 0.0):
            return f"{name}: {large}"
    return ""
