"""Durations as people write them: ``90s``, ``5m``, ``2h``, ``1h30m``; a bare number is seconds."""

import math
import re

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
