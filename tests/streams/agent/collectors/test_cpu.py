"""Reading CPU time from `/proc/stat`."""

from collections.abc import Callable

import psutil
import pytest

from streams.agent.collectors import Cpu
from streams.agent.collectors.cpu import CpuTimes
from streams.agent.rises import NoReadingError


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
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(9, 20, 4), id="busy went back"),
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(20, 9, 4), id="idle went back"),
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(10, 10, 4), id="no time counted"),
        pytest.param(CpuTimes(10, 10, 1), CpuTimes(8e6, 10.5, 1), id="stolen time by millions of seconds"),
        pytest.param(CpuTimes(10, 10, 4), CpuTimes(10.5, 19, 4), id="more than the cores had time for"),
    ],
)
def test_cpu_has_no_reading(before: CpuTimes, now: CpuTimes):
    """Counters that went back, stood still, or counted more than the time allows."""
    assert Cpu().parse(None, now, elapsed_s=1.0) is None
    with pytest.raises(NoReadingError):
        Cpu().parse(before, now, elapsed_s=1.0)
