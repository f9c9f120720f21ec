"""The windows and peaks of samples, computed straight from their definition: slow, and independent of the fold."""

import math
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from schemas.resources import RESOURCES

SLOT_S = 10


def slot_of(at):
    """The slot that holds the moment just before the sample's end."""
    return math.ceil(at / SLOT_S) - 1


def winners(samples):
    """Of one machine's samples, the one that stands for each slot."""

    def rank(s):
        return (sum(m.n for r in RESOURCES if (m := getattr(s, r)) is not None), s.boot, s.seq)

    best = {}
    for sample in samples:
        slot = slot_of(sample.at)
        if slot not in best or rank(sample) > rank(best[slot]):
            best[slot] = sample
    return best


def window(samples, resource, window_s):
    """The statistics of one machine, resource and window, by numpy over the slots."""
    best = winners(samples)
    head = max(best)
    held = [getattr(best[s], resource) for s in sorted(best) if s > head - window_s // SLOT_S]
    held = [m for m in held if m is not None]
    newest = max(samples, key=lambda s: (s.at, s.boot, s.seq))
    can_fill = max(1, window_s // max(newest.interval_s, SLOT_S))
    if not held:
        return {"mean": math.nan, "std": math.nan, "max": math.nan, "filled": 0, "coverage": 0.0}
    n = np.array([m.n for m in held], float)
    means = np.array([m.mean for m in held], np.longdouble)
    mean = (n * means).sum() / n.sum()
    m2 = sum(m.m2 for m in held) + (n * (means - mean) ** 2).sum()
    return {
        "mean": float(mean),
        "std": float(np.sqrt(m2 / n.sum())),
        "max": max(m.max for m in held),
        "percentile": [np.quantile([m.mean for m in held], q / 100, method="inverted_cdf") for q in (50, 90, 95, 99)],
        "filled": len(held),
        "coverage": min(1.0, len(held) / can_fill),
    }


def peak(samples, resource, begin, end):
    """The highest one-minute mean in [begin, end); that of the minute that is not over only if there is no other."""
    minutes = {}
    for slot, sample in winners(samples).items():
        moments = getattr(sample, resource)
        if moments is not None and begin <= slot * SLOT_S < end:
            minutes.setdefault(slot * SLOT_S // 60, []).append((moments.n, moments.mean))
    newest = max(slot for slot in winners(samples))
    means = {minute: sum(n * m for n, m in held) / sum(n for n, _ in held) for minute, held in minutes.items()}
    running = means.pop(newest * SLOT_S // 60, math.nan) if newest % 6 != 5 else math.nan
    return max(means.values(), default=running)


def utc_days(at):
    """The starts of yesterday, today and tomorrow in UTC."""
    today = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return tuple((today + timedelta(days=d)).timestamp() for d in (-1, 0, 1))


def zone_days(at, zone):
    """The starts of yesterday, today and tomorrow in a zone: where its calendar date changes, minute by minute."""
    place = ZoneInfo(zone)

    def first(at, step):
        """The minute nearest to ``at``, going by ``step``, that has another date than the one before it."""
        minute = int(at // 60)
        while True:
            minute += step
            before, here = (datetime.fromtimestamp(m * 60, place).date() for m in (minute - 1, minute))
            if before != here:
                return minute * 60.0

    today = first(at + 60, -1)
    return first(today, -1), today, first(today, 1)
