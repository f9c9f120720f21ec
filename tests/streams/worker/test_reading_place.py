"""Where a worker reads on from beside a rebalance; what is kept of refused messages."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka.errors import MessageSizeTooLargeError
from faust.exceptions import ProducerSendError
from faust.types import TP

from streams.fold.batch import Arrived, Refused
from streams.state.partition import Partition, Position
from streams.worker import reading_place, rejects
from streams.worker.metrics import Metrics
from streams.worker.reading_place import HOLE_SEEKS, SKIP_MESSAGES, ReadingPlace
from streams.worker.rejects import BURST, RATE_HZ, Rejects


class Consumer:
    """Reads partition 0 of a log of 500 messages from some offset; notes what it is told."""

    def __init__(self, offset):
        self.tp = TP("samples", 0)
        self.offset = offset
        self.sought = []
        self.committed = []

    def assignment(self):
        return {self.tp}

    def highwater(self, _tp):
        return 500

    async def position(self, _tp):
        return self.offset

    async def seek_wait(self, to):
        self.sought.append(to[self.tp])

    async def _commit(self, offsets):
        self.committed.append(offsets[self.tp])
        return True


def make_place(next_offset, reading_at=500):
    """Return the reading place of a worker that holds partition 0, read up to an offset of a log of 500 messages."""
    consumer = Consumer(reading_at)
    place = ReadingPlace(SimpleNamespace(consumer=consumer), "samples", Metrics())
    partition = Partition(0, None)
    partition.topic_id, partition.next_offset = "new", next_offset
    return place, consumer, partition


def check(place, partition, *offsets):
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
def test_reading_that_stalls_beyond_the_state_is_put_back(next_offset, reading_at, sought, monkeypatch):
    place, consumer, partition = make_place(next_offset, reading_at)
    monkeypatch.setattr(reading_place, "STALLED_S", 1e-9)

    async def tick_twice():
        await place.mend_stall(partition)
        await place.mend_stall(partition)

    asyncio.run(tick_twice())
    assert consumer.sought == sought


def test_reading_that_goes_on_is_left_alone(monkeypatch):
    """A partition that advanced since the last look is not sought."""
    place, consumer, partition = make_place(0)
    monkeypatch.setattr(reading_place, "STALLED_S", 1e-9)

    async def tick_thrice():
        for _ in range(3):
            await place.mend_stall(partition)
            partition.next_offset += 100

    asyncio.run(tick_thrice())
    assert not consumer.sought


@pytest.mark.parametrize(("topic", "committed"), [("new", [400]), ("old", [])])
def test_only_offsets_of_the_topic_that_is_there_are_committed(topic, committed):
    """An offset of the topic before would have a rebalance put the reading beyond what the new one holds."""
    place, consumer, partition = make_place(400)
    partition.written = Position(topic, 400)
    asyncio.run(place.commit({0: partition.written}, "new"))
    assert consumer.committed == committed


def test_an_offset_is_committed_once():
    """State that was not written since the last commit costs no call."""
    place, consumer, _ = make_place(400)
    for offset in (400, 400, 450):
        asyncio.run(place.commit({0: Position("new", offset)}, "new"))
    assert consumer.committed == [400, 450]


def test_what_comes_next_is_read_without_a_seek():
    place, consumer, partition = make_place(300)
    check(place, partition, 300, 301)
    check(place, partition, 299, 300)
    assert (consumer.sought, partition.next_offset) == ([], 302)


def test_a_hole_is_fetched_again_and_stepped_over_when_it_stays(monkeypatch):
    """The state's offset is sought until the same hole was met too often: then the log itself has it."""
    monkeypatch.setattr(reading_place, "RESEEK_S", 0.0)
    place, consumer, partition = make_place(300)
    for _ in range(HOLE_SEEKS):
        check(place, partition, 400)
    assert consumer.sought == [300] * (HOLE_SEEKS - 1) + [400]
    assert partition.next_offset == 400


@pytest.mark.parametrize(
    ("between", "next_offset"),
    [
        pytest.param(lambda place, partition: check(place, partition, 300), 301, id="a message that came next"),
        pytest.param(lambda place, partition: place.reassigned(), 300, id="a rebalance put it elsewhere"),
    ],
)
def test_the_count_of_a_hole_begins_anew(monkeypatch, between, next_offset):
    monkeypatch.setattr(reading_place, "RESEEK_S", 0.0)
    place, _, partition = make_place(300)
    for _ in range(HOLE_SEEKS - 1):
        check(place, partition, 400)
    between(place, partition)
    check(place, partition, 400)
    assert partition.next_offset == next_offset


def test_seeks_of_a_partition_are_apart():
    """What was fetched before a seek meets the hole again without another seek."""
    place, consumer, partition = make_place(300)
    for _ in range(2 * HOLE_SEEKS):
        check(place, partition, 400)
    assert (consumer.sought, partition.next_offset) == ([300], 300)


@pytest.mark.parametrize(("known", "sought"), [(SKIP_MESSAGES, []), (SKIP_MESSAGES + 1, [10_000])])
def test_many_known_messages_are_skipped(known, sought):
    """Reading thousands of messages again takes longer than a seek."""
    place, consumer, partition = make_place(10_000)
    check(place, partition, 10_000 - known)
    assert consumer.sought == sought


class Topic:
    """A topic that takes records of at most ``bytes_max`` bytes; ``answer`` is what the broker says of each."""

    def __init__(self, bytes_max=1_000_000, answer=None):
        self.bytes_max, self.answer = bytes_max, answer
        self.records = []

    async def send(self, **record):
        if len(record["value"] or b"") + len(record["key"] or b"") > self.bytes_max:
            raise ProducerSendError("too large") from MessageSizeTooLargeError()
        self.records.append(record)
        answer = asyncio.get_running_loop().create_future()
        if self.answer is None:
            answer.set_result(None)
        elif not isinstance(self.answer, TimeoutError):
            answer.set_exception(self.answer)
        return answer


def refused(*values, reason="malformed", key=b"m"):
    return [(Arrived(7 + n, value, 0.0, key), Refused(n, reason, "why")) for n, value in enumerate(values)]


def count(metrics, outcome):
    return metrics.registry.get_sample_value("windward_stream_rejects_total", {"outcome": outcome}) or 0.0


def keep(topic, *batches, seconds=0.0):
    """Keep batches, so many seconds apart; return what was counted."""
    metrics, now = Metrics(), [0.0]
    keeper = Rejects(topic, metrics, lambda: now[0])

    async def run():
        for batch in batches:
            await keeper.keep(3, batch)
            now[0] += seconds

    asyncio.run(run())
    return metrics


def test_a_refused_message_is_kept_unchanged_with_its_place():
    """Value and key as they came; reason, detail, partition, offset and length as headers."""
    topic = Topic()
    keep(topic, refused(b"{", None))
    headers = {"reason": b"malformed", "detail": b"why", "partition": b"3", "offset": b"7", "bytes": b"1"}
    assert topic.records[0] == {"key": b"m", "value": b"{", "headers": headers}
    assert topic.records[1]["value"] is None


@pytest.mark.parametrize("key", [b"m", b"k" * 2_000_000], ids=["short key", "long key"])
def test_a_message_larger_than_kafka_takes_is_cut(key):
    """Its whole length is in the headers; its neighbours are kept."""
    topic = Topic()
    metrics = keep(topic, refused(b"a", b"x" * 2_000_000, b"b", key=key))
    assert [len(record["value"]) for record in topic.records] == [1, rejects.VALUE_BYTES_MAX, 1]
    assert topic.records[1]["headers"]["bytes"] == b"2000000"
    assert (count(metrics, "kept"), count(metrics, "lost")) == (3, 0)


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param(Topic(bytes_max=0), id="Faust refuses to send"),
        pytest.param(Topic(answer=MessageSizeTooLargeError()), id="the broker refuses"),
        pytest.param(Topic(answer=ConnectionError("gone")), id="the connection ends"),
        pytest.param(Topic(answer=TimeoutError()), id="no answer"),
    ],
)
def test_a_message_that_cannot_be_kept_stops_nothing(topic, monkeypatch):
    monkeypatch.setattr(rejects, "SEND_WAIT_S", 0.01)
    metrics = keep(topic, refused(b"{", b"["))
    assert (count(metrics, "kept"), count(metrics, "lost")) == (0, 2)


def test_a_broker_that_does_not_answer_is_not_waited_for_at_each_batch(monkeypatch):
    """Half a minute passes before the next try; what comes meanwhile is counted as lost."""
    monkeypatch.setattr(rejects, "SEND_WAIT_S", 0.01)
    topic = Topic(answer=TimeoutError())
    metrics = keep(topic, *[refused(b"{")] * 5, seconds=rejects.PAUSE_S / 4)
    assert len(topic.records) == 2
    assert count(metrics, "lost") == 5


def test_a_flood_is_sampled():
    """A burst of one reason, then some a second; another reason has room of its own."""
    topic = Topic()
    metrics = keep(topic, refused(*[b"{"] * 5000), refused(*[b"{"] * 5000), refused(b"", reason="empty"), seconds=2)
    kept = BURST + int(2 * RATE_HZ)
    assert sum(record["headers"]["reason"] == b"malformed" for record in topic.records) == kept
    assert sum(record["headers"]["reason"] == b"empty" for record in topic.records) == 1
    assert count(metrics, "left-out") == 10_000 - kept
