"""The rise of a counter between two reads. A rise that the elapsed time does not allow is no reading. Pure.

Kernels and agents have been seen to correct stolen time by centuries, to lower a byte counter by a kilobyte, and to
write one value of another counter. Such a rise would be a load that no machine can have.

| what | most in an interval |
|---|---|
| seconds of a core, idle or busy | the elapsed time |
| bytes of a link, each way | its speed x the elapsed time |
| busy time of a disk | the elapsed time |

`allowed_s` is the elapsed time plus the lateness of clocks and drivers. A counter that fell has wrapped, or was reset.
It wrapped when it has 32 bits and rose by less than half of their range: then the rise is exact. It was reset when its
new value is a possible rise, and at most half of its old value. Anything else is no reading.
"""

from collections.abc import Mapping

COUNTED_LATE_S = 1.0
"""Some drivers count once a second, so an interval may hold so much more."""
TIMING = 1.1
"""How much further apart two collections may be than their times state."""
BITS_32 = 2.0**32
LINK_MAX = 1e11
"""Bytes/s of the fastest Ethernet: the most of a link whose speed is not known."""


class NoReadingError(Exception):
    """A resource has no reading; the text gives the reason."""


class ImpossibleRiseError(NoReadingError):
    """A counter rose by more than the elapsed time allows, or fell."""


def allowed_s(elapsed_s: float) -> float:
    """Return the longest time that may have passed between two reads.

    >>> round(allowed_s(1.0), 6), round(allowed_s(10.0), 6), round(allowed_s(60.0), 6)
    (2.1, 12.0, 67.0)
    """
    return elapsed_s * TIMING + min(elapsed_s, COUNTED_LATE_S)


def rise_of(before: float, now: float, most: float, *, wraps_at: float = 0.0, resets: bool = True) -> float | None:
    """Return the rise of a counter, None where it is impossible.

    ``most``: the largest that the elapsed time allows. ``wraps_at``: the range of a counter that may wrap, 0 for none.
    ``resets``: whether it may have been reset meanwhile.

    >>> rise_of(100.0, 130.0, 50.0), rise_of(100.0, 151.0, 50.0), rise_of(100.0, 99.0, 50.0), rise_of(100.0, 9.0, 50.0)
    (30.0, None, None, 9.0)
    >>> rise_of(2.0**32 - 5, 3.0, 50.0, wraps_at=BITS_32)
    8.0
    """
    rise = now - before
    if rise < 0:
        wrapped = rise + wraps_at
        if before < wraps_at and wrapped <= min(most, wraps_at / 2):
            return wrapped
        if not resets or now > before / 2:
            return None
        rise = now
    return rise if rise <= most else None


def rises(before: Mapping[str, float], now: Mapping[str, float], most: float) -> dict[str, float]:
    """Return the rises of the counters that were read both times; raises ImpossibleRiseError."""
    found = {}
    for name in now.keys() & before.keys():
        rise = rise_of(before[name], now[name], most, wraps_at=BITS_32, resets=False)
        if rise is None:
            raise ImpossibleRiseError(f"{name}: {before[name]}, then {now[name]}; at most {most:.6g} more")
        found[name] = rise
    return found
