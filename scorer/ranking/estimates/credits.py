"""Credits: the load expected of placed instances that the windows do not show yet.

A placed instance is invisible in a one-hour mean for up to an hour. So each reserved or confirmed instance adds its
expected usage to its machine, fading as the window absorbs it. Time is measured to the end of the machine's window and
never to now: while data is late, nothing has been absorbed.

| model               | a mean gets                                                                               |
|---------------------|-------------------------------------------------------------------------------------------|
| window              | expected * (1 - share of the window's filled slots that are later than the start)          |
| trimaran-60s        | all, if placed after the window's end or less than 60 s before it, in whole seconds        |
| koordinator-pending | all, if placed later than one report interval (60 s) before the newest sample; less what   |
|                     | its agent says that it uses, and never below 0                                            |
| none                | nothing                                                                                    |

The other statistics follow the same share (model ``window``) or the same decision. A percentile q gets all until the
share exceeds 1 - q, a maximum all until the first later slot, a standard deviation nothing. A daily peak gets all
unless the instance had started when the peak was: then it is in the peak already (`Credits.peak`). An instance not
confirmed started yet counts in full everywhere (``window``), or by the time of its reservation (the peers' models).

**Measured instances.** A profile with ``learned = true`` replaces the expected usage of an instance that its agent
reports, in the mean by the model ``window``:

    w * measured + (1 - w) * expected        w = a / (a + 10 min), a: for how long it was reported since it started

An instance whose request says what it uses wrongly is then seen within minutes and not within an hour; so is one that
just moved. An explicit ``expected`` stays, and so does memory: a cache fills for hours. On 41 tuning worlds with the
limit of 0.8 (docs/replay.md) hot minutes were 0.61 of the old default's, without it 0.65; where requests mislead 0.70
for 0.77; with moves of 2 % an hour (9 worlds) 0.46 for 0.51. Half the weight after 5 or 30 minutes gained less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from schemas.names import SLOT_S
from schemas.resources import MEMORY, RESOURCES
from scorer.classes.class_usage import measured_usage
from scorer.ledger.view.slots import PlacedInstances
from scorer.ranking.estimates.estimate import Estimate
from scorer.ranking.estimates.measured_use import USE_MAX
from scorer.snapshot.arrays import Bools, Floats, Integers, at_rows
from scorer.snapshot.snapshot import Snapshot
from scorer.snapshot.windows import ChosenWindows

CreditModel = Literal["window", "trimaran-60s", "koordinator-pending", "none"]

TRIMARAN_REPORTING_S = 60
KOORDINATOR_REPORT_INTERVAL_S = 60
PEAK_S = 60
"""A day's peak is the highest mean of so many seconds."""
HALF_S = 600.0
"""After so long a measurement has the same weight as the expectation."""
MANY = 1_000
"""Of so many instances those that matter are picked first."""


def absorbed(placed: PlacedInstances, snapshot: Snapshot, windows: ChosenWindows) -> tuple[Floats, Floats]:
    """Return share [R, K] and slots [K]: which share of the filled slots, and how many of any, began after the start.

    The table says how many slots of each window are filled, not which. Between the lengths of two windows the latest
    slots are taken as the filled ones. So the result is exact at the windows' own lengths, and for a machine without
    gaps.
    """
    rows = placed.rows
    later = np.zeros((len(RESOURCES), rows.size))
    if not placed.started_at.any():
        return later, np.zeros(rows.size)
    step = np.fmax(snapshot.column("interval_s").take(rows), SLOT_S)
    age = np.fmax(snapshot.column("end").take(rows) - placed.started_at, 0.0)
    age *= placed.started_at > 0
    places = windows.position.take(rows)
    least, most = int(places.min()), int(places.max())
    shorter_s, shorter_filled = 0.0, later
    for position, window_s in enumerate(snapshot.windows_s[: most + 1]):
        filled_here = at_rows(snapshot.window("filled", position), rows)
        part = np.floor((age - shorter_s) / step + 1e-9)
        part = np.minimum(np.maximum(part, 0.0), np.maximum(filled_here - shorter_filled, 0.0))
        later = later + (part if position <= least else np.where(position <= places, part, 0.0))
        shorter_s, shorter_filled = float(window_s), filled_here
    in_window = at_rows(windows.filled, rows)
    share = np.divide(later, in_window, out=np.zeros_like(later), where=in_window > 0)
    return np.minimum(share, 1.0), np.floor(age / step + 1e-9)


def pending(model: CreditModel, placed: PlacedInstances, snapshot: Snapshot) -> Bools:
    """Return [K]: whether a peer's model counts the instance (in full) or not (at all)."""
    placed_at = placed.placed_at
    if model == "trimaran-60s":
        end = snapshot.column("end")[placed.rows]
        return np.isnan(end) | (np.floor(end) - np.floor(placed_at) < TRIMARAN_REPORTING_S)
    if model == "koordinator-pending":
        at = snapshot.column("at")[placed.rows]
        return np.isnan(at) | (placed_at > at - KOORDINATOR_REPORT_INTERVAL_S)
    raise ValueError(model)


class Day(NamedTuple):
    """``today`` or ``yesterday``."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Credits:
    """What placed instances add to the figures of a snapshot, by a model."""

    model: CreditModel
    estimate: Estimate
    snapshot: Snapshot

    def mean(self, placed: PlacedInstances, windows: ChosenWindows) -> Floats:
        """Return [R, K]: what each instance adds to the mean usage of its machine."""
        if self.model == "none":
            return np.zeros_like(placed.amounts)
        expected = self.estimate.of_placed(placed)
        if self.model == "window":
            if not placed.started_at.any():
                return expected
            share, _ = absorbed(placed, self.snapshot, windows)
            if self.estimate.by_reports and self.snapshot.usages:
                expected = self._as_measured(expected, placed, share)
            return expected * (1.0 - share)
        if self.model == "koordinator-pending" and self.snapshot.usages:
            expected = np.maximum(expected - np.nan_to_num(measured_usage(self.snapshot, placed)), 0.0)
        return np.where(pending(self.model, placed, self.snapshot), expected, 0.0)

    def _as_measured(self, expected: Floats, placed: PlacedInstances, share: Floats) -> Floats:
        """Return [R, K]: the expected usage, nearer to the measured one the longer an instance was reported.

        It counts as `USE_MAX` times what is asked at most, whatever an agent says; where nothing is asked, the
        expectation stays. Of many instances only those that the window does not show whole are looked at. Reports until
        the start are of an earlier instance with the same id, so they give no weight.
        """
        columns = self.snapshot.usages.columns
        few = placed.rows.size < MANY
        young: slice | Integers = slice(None) if few else np.flatnonzero((share < 1.0).any(axis=0))
        rows = columns.index.rows(placed.pairs[young])
        begun = placed.started_at[young]
        first = np.maximum(columns.take(columns.since, rows), np.where(begun > 0, begun, np.inf))
        age_s = np.fmax(columns.take(columns.at, rows) - first, 0.0)
        apart = np.minimum(columns.take(columns.mean, rows), USE_MAX * placed.amounts[:, young]) - expected[:, young]
        apart[MEMORY] = 0.0
        apart[np.isnan(apart) | ~np.isnan(placed.expected[:, young]) | placed.missing[:, young]] = 0.0
        apart *= age_s / (age_s + HALF_S)
        found = expected.copy()
        found[:, young] += apart
        return found

    def percentile(self, placed: PlacedInstances, windows: ChosenWindows, quantile: float) -> Floats:
        """Return [R, K]: what each instance adds to a percentile (0-1) of the usage; quantile 1 is the maximum."""
        if self.model != "window":
            return self.mean(placed, windows)
        expected = self.estimate.of_placed(placed)
        share, slots = absorbed(placed, self.snapshot, windows)
        if quantile >= 1.0:
            return np.where(slots < 1.0, expected, 0.0)
        return np.where(share <= 1.0 - quantile + 1e-9, expected, 0.0)

    def peak(self, placed: PlacedInstances, day: Day) -> Floats:
        """Return [R, K]: what each instance adds to the peak of a day.

        An instance that had started when the peak was is in it already, and adds nothing. A fleet file does not say
        when the peak was. Then an instance counts as in it once a whole minute of that day is later than its start.
        """
        if self.model == "none":
            return np.zeros_like(placed.amounts)
        expected, snapshot = self.estimate.of_placed(placed), self.snapshot
        started = placed.started_at if self.model == "window" else placed.placed_at
        if not started.any():
            return expected
        days, seconds, ends = (snapshot.column(name) for name in ("peak_day", f"peak_{day.name}_s", "end"))
        peak_at = at_rows(days, placed.rows) + at_rows(seconds, placed.rows)
        minute_shown = started + PEAK_S <= np.fmin(day.end_s, ends.take(placed.rows))
        shown = np.where(np.isnan(peak_at), minute_shown, started <= peak_at) | (started < day.start_s)
        return np.where((started > 0) & shown, 0.0, expected)
