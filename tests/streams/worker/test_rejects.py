"""What is kept of refused messages: enough to understand each kind, whatever arrives, and never at the fold's cost."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import MessageSizeTooLargeError
from faust.exceptions import ProducerSendError

from streams.fold.batch import Arrived, Refused
from streams.worker import rejects
from streams.worker.metrics import Metrics
from streams.worker.rejects import BURST, RATE_HZ, Rejects


class Topic:
    """A topic that takes records of at most ``bytes_max`` bytes; ``answer`` is what the broker says of each."""

    def __init__(self, bytes_max: int = 1_000_000, answer: BaseException | None = None) -> None:
        self.bytes_max, self.answer = bytes_max, answer
        self.records: list[dict[str, Any]] = []

    async def send(self, **record: Any) -> Any:
        if len(record["value"] or b"") + len(record["key"] or b"") > self.bytes_max:
            raise ProducerSendError("too large") from MessageSizeTooLargeError()
        self.records.append(record)
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.answer is None:
            answer.set_result(None)
        elif not isinstance(self.answer, TimeoutError):
            answer.set_exception(self.answer)
        return answer


def refused(
    *values: bytes | None, reason: str = "malformed", key: bytes | None = b"m"
) -> list[tuple[Arrived, Refused]]:
    """Refused messages from offset 7 on."""
    return [(Arrived(7 + n, value, 0.0, key), Refused(n, reason, "why")) for n, value in enumerate(values)]


def count(metrics: Metrics, outcome: str) -> float:
    """How many messages came to this."""
    return metrics.registry.get_sample_value("windward_stream_rejects_total", {"outcome": outcome}) or 0.0


def keep(topic: Topic, *batches: list[tuple[Arrived, Refused]], seconds: float = 0.0) -> Metrics:
    """Keep batches, so many seconds apart; return what was counted."""
    metrics, now = Metrics(), [0.0]
    keeper = Rejects(topic, metrics, lambda: now[0])

    async def run() -> None:
        for batch in batches:
            await keeper.keep(3, batch)
            now[0] += seconds

    asyncio.run(run())
    return metrics


def test_a_refused_message_is_kept_unchanged_with_its_place() -> None:
    """Value and key as they came; reason, detail, partition, offset and length as headers."""
    topic = Topic()
    keep(topic, refused(b"{", None))
    headers = {"reason": b"malformed", "detail": b"why", "partition": b"3", "offset": b"7", "bytes": b"1"}
    assert topic.records[0] == {"key": b"m", "value": b"{", "headers": headers}
    assert topic.records[1]["value"] is None


@pytest.mark.parametrize("key", [b"m", b"k" * 2_000_000], ids=["short key", "long key"])
def test_a_message_larger_than_kafka_takes_is_cut(key: bytes) -> None:
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
def test_a_message_that_cannot_be_kept_stops_nothing(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted as lost, whoever refuses it."""
    monkeypatch.setattr(rejects, "SEND_WAIT_S", 0.01)
    metrics = keep(topic, refused(b"{", b"["))
    assert (count(metrics, "kept"), count(metrics, "lost")) == (0, 2)


def test_a_broker_that_does_not_answer_is_not_waited_for_at_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute passes before the next try; what comes meanwhile is counted as lost."""
    monkeypatch.setattr(rejects, "SEND_WAIT_S", 0.01)
    topic = Topic(answer=TimeoutError())
    metrics = keep(topic, *[refused(b"{")] * 5, seconds=rejects.PAUSE_S / 4)
    assert len(topic.records) == 2
    assert count(metrics, "lost") == 5


def test_a_flood_is_sampled() -> None:
    """A burst of one reason, then some a second; another reason has room of its own."""
    topic = Topic()
    metrics = keep(topic, refused(*[b"{"] * 5000), refused(*[b"{"] * 5000), refused(b"", reason="empty"), seconds=2)
    kept = BURST + int(2 * RATE_HZ)
    assert sum(record["headers"]["reason"] == b"malformed" for record in topic.records) == kept
    assert sum(record["headers"]["reason"] == b"empty" for record in topic.records) == 1
    assert count(metrics, "left-out") == 10_000 - kept
