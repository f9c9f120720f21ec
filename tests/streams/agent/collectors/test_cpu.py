"""Reading CPU time from `/proc/stat`."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest

from streams.agent.collectors import Cpu
from streams.agent.collectors.cpu import CpuTimes


def test_cpu_is_the_busy_share_of_the_time_counted_times_the_cores(
    use_proc: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    """940 of 2,000 ticks were busy on four cores: user, system, interrupts and steal; guest is not counted twice."""
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    use_proc("before")
    before = Cpu().read()
    use_proc("after")
    reading = Cpu().parse(before, Cpu().read(), elapsed_s=4.9)
    assert reading == (pytest.approx(4 * 940 / 2000), 4.0)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(None, CpuTimes(10, 10, 4), id="first read"),
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(9, 20, 4), id="busy went back"),
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(20, 9, 4), id="idle went back"),
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(10, 10, 4), id="no time counted"),
    ],
)
def test_cpu_has_no_reading(before: CpuTimes | None, now: CpuTimes):
    """A first read, counters that went back and counters that stood still give no reading."""
    assert Cpu().parse(before, now, elapsed_s=1.0) is None
