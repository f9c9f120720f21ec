"""A recorded fleet: a load trace, replayed as if it happened now. `recording_file` reads one.

**What is published.** Every reading is the value of the cell that contains its time. A trace of 300 s steps has no
variation within them, and none is added. An interval within one cell has a standard deviation of zero and a maximum
equal to its mean. One that spans several cells, with a higher ``speed``, has theirs. Where the trace has no sample the
resource is left out; without any sample nothing is published.

**Pace.** ``speed`` seconds of the trace pass in each second. Event times are always those of the wall clock, since a
message from the future would be refused.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from streams.load_generator.source.recording_file import RecordingError, Trace
from streams.load_generator.source.source import Float, Machines


class Recording:
    """A trace replayed so that its moment ``start_s`` falls on ``origin_s``, epoch s."""

    def __init__(
        self,
        trace: Trace,
        *,
        origin_s: float,
        start_s: float = 0.0,
        speed: float = 1.0,
        at_end: Literal["loop", "stop"] = "loop",
        count: int | None = None,
        prefix: str = "",
    ) -> None:
        if not 0 <= start_s < trace.length_s:
            raise RecordingError(f"start_s: the recording is {trace.length_s:g} s long, got {start_s:g}")
        if count is not None and count > len(trace.names):
            raise RecordingError(f"machines: the recording has {len(trace.names)}, got {count}")
        chosen = slice(count)
        names = [prefix + name for name in trace.names[chosen]]
        self.machines = Machines(names=names, labels=[{} for _ in names], capacity=trace.capacity[:, chosen])
        self._trace = trace
        self._origin_s = origin_s
        self._start_s = start_s
        self._speed = speed
        self._loop = at_end == "loop"

    def usage(self, rows: NDArray[np.int64], times_s: Float) -> Float:
        """Return usage in the resources' units, [R, K, m]; NaN where the trace has no sample."""
        trace = self._trace
        position_s = self._start_s + (times_s - self._origin_s) * self._speed
        cells = np.floor((position_s - trace.phase_s[rows]) / trace.cell_s).astype(np.int64)
        length = trace.utilization.shape[-1]
        outside = np.zeros_like(cells, bool) if self._loop else (cells < 0) | (cells >= length)
        utilization = trace.utilization[:, rows, cells % length].astype(np.float64)
        utilization[:, outside] = np.nan
        return utilization * self.machines.capacity[:, None, rows]

    def over(self, epoch_s: float) -> bool:
        """Return whether the trace has been replayed to its end."""
        return not self._loop and self._start_s + (epoch_s - self._origin_s) * self._speed >= self._trace.length_s
