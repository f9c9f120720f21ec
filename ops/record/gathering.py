"""From samples and reports to the figures of an entry. Pure.

A sample counts for the minute in which the middle of its interval lies. The figure of a machine and minute is the mean
of its samples weighted by their length; each resource has the samples that measure it. A part of a report gives a
figure for each of its instances, over the report's own interval. A sample or report repeated by its agent gives the
same figure again, which changes no mean.

Names become rows of a file's tables. A file has `NAMES_MAX` names at most, so that an agent with ever new names cannot
fill the disk; figures of further names are counted as refused.
"""

from collections import Counter
from collections.abc import Sequence
from math import isfinite

import numpy as np

from ops.record.entry import SPAN_S, Figures, none_of
from schemas.messages.sample import Sample, means
from schemas.resources import RESOURCES
from schemas.tables.instance_table import pair_name
from streams.fold.admission import Admission
from streams.fold.batch import read_messages, to_batch

MINUTE_S = 60.0
NAMES_MAX = 2_000_000
AROUND_S = 2 * 86_400.0
"""A figure further from now than this is not recorded: a clock is wrong."""
_UNKNOWN = (np.nan,) * len(RESOURCES)


class Names:
    """The rows of a file's table: names, numbered in the order in which they were added.

    ``fresh``: those since `take`.
    """

    def __init__(self) -> None:
        self._row: dict[str, int] = {}
        self.fresh: list[str] = []

    def row(self, name: str) -> int | None:
        """Return the row of a name, adding one for a new name; None when the table is full."""
        found = self._row.get(name)
        if found is None and len(self._row) < NAMES_MAX:
            found = self._row[name] = len(self._row)
            self.fresh.append(name)
        return found

    def take(self) -> list[str]:
        """Return the names that were added since the last call."""
        fresh, self.fresh = self.fresh, []
        return fresh


class Gathering:
    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._samples: list[Sample] = []
        self.refused: Counter[str] = Counter()
        self.capacity: dict[str, dict[str, float]] = {}
        """By machine, from its last sample."""

    def __len__(self) -> int:
        return len(self._samples)

    def take(self, raw: Sequence[bytes | None], recorded_at: Sequence[float], keys: Sequence[bytes | None]) -> None:
        """Add messages, in the order of the topic."""
        samples, _, _, refused = read_messages(raw, recorded_at, keys=keys, admission=self._admission)
        self._samples += samples
        self.refused.update(one.reason for one in refused)

    def take_refused(self) -> dict[str, int]:
        """Return the number of messages and figures not used since the last call, by reason."""
        refused, self.refused = +self.refused, Counter()
        return dict(refused)

    def figures(self, hosts: Names, pairs: Names, now_s: float) -> tuple[Figures, Figures]:
        """Return the load of machines and the usage of instances since the last call."""
        samples, self._samples = self._samples, []
        samples = [one for one in samples if self._is_near(one.at, now_s)]
        return self._load(samples, hosts), self._usage(samples, pairs, now_s)

    def _is_near(self, at: float, now_s: float) -> bool:
        near = abs(at - now_s) <= min(AROUND_S, SPAN_S / 2)
        self.refused["far"] += not near
        return near

    def _load(self, samples: Sequence[Sample], hosts: Names) -> Figures:
        if not samples:
            return none_of(len(RESOURCES))
        batch = to_batch(samples, [0.0] * len(samples))
        for name, last in {name: place for place, name in enumerate(batch.machines)}.items():
            has = zip(RESOURCES, batch.capacity[last].tolist(), strict=True)
            self.capacity[name] = {resource: value for resource, value in has if isfinite(value)}
        rows = np.array([-1 if (row := hosts.row(name)) is None else row for name in batch.machines], np.int64)
        minute = np.floor((batch.at - batch.interval_s / 2) / MINUTE_S).astype(np.int64)
        known = rows >= 0
        self.refused["names"] += int(np.count_nonzero(~known))
        weights = np.where(batch.n > 0, batch.interval_s[:, None], 0.0)[known]
        cells, cell = np.unique(np.stack([rows[known], minute[known]]), axis=1, return_inverse=True)
        cell, count = cell.reshape(-1), cells.shape[1]
        values = np.full((len(RESOURCES), count), np.nan, np.float32)
        for resource in range(len(RESOURCES)):
            weight = np.bincount(cell, weights[:, resource], count)
            total = np.bincount(cell, weights[:, resource] * batch.mean[known, resource], count)
            values[resource, weight > 0] = (total[weight > 0] / weight[weight > 0]).astype(np.float32)
        seconds = np.asarray(np.bincount(cell, batch.interval_s[known], count), np.float64)
        return Figures(cells[0], (cells[1] + 1) * MINUTE_S, seconds, values)

    def _usage(self, samples: Sequence[Sample], pairs: Names, now_s: float) -> Figures:
        found: list[tuple[int, float, float, tuple[float | None, ...]]] = []
        for sample in samples:
            report = sample.instance_report
            if report is None or not self._is_near(report.at, now_s):
                continue
            told = [(name, means(one)) for name, one in report.entries.items()]
            if report.system is not None:
                told.append(("", means(report.system)))
            for name, each in told:
                row = pairs.row(pair_name(sample.machine, name))
                if row is None:
                    self.refused["names"] += 1
                    continue
                found.append((row, report.at, report.interval_s, each))
        if not found:
            return none_of(len(RESOURCES))
        rows, until, seconds, values = zip(*found, strict=True)
        return Figures(
            np.array(rows, np.int64), np.array(until), np.array(seconds), np.array(values, np.float32).T.copy()
        )
