"""Where a worker reads on from, beside a consumer that a rebalance has put elsewhere.

A restarted broker meets that moment once in dozens of times, so the consumer here is a stand-in that is there already.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from faust.types import TP

from streams import app as shell
from streams.app import StreamApp
from streams.partition import Partition, Position
from streams.settings import StreamSettings
from streams.table import Table


class Consumer:
    """Reads partition 0 of a log of 500 messages from some offset; notes what it is told."""

    def __init__(self, topic: str, offset: int) -> None:
        self.tp = TP(topic, 0)
        self.offset = offset
        self.sought: list[int] = []
        self.committed: list[int] = []

    def assignment(self) -> set[TP]:
        return {self.tp}

    def highwater(self, _tp: TP) -> int:
        return 500

    async def position(self, _tp: TP) -> int:
        return self.offset

    async def seek_wait(self, to: dict[TP, int]) -> None:
        self.sought.append(to[self.tp])

    async def _commit(self, offsets: dict[TP, int]) -> bool:
        self.committed.append(offsets[self.tp])
        return True


def make_worker(next_offset: int, reading_at: int = 500) -> tuple[StreamApp, Consumer, Partition]:
    """Return a worker that holds partition 0, read up to an offset of a log of 500 messages."""
    settings = StreamSettings()
    worker = StreamApp(settings, cast("Any", None))
    consumer = Consumer(settings.names.samples_topic, reading_at)
    worker.app.consumer = cast("Any", consumer)
    partition = Partition(0, cast("Table", None))
    partition.topic_id, partition.next_offset = "new", next_offset
    worker.topic_id, worker.owned, worker.partitions = "new", {0}, {0: partition}
    return worker, consumer, partition


@pytest.mark.parametrize(
    ("next_offset", "reading_at", "sought"),
    [
        pytest.param(0, 500, [0], id="beyond all of it"),
        pytest.param(300, 500, [300], id="beyond the rest"),
        pytest.param(300, 300, [], id="at the state's end: its turn has not come"),
        pytest.param(500, 500, [], id="at the log's end: there is nothing to come"),
    ],
)
def test_reading_that_stalls_beyond_the_state_is_put_back(
    next_offset: int, reading_at: int, sought: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state's own offset is sought."""
    worker, consumer, partition = make_worker(next_offset, reading_at)
    monkeypatch.setattr(shell, "STALLED_S", 1e-9)

    async def tick_twice() -> None:
        await worker._mend_stall(partition)
        await worker._mend_stall(partition)

    asyncio.run(tick_twice())
    assert consumer.sought == sought


def test_reading_that_goes_on_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that advanced since the last look is not sought."""
    worker, consumer, partition = make_worker(0)
    monkeypatch.setattr(shell, "STALLED_S", 1e-9)

    async def tick_thrice() -> None:
        for _ in range(3):
            await worker._mend_stall(partition)
            partition.next_offset += 100

    asyncio.run(tick_thrice())
    assert not consumer.sought


@pytest.mark.parametrize(("topic", "committed"), [("new", [400]), ("old", [])])
def test_only_offsets_of_the_topic_that_is_there_are_committed(topic: str, committed: list[int]) -> None:
    """An offset of the topic before would have a rebalance put the reading beyond what the new one holds."""
    worker, consumer, partition = make_worker(400)
    partition.written = Position(topic, 400)
    asyncio.run(worker._commit())
    assert consumer.committed == committed
