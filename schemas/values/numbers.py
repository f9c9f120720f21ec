"""Numbers as JSON can hold them, and as people read them."""

import math
from typing import Annotated, SupportsFloat

from msgspec import Meta

from schemas.resources import UNITS

Epoch = Annotated[float, Meta(ge=0, le=1e11, description="seconds since 1970, UTC")]
Amount = Annotated[float, Meta(ge=0, le=1e16)]
Counter = Annotated[int, Meta(ge=0, le=2**32 - 1)]


def finite(value: SupportsFloat) -> float | None:
    """Return a plain number; None for NaN and infinity, which stand for "not known" in arrays.

    >>> finite(2), finite(float("nan"))
    (2.0, None)
    """
    number = float(value)
    return number if math.isfinite(number) else None


def number(value: float | None, digits: int = 2) -> str:
    """Return a number for people; an unknown one is a dash."""
    return "-" if value is None else f"{value:.{digits}f}"


def size(value: float | None) -> str:
    """Return bytes for people.

    >>> size(10e9), size(512), size(None)
    ('10.0G', '512', '-')
    """
    if value is None:
        return "-"
    for factor, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.1f}{suffix}"
    return f"{value:.0f}"


def counted(many: int, one: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "move"), counted(0, "move"), counted(2, "machine")
    ('1 move', '0 moves', '2 machines')
    """
    return f"{many} {one}{'' if many == 1 else 's'}"


def amount(resource: str, value: float | None, digits: int = 2) -> str:
    """Return an amount of a resource in its unit.

    >>> amount("cpu", 2.0), amount("memory", 10e9), amount("cpu", 64.0, 0)
    ('2.00', '10.0G', '64')
    """
    return size(value) if UNITS[resource].startswith("bytes") else number(value, digits)
