"""The usage in the last report of each instance, computed from two of its running means. Pure.

The tables have a mean of about half an hour, and no single minutes (`schemas.tables.instance_table`). A report changes
it with a known weight, so the report follows from the means before and after it:

    mean = kept * mean before + (1 - kept) * report
    kept = min(n before / n, exp(-dt / 30 min)), n being the reports, dt the time since the one before

For several reports since then it is their mean. Floats of 32 bits leave it exact to some millionths of the mean.

Chosen: to look every minute. Rejected: a column of last reports, 8 bytes for each instance in every table and its
checkpoint, for one reader; 71 bytes would be more than the 64 that an instance may take.
"""

import numpy as np

from schemas.tables.instance_table import RECENT_S
from scorer.snapshot.arrays import Floats
from scorer.snapshot.usage_columns import UsageColumns

WEIGHT_MIN = 5e-4
"""The weight of a report of about one second: less cannot be distinguished from rounding."""


class LastReports:
    """Keeps the previous table of figures, from which the next one's reports follow."""

    def __init__(self) -> None:
        self._before: UsageColumns | None = None
        self._latest: Floats = np.zeros((0, 0))

    def latest(self, columns: UsageColumns) -> Floats:
        """Return [R, K]: the usage in the last report of each pair; for a new pair its mean."""
        before = self._before
        if before is columns:
            return self._latest
        found = columns.recent.copy()
        if before is not None and before.at.size:
            self._fill(found, columns, before)
        self._before, self._latest = columns, found
        return found

    def _fill(self, found: Floats, columns: UsageColumns, before: UsageColumns) -> None:
        """Compute the reports of the pairs that were in the previous table."""
        if columns.index is before.index:
            here = there = np.arange(columns.at.size)
        else:
            rows = before.index.rows(columns.index.of_rows)
            here = np.flatnonzero((rows >= 0) & (columns.index.of_rows != 0))
            there = rows[here]
        known = columns.since[here] == before.since[there]
        here, there = here[known], there[known]
        elapsed_s = columns.at[here] - before.at[there]
        same = elapsed_s == 0
        found[:, here[same]] = self._latest[:, there[same]]
        newer = elapsed_s > 0
        here, there, elapsed_s = here[newer], there[newer], elapsed_s[newer]
        kept = np.minimum(before.count[there] / np.maximum(columns.count[here], 1.0), np.exp(-elapsed_s / RECENT_S))
        mean_before, mean = before.recent[:, there], columns.recent[:, here]
        with np.errstate(invalid="ignore", over="ignore"):  # of figures that no machine has
            report = np.maximum(mean + kept / np.maximum(1.0 - kept, WEIGHT_MIN) * (mean - mean_before), 0.0)
        found[:, here] = np.where(np.isfinite(report), report, mean)
