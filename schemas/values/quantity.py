"""Amounts with a suffix, as people write them: ``500m`` cores, ``10G`` or ``10Gi`` bytes.

The notation is that of Kubernetes, and ``K`` beside ``k``: ASCII digits, an exponent or a suffix but not both, and no
blanks, underscores or commas. Text that the API server refuses is refused here, too, so that no text has two meanings.
"""

import math
import re

from schemas.resources import ABOUT

_SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0,
    "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip
_FORM = re.compile(
    rf"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+|inf|nan))(?:([eE][+-]?[0-9]+)|({'|'.join(sorted(_SUFFIXES, reverse=True))}))"
)


def parse_quantity(value: float | str) -> float:
    """Return the amount in base units; decimal suffixes n u m k M G T P E, binary Ki Mi Gi Ti Pi Ei.

    >>> parse_quantity("500m"), parse_quantity("10G"), parse_quantity("1Ki"), parse_quantity(2)
    (0.5, 10000000000.0, 1024.0, 2.0)

    Raises ValueError for anything that is not a finite amount of zero or more.
    """
    if isinstance(value, str):
        found = _FORM.fullmatch(value)
        if found is None:
            raise ValueError(f"{value!r} is not an amount such as 2, 500m, 10G or 10Gi{_why(value)}")
        amount = float(found[1] + (found[2] or "")) * _SUFFIXES[found[3] or ""]
    else:
        amount = float(value)
    if not math.isfinite(amount) or amount < 0:
        raise ValueError(f"{value!r} is not a finite amount of zero or more")
    return amount


def _why(text: str) -> str:
    """Return the valid suffixes, and the likely one; "" for a text that is not a number with a suffix."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]+)\s*", text)
    if not found:
        return ""
    meant = found[2].removesuffix("B").removesuffix("b")
    meant = next((each for each in _SUFFIXES if each and each.lower() == meant.lower() and each not in "numK"), "")
    hint = f"; did you mean {found[1]}{meant}?" if meant else ""
    return f": suffixes are k M G T P, Ki Mi Gi Ti Pi and m for thousandths{hint}"


def parse_amount(resource: str, value: float | str) -> float:
    """Return an amount of a resource in base units; a share of time is from 0 to 1, and ``m`` is its only suffix.

    >>> parse_amount("cpu", "500m"), parse_amount("memory", "10G")
    (0.5, 10000000000.0)

    Raises ValueError for an invalid amount of this resource; a name that is no resource has no bounds.
    """
    about = ABOUT.get(resource)
    is_space = isinstance(value, str) and value.strip().endswith(("k", "K", "M", "G", "T", "P", "i"))
    if about is not None and about.is_share and (is_space or parse_quantity(value) > 1):
        raise ValueError(f"{value!r} is not a share of time: {about.refused}")
    return parse_quantity(value)
