"""When windows are said to be written: by the clock of Redis, whatever the worker's own says."""

import asyncio
import time
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from streams.worker.app import StreamApp


@pytest.mark.parametrize("ahead_s", [0.0, -120.0, 120.0])
def test_a_worker_dates_its_writes_by_the_clock_of_redis(ahead_s):
    """A worker two minutes behind wrote windows that looked two minutes old to every scorer."""
    told = []

    async def save(_partition, now_s):
        told.append(now_s)
        return False

    def write_due(now_s):
        told.append(now_s)
        return True

    async def fold(_partition):
        pass

    partition = SimpleNamespace(write_due=write_due, resuming=False)
    gauge = SimpleNamespace(observe=lambda _: None, set=lambda _: None)
    worker = SimpleNamespace(
        _flush_lock=asyncio.Lock(), holdings=SimpleNamespace(held=[partition]), clock_ahead_s=ahead_s, _fold=fold,
        _save=save, metrics=SimpleNamespace(flush_s=gauge, flushed=gauge),
    )  # fmt: skip
    with patch("streams.worker.app.refresh_tables", lambda _changed, now_s: told.append(now_s)):
        asyncio.run(StreamApp._flush(worker))
    assert told == [pytest.approx(time.time() - ahead_s, abs=10.0)] * 3
