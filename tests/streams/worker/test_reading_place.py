"""Where a worker reads on from, beside a consumer that a rebalance has put elsewhere.

A restarted broker meets that moment once in dozens of times, so the consumer here is a stand-in that is there already.
"""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from faust.types import TP

from streams.fold.batch import Arrived
from streams.fold.table import Table
from streams.state.partition import Partition, Position
from streams.worker import reading_place
from streams.worker.metrics import Metrics
from streams.worker.reading_place import HOLE_SEEKS, SKIP_MESSAGES, ReadingPlace


class Consumer:
    """Reads partition 0 of a log of 500 messages from some offset; notes what it is told."""

    def __init__(self, offset: int) -> None:
        self.tp = TP("samples", 0)
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


def make_place(next_offset: int, reading_at: int = 500) -> tuple[ReadingPlace, Consumer, Partition]:
    """Return the reading place of a worker that holds partition 0, read up to an offset of a log of 500 messages."""
    consumer = Consumer(reading_at)
    place = ReadingPlace(SimpleNamespace(consumer=consumer), "samples", Metrics())
    partition = Partition(0, cast("Table", None))
    partition.topic_id, partition.next_offset = "new", next_offset
    return place, consumer, partition


def check(place: ReadingPlace, partition: Partition, *offsets: int) -> None:
    """Let messages of these offsets arrive."""
    before = partition.next_offset
    beyond = partition.take([Arrived(offset, b"", 0.0, None) for offset in offsets])
    asyncio.run(place.check(partition, partition.next_offset - before, offsets[-1], beyond))


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
    place, consumer, partition = make_place(next_offset, reading_at)
    monkeypatch.setattr(reading_place, "STALLED_S", 1e-9)

    async def tick_twice() -> None:
        await place.mend_stall(partition)
        await place.mend_stall(partition)

    asyncio.run(tick_twice())
    assert consumer.sought == sought


def test_reading_that_goes_on_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that advanced since the last look is not sought."""
    place, consumer, partition = make_place(0)
    monkeypatch.setattr(reading_place, "STALLED_S", 1e-9)

    async def tick_thrice() -> None:
        for _ in range(3):
            await place.mend_stall(partition)
            partition.next_offset += 100

    asyncio.run(tick_thrice())
    assert not consumer.sought


@pytest.mark.parametrize(("topic", "committed"), [("new", [400]), ("old", [])])
def test_only_offsets_of_the_topic_that_is_there_are_committed(topic: str, committed: list[int]) -> None:
    """An offset of the topic before would have a rebalance put the reading beyond what the new one holds."""
    place, consumer, partition = make_place(400)
    partition.written = Position(topic, 400)
    asyncio.run(place.commit({0: partition.written}, "new"))
    assert consumer.committed == committed


def test_an_offset_is_committed_once() -> None:
    """State that was not written since the last commit costs no call."""
    place, consumer, _ = make_place(400)
    for offset in (400, 400, 450):
        asyncio.run(place.commit({0: Position("new", offset)}, "new"))
    assert consumer.committed == [400, 450]


def test_what_comes_next_is_read_without_a_seek() -> None:
    """Neither does a message that is known already move the reading."""
    place, consumer, partition = make_place(300)
    check(place, partition, 300, 301)
    check(place, partition, 299, 300)
    assert (consumer.sought, partition.next_offset) == ([], 302)


def test_a_hole_is_fetched_again_and_stepped_over_when_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state's offset is sought until the same hole was met too often: then the log itself has it."""
    monkeypatch.setattr(reading_place, "RESEEK_S", 0.0)
    place, consumer, partition = make_place(300)
    for _ in range(HOLE_SEEKS):
        check(place, partition, 400)
    assert consumer.sought == [300] * (HOLE_SEEKS - 1) + [400]
    assert partition.next_offset == 400


def test_a_hole_that_closes_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The count of a hole begins anew after a message that came next."""
    monkeypatch.setattr(reading_place, "RESEEK_S", 0.0)
    place, _, partition = make_place(300)
    for _ in range(HOLE_SEEKS - 1):
        check(place, partition, 400)
    check(place, partition, 300)
    check(place, partition, 400)
    assert partition.next_offset == 301


def test_seeks_of_a_partition_are_apart() -> None:
    """What was fetched before a seek meets the hole again without another seek."""
    place, consumer, partition = make_place(300)
    for _ in range(2 * HOLE_SEEKS):
        check(place, partition, 400)
    assert (consumer.sought, partition.next_offset) == ([300], 300)


@pytest.mark.parametrize(("known", "sought"), [(SKIP_MESSAGES, []), (SKIP_MESSAGES + 1, [10_000])])
def test_many_known_messages_are_skipped(known: int, sought: list[int]) -> None:
    """Reading thousands of messages again takes longer than a seek."""
    place, consumer, partition = make_place(10_000)
    check(place, partition, 10_000 - known)
    assert consumer.sought == sought


def test_a_rebalance_begins_the_count_of_holes_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The consumer was put elsewhere: what it met before says nothing."""
    monkeypatch.setattr(reading_place, "RESEEK_S", 0.0)
    place, _, partition = make_place(300)
    for _ in range(HOLE_SEEKS - 1):
        check(place, partition, 400)
    place.reassigned()
    check(place, partition, 400)
    assert partition.next_offset == 300
