"""When windows are said to be written: by the clock of Redis, whatever the worker's own says."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from streams.worker.app import StreamApp
from tests.rows import each_row


@each_row("ahead_s", [0.0, -120.0, 120.0])
def test_a_worker_dates_its_writes_by_the_clock_of_redis(ahead_s: float) -> None:
    """A worker two minutes behind wrote windows that looked two minutes old to every scorer."""
    saved: list[float] = []

    async def save(_partition: object, now_s: float) -> int:
        saved.append(now_s)
        return 0

    counter = SimpleNamespace(inc=lambda _: None)
    worker: Any = SimpleNamespace(
        store=SimpleNamespace(save=save), clock_ahead_s=ahead_s, metrics=SimpleNamespace(rewritten=counter),
        health=SimpleNamespace(answered=lambda _: None),
    )  # fmt: skip
    assert asyncio.run(StreamApp._save(worker, SimpleNamespace(number=0)))  # type: ignore[arg-type]
    assert saved == [pytest.approx(time.time() - ahead_s, abs=10.0)]
