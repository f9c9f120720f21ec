"""Numbers as JSON can hold them, and as people read them; durations: ``90s``, ``5m``, ``1h30m``, or seconds."""

import math
import re
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


_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?", re.IGNORECASE)
UNITS_IN_WORDS = "ms, s, m, h, d"


def parse_duration(value: float | str) -> float:
    """Return a duration in seconds.

    >>> parse_duration("5m"), parse_duration("1h30m"), parse_duration("250ms"), parse_duration("90"), parse_duration(7)
    (300.0, 5400.0, 0.25, 90.0, 7.0)

    Raises ValueError for a text that is not a finite duration.
    """
    text = str(value).strip()
    if _WHOLE.fullmatch(text):
        return sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(text))
    seconds = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(seconds):
        raise ValueError(f"{value!r} is not a duration such as 90s, 5m or 2h (units: {UNITS_IN_WORDS}; none: seconds)")
    return seconds


def duration(seconds: float | None) -> str:
    """Return a duration for people, in at most two units; an unknown one is a dash.

    >>> [duration(s) for s in (0.05, 4, 99.6, 300, 4165, 90000, None)]
    ['50ms', '4s', '1m40s', '5m', '1h9m', '1d1h', '-']
    """
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if 0 < seconds < 1:
        return f"{1000 * seconds:.0f}ms"
    whole = round(seconds)
    for large, small, size, step in (("d", "h", 86_400, 3_600), ("h", "m", 3_600, 60), ("m", "s", 60, 1)):
        if whole >= size:
            count, rest = divmod(whole, size)
            return f"{count}{large}{rest // step}{small}" if rest // step else f"{count}{large}"
    return f"{whole}s"
