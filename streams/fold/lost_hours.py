"""Restores hours of the peaks whose stored value was lost, from the log. Pure.

The minutes of a final hour have left the ring, or are about to. When their samples are read again, they are late or
change no slots. So the log is also folded into a second, empty ring, and at its end the lost hours are copied from
there. That ring costs as much memory as the partition, while the log is read.

When the worker ends meanwhile the hours stay lost: the peaks are then known from the time after them.
"""

import numpy as np

from streams.fold.batch import Batch
from streams.fold.fold import fold
from streams.fold.ring import HOURS, NO_SLOT, Ring


class LostHours:
    """The lost places of the hourly peaks, and a ring folded from the log."""

    def __init__(self, places: set[int], ring: Ring, shift_minutes: int) -> None:
        """Record which minutes ``ring`` has, and set its peaks to begin after the lost hours."""
        used = len(ring)
        self.places = sorted(places)
        self._known = dict(zip(ring.machines, ring.first_minute[:used].tolist(), strict=True))
        self._again = Ring()
        newest, known = ring.peak_hour[:used], ring.first_minute[:used]
        for place in self.places:
            after = (newest - (newest - place) % HOURS + 1) * 60 - shift_minutes
            known = np.where((newest > NO_SLOT) & (known != -NO_SLOT), np.maximum(known, after), known)
        ring.first_minute[:used] = known

    def fold(self, batch: Batch, shift_minutes: int) -> None:
        """Fold samples of the log into the second ring."""
        fold(self._again, batch, shift_minutes)

    def restore(self, ring: Ring, shift_minutes: int) -> None:
        """Copy the lost hours into ``ring``.

        Where the log begins within a lost hour, the peaks are known from the log's first minute on. Where it begins
        after the hour, they are known from the hour's end on.
        """
        again = self._again
        machines = [machine for machine in ring.machines if machine in again.row and machine in self._known]
        rows = np.array([ring.row[machine] for machine in machines], np.intp)
        from_rows = np.array([again.row[machine] for machine in machines], np.intp)
        known = np.array([self._known[machine] for machine in machines], np.int64)
        newest, from_newest = ring.peak_hour[rows], again.peak_hour[from_rows]
        told = again.first_minute[from_rows]
        for place in self.places:
            hour = newest - (newest - place) % HOURS
            same = (hour == from_newest - (from_newest - place) % HOURS) & (newest > NO_SLOT)
            peaks = again.peak[from_rows[same], :, place]
            ring.peak[rows[same], :, place] = np.fmax(ring.peak[rows[same], :, place], peaks)
            start = hour * 60 - shift_minutes
            known = np.where(start < told, np.maximum(known, np.minimum(told, start + 60)), known)
        ring.first_minute[rows] = np.minimum(ring.first_minute[rows], known)
