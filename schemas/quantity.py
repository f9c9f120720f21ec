"""Amounts with a suffix, as people write them: ``500m`` cores, ``10G`` or ``10Gi`` bytes."""

from __future__ import annotations

import math

_SUFFIXES = {
    "m": 1e-3, "": 1.0,
    "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip


def parse_quantity(value: float | str) -> float:
    """Return the amount in base units; decimal suffixes k M G T P, binary Ki Mi Gi Ti Pi, ``m`` for thousandths.

    >>> parse_quantity("500m"), parse_quantity("10G"), parse_quantity("1Ki"), parse_quantity(2)
    (0.5, 10000000000.0, 1024.0, 2.0)

    Raises ValueError for anything that is not a finite amount of zero or more.
    """
    if isinstance(value, str):
        digits = value.strip().rstrip("kKMGTPmi")
        suffix = value.strip()[len(digits) :]
        try:
            amount = float(digits) * _SUFFIXES[suffix]
        except (ValueError, KeyError):
            raise ValueError(f"{value!r} is not an amount such as 2, 500m, 10G or 10Gi") from None
    else:
        amount = float(value)
    if not math.isfinite(amount) or amount < 0:
        raise ValueError(f"{value!r} is not a finite amount of zero or more")
    return amount
