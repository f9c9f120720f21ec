"""Reading memory from `/proc/meminfo`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streams.agent.collectors import Memory, Reading
from streams.agent.collectors.memory import MemoryBytes


def test_memory_is_total_less_available(use_proc: Callable[[str], None]):
    """Page cache that can be given back is not in use; one read is enough."""
    use_proc("after")
    assert Memory().parse(None, Memory().read(), elapsed_s=0.0) == Reading(10 * 2**30, 16 * 2**30)


@pytest.mark.parametrize(
    ("now", "reading"),
    [
        pytest.param(MemoryBytes(0, 0), None, id="no memory"),
        pytest.param(MemoryBytes(100, 120), Reading(0, 100), id="more available than there is"),
        pytest.param(MemoryBytes(100, -5), Reading(100, 100), id="less than nothing available"),
    ],
)
def test_memory_is_never_negative_nor_more_than_there_is(now: MemoryBytes, reading: Reading | None):
    """What the kernel estimates badly is kept within the machine."""
    assert Memory().parse(None, now, elapsed_s=1.0) == reading
