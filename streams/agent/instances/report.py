"""Reports of measured instances: their parts, and when they are sent. Pure: times are arguments."""

from collections import deque

import msgspec

from schemas.messages.sample import ENTRIES_MAX, PARTS_MAX, InstanceMeans, InstanceReport, Sample
from streams.agent.instances.meter import Measured, Meter, Moment
from streams.agent.sampling.counts import Counts

PART_BYTES = 12_000
"""The most bytes of the entries in one part: with its sample it is below the limit of a message."""

GAP_S = 7200.0
"""After so long without a read there is no report: the counters are read as at a start."""


class Reporter:
    """Adds the parts of reports to samples: a first report with the first sample, then one every ``interval_s``.

    A report begins only after all parts of the one before were added. When there are more instances than fit into the
    samples of an interval, reports are less frequent.
    """

    def __init__(self, meter: Meter, interval_s: float, counts: Counts) -> None:
        self._meter = meter
        self._interval_s = interval_s
        self._counts = counts
        self._before: Moment | None = None
        self._read_s = 0.0
        self._reported_at: float | None = None
        self._waiting: deque[InstanceReport] = deque()

    def start(self, monotonic_s: float) -> None:
        """Read the counters from which the first report's rates are computed."""
        self._before, self._read_s = self._meter.read(0.0), monotonic_s

    def attach(self, sample: Sample, monotonic_s: float) -> Sample:
        """Return the sample with the next part of a report; unchanged when none is due or there is no instance."""
        due = self._reported_at is None or sample.at - self._reported_at >= self._interval_s - sample.interval_s / 2
        if not self._waiting and due:
            self._reported_at = sample.at
            self._waiting.extend(self._report(sample.at, monotonic_s))
        if not self._waiting:
            return sample
        return msgspec.structs.replace(sample, instance_report=self._waiting.popleft())

    def _report(self, at: float, monotonic_s: float) -> list[InstanceReport]:
        elapsed_s = monotonic_s - self._read_s
        before, now = self._before, self._meter.read(elapsed_s)
        self._before, self._read_s = now, monotonic_s
        if before is None or not 0 < elapsed_s <= GAP_S:
            return []
        measured = self._meter.between(before, now, elapsed_s)
        self._counts.instances = len(measured.entries)
        if not measured.entries:
            return []
        self._counts.instance_reports += 1
        return parts(measured, at, round(elapsed_s, 3))


def parts(measured: Measured, at: float, interval_s: float) -> list[InstanceReport]:
    """Return a report in up to `PARTS_MAX` parts; instances beyond them are left out."""
    divided: list[dict[str, InstanceMeans]] = [{}]
    size = 0
    for instance_id, one in measured.entries.items():
        own = len(msgspec.json.encode(instance_id)) + len(msgspec.json.encode(one)) + 2
        if divided[-1] and (size + own > PART_BYTES or len(divided[-1]) == ENTRIES_MAX):
            divided.append({})
            size = 0
        divided[-1][instance_id] = one
        size += own
    divided = divided[:PARTS_MAX]
    return [
        InstanceReport(
            at=at,
            interval_s=interval_s,
            part=number,
            parts=len(divided),
            system=measured.system if number == 1 else None,
            entries=entries,
        )
        for number, entries in enumerate(divided, 1)
    ]
