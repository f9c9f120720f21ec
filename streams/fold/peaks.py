"""Peaks: the highest one-minute mean of every hour, and from them today's and yesterday's.

A minute's mean is over the readings of its six slots. It is computed from the ring while all its slots are there, and
becomes final when the first one leaves. The last sixty minutes up to the newest are live, all older ones final. The
minute that is not over counts only while its day has no other, so that a peak does not fall as its minute fills. Hours
are aligned so that local days consist of whole hours at any offset of the zone. Days begin in local time, so a day
with a clock change has 23 or 25 hours. On Lord Howe Island the change is half an hour: there a day near it may lack
half an hour, or have half an hour of the next or previous day.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from schemas.names import SLOT_S
from streams.fold.ring import HOURS, MINUTE_SLOTS, NO_SLOT, RING_MINUTES, R, Ring, S

DAY_S = 86_400


@dataclass(frozen=True)
class Zone:
    """A time zone, for the peaks: when its hours and days begin."""

    name: str = "UTC"

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.name)
        except (KeyError, OSError, ValueError):
            raise ValueError(f"time_zone: no time zone is called {self.name!r}") from None

    def shift_minutes(self, at: float) -> int:
        """Return the minutes of the zone's offset beyond whole hours: India's hours begin at half past UTC's."""
        return int(self._offset_s(at) // 60) % 60

    def day_numbers(self, at: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the number of the local day that holds the moment just before each time; epoch s.

        >>> Zone("Asia/Kolkata").day_numbers(np.array([66_600.0, 66_600.1])).tolist()
        [0.0, 1.0]
        """
        hours, place = np.unique(at // 1800, return_inverse=True)
        offsets = np.array([self._offset_s(hour * 1800) for hour in hours])
        numbers: NDArray[np.float64] = np.ceil((at + offsets[place]) / DAY_S) - 1
        return numbers

    def _offset_s(self, at: float) -> float:
        return (datetime.fromtimestamp(at, ZoneInfo(self.name)).utcoffset() or timedelta()).total_seconds()

    @lru_cache(maxsize=64)  # noqa: B019 - it keeps a few zones; a flush asks for the same moments again
    def days(self, at: float) -> tuple[float, float, float]:
        """Return the epoch starts of yesterday, of today and of tomorrow, around ``at``.

        >>> [int(day) for day in Zone("UTC").days(90_000.0)]
        [0, 86400, 172800]
        """
        zone = ZoneInfo(self.name)
        today = datetime.fromtimestamp(at, zone).replace(hour=0, minute=0, second=0, microsecond=0)
        return tuple(  # type: ignore[return-value]
            (today + timedelta(days=step)).replace(tzinfo=zone).timestamp() for step in (-1, 0, 1)
        )


def minute_means(ring: Ring, rows: NDArray[np.intp], minutes: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the mean over one minute of one row each, [k, R]; NaN where no slot of it is filled."""
    slots = minutes[:, None] * MINUTE_SLOTS + np.arange(MINUTE_SLOTS)
    head = ring.head[rows, None]
    held = (slots <= head) & (slots > head - S)
    n = ring.n[rows[:, None], :, slots % S] * held[..., None].astype(np.float64)
    total = n.sum(axis=1)
    weighted = (n * ring.mean[rows[:, None], :, slots % S]).sum(axis=1)
    means: NDArray[np.float64] = np.divide(weighted, total, out=np.full(total.shape, np.nan), where=total > 0)
    return means.astype(np.float32)


def refresh_minutes(ring: Ring, rows: NDArray[np.intp], slots: NDArray[np.int64]) -> None:
    """Recompute the minutes that contain these slots, one row each; final minutes stay unchanged."""
    minutes = slots // MINUTE_SLOTS
    live = minutes > ring.head[rows] // MINUTE_SLOTS - RING_MINUTES
    _, first = np.unique(rows[live] * RING_MINUTES + minutes[live] % RING_MINUTES, return_index=True)
    rows, minutes = rows[live][first], minutes[live][first]
    ring.minute[rows, :, minutes % RING_MINUTES] = minute_means(ring, rows, minutes)
    np.minimum.at(ring.first_minute, rows, minutes)


def finalise(ring: Ring, rows: NDArray[np.intp], new_head: NDArray[np.int64], shift_minutes: int) -> NDArray[np.int64]:
    """Finish the minutes that leave the ring when ``rows`` move to ``new_head``; return the changed hours.

    To be called before the head moves. Hours that no longer have a place are dropped.
    """
    old_minute, new_minute = ring.head[rows] // MINUTE_SLOTS, new_head // MINUTE_SLOTS
    moved = new_minute > old_minute
    rows, old_minute, new_minute = rows[moved], old_minute[moved], new_minute[moved]
    newest_hour = _hour(new_minute, shift_minutes)
    cleared = _advance_hours(ring, rows, newest_hour)
    which, minutes = _ranges(old_minute - RING_MINUTES + 1, np.minimum(new_minute - RING_MINUTES, old_minute))
    means = ring.minute[rows[which], :, minutes % RING_MINUTES]
    hours = _hour(minutes, shift_minutes)
    kept = (hours > newest_hour[which] - HOURS) & ~np.isnan(means).all(axis=1)
    flat = (rows[which[kept], None] * R + np.arange(R)) * HOURS + (hours[kept] % HOURS)[:, None]
    np.fmax.at(ring.peak.reshape(-1), flat, means[kept])
    fresh, minutes = _ranges(np.maximum(old_minute + 1, new_minute - RING_MINUTES + 1), new_minute)
    ring.minute[rows[fresh], :, minutes % RING_MINUTES] = np.nan
    return np.unique(np.r_[hours[kept], cleared])


def _ranges(first: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return every (index, value) with first[index] <= value <= last[index]."""
    count = np.maximum(last - first + 1, 0)
    which = np.repeat(np.arange(len(first)), count)
    return which, first[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)


def _advance_hours(ring: Ring, rows: NDArray[np.intp], newest: NDArray[np.int64]) -> NDArray[np.int64]:
    """Clear the places of the hours between the newest so far and ``newest``; return those that were not empty."""
    which, hours = _ranges(np.maximum(ring.peak_hour[rows] + 1, newest - HOURS + 1), newest)
    cells = (rows[which], np.s_[:], hours % HOURS)
    filled = ~np.isnan(ring.peak[cells]).all(axis=1)
    ring.peak[cells] = np.nan
    ring.peak_hour[rows] = np.maximum(ring.peak_hour[rows], newest)
    return hours[filled]


def _hour(minute: NDArray[np.int64], shift_minutes: int) -> NDArray[np.int64]:
    return (minute + shift_minutes) // 60


def day_peaks(ring: Ring, rows: NDArray[np.intp], zone: Zone) -> dict[str, NDArray[np.generic]]:
    """Return ``peak_today``, ``peak_yesterday`` f4 [k, R], ``peak_day`` and ``peak_since`` f8 [k] of machines.

    Today is the local day of the machine's newest slot; ``peak_day`` is its start, so a reader decides by its own clock
    whether it is over. ``peak_since`` is the first minute known: later than a day's start means partial.
    ``peak_today_s`` and ``peak_yesterday_s`` f4 [k, R]: seconds from ``peak_day`` to the minute of the peak, or to the
    beginning of its hour once only the hour is known; the earlier hour where two are as high.
    """
    columns: dict[str, NDArray[np.generic]] = {
        "peak_today": np.full((len(rows), R), np.nan, np.float32),
        "peak_yesterday": np.full((len(rows), R), np.nan, np.float32),
        "peak_today_s": np.full((len(rows), R), np.nan, np.float32),
        "peak_yesterday_s": np.full((len(rows), R), np.nan, np.float32),
        "peak_day": np.full(len(rows), np.nan),
        "peak_since": np.where(
            ring.first_minute[rows] == -NO_SLOT, np.nan, np.maximum(ring.first_minute[rows], _oldest(ring, rows)) * 60.0
        ),
    }
    for (yesterday, today, tomorrow), members in _days_of(ring.head[rows], zone):
        chosen = rows[members]
        values, starts, ends = _candidates(ring, chosen, zone.shift_minutes(today))
        columns["peak_day"][members] = today
        for name, begin, end in (("peak_today", today, tomorrow), ("peak_yesterday", yesterday, today)):
            peak, at = _highest(values, (ends > begin) & (starts < end), starts)
            if (unknown := np.isnan(peak)).any():
                running, running_at = _running_minute(ring, chosen, begin, end)
                peak, at = np.where(unknown, running, peak), np.where(unknown, running_at, at)
            columns[name][members], columns[f"{name}_s"][members] = peak, at - today
    return columns


def _candidates(
    ring: Ring, rows: NDArray[np.intp], shift: int
) -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]:
    """Return the final peak of each hour, then each complete minute that is not final: values [k, R, N], times.

    Starts and ends are [k, N]. A minute that is not over ends before it starts, so it lies in no day.
    """
    hours = ring.peak_hour[rows, None] - (ring.peak_hour[rows, None] - np.arange(HOURS)) % HOURS
    head = ring.head[rows, None] // MINUTE_SLOTS
    minutes = head - (head - np.arange(RING_MINUTES)) % RING_MINUTES
    over = minutes <= _last_whole_minute(ring, rows)[:, None]
    values = np.concatenate([ring.peak.take(rows, axis=0), ring.minute.take(rows, axis=0)], axis=-1)
    starts = np.concatenate([hours * 60 - shift, minutes], axis=-1) * 60.0
    ends = starts + np.array([3600.0] * HOURS + [60.0] * RING_MINUTES)
    ends[:, HOURS:][~over] = -np.inf
    return values, starts, ends


def _highest(
    values: NDArray[np.float32], inside: NDArray[np.bool_], starts: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the highest of the values [k, R, N] with ``inside`` [k, N], and its earliest start; NaN without any."""
    held = np.where(inside[:, None], values, np.float32(np.nan))
    highest: NDArray[np.float32] = np.fmax.reduce(held, axis=-1)
    at = np.where(held == highest[..., None], starts[:, None], np.inf).min(axis=-1)
    return highest, np.where(np.isnan(highest), np.nan, at)


def _last_whole_minute(ring: Ring, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return [k] the newest complete minute: the next sample cannot end in it."""
    steps = np.ceil(np.maximum(ring.interval_s[rows], SLOT_S) / SLOT_S).astype(np.int64)
    return (ring.head[rows] + steps) // MINUTE_SLOTS - 1


def _running_minute(
    ring: Ring, rows: NDArray[np.intp], begin: float, end: float
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return the mean of the newest minute if it began in [begin, end), and its start, both [k, R]; else NaN."""
    minutes = ring.head[rows] // MINUTE_SLOTS
    inside = (minutes * 60 >= begin) & (minutes * 60 < end)
    means = np.where(inside[:, None], ring.minute[rows, :, minutes % RING_MINUTES], np.float32(np.nan))
    return means, np.where(np.isnan(means), np.nan, minutes[:, None] * 60.0)


def _oldest(ring: Ring, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return the first minute of the oldest hour that has a place."""
    return (ring.peak_hour[rows] - HOURS + 1) * 60


def _days_of(head: NDArray[np.int64], zone: Zone) -> list[tuple[tuple[float, float, float], NDArray[np.intp]]]:
    """Group machines by the local day of their newest slot; a fleet has one group, two around midnight."""
    groups = []
    left = np.flatnonzero(head > NO_SLOT)
    starts = head * float(SLOT_S)
    while len(left):
        days = zone.days(float(starts[left[0]]))
        inside = (starts[left] >= days[1]) & (starts[left] < days[2])
        groups.append((days, left[inside]))
        left = left[~inside]
    return groups
