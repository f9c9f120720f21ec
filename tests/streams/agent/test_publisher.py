"""The publisher against producers that fail in every way kafka-python's does; what the library says; the clock."""

import logging
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError, NotLeaderForPartitionError
from kafka.partitioner.default import DefaultPartitioner

from schemas.process.logs import OncePerMinute
from streams.agent.broker_clock import KEPT, BrokerClock
from streams.agent.producer import CachingPartitioner
from streams.agent.publisher import Publisher
from streams.agent.sampling.backlog import Record
from tests.support.pages import eventually

DEADLINE_S = 10.0


def records(*numbers):
    return [Record(b"m", str(number).encode()) for number in numbers]


class Result:
    def __init__(self):
        self._done = threading.Event()
        self.exception = None
        self.value = SimpleNamespace(timestamp=0)

    @property
    def is_done(self):
        return self._done.is_set()

    def resolve(self, exception=None):
        self.exception = exception
        self._done.set()
        return self

    def get(self, timeout=None):
        if not self._done.wait(timeout):
            raise KafkaTimeoutError("not yet")
        if self.exception:
            raise self.exception


class Broker:
    """What the test scripts: connecting and each record's fate; it keeps what was delivered, in order."""

    def __init__(self):
        self.connect_error = None
        self.fate = lambda value: None
        self.raises = lambda value: None
        self.silent = False
        self.delivered = []
        self.unanswered = []
        self.connections = 0
        self.closed = 0
        self.ahead_s = None
        """How far the agent's clock is ahead of the broker's; None: the topic keeps the sender's times."""

    def connect(self):
        """Build a producer: the broker itself plays it."""
        if self.connect_error:
            raise self.connect_error
        self.connections += 1
        return self

    def send(self, topic, value, key, *, timestamp_ms):
        assert (topic, key) == ("samples", b"m")
        if error := self.raises(value):
            raise error
        result = Result()
        taken_ms = timestamp_ms if self.ahead_s is None else int(1e3 * (time.time() - self.ahead_s))
        result.value = SimpleNamespace(timestamp=taken_ms)
        if self.silent:
            self.unanswered.append((int(value), result))
            return result
        failure = self.fate(value)
        if failure is None:
            self.delivered.append(int(value))
        return result.resolve(failure)

    def answer(self):
        self.silent = False
        for number, result in self.unanswered:
            self.delivered.append(number)
            result.resolve()
        self.unanswered = []

    def close(self, timeout):
        """Count it; complain as kafka-python does of records without a result."""
        self.closed += 1
        if self.unanswered:
            raise KafkaTimeoutError("Timeout waiting for future")


@contextmanager
def publishing(broker, limit=100, in_flight_most=10):
    publisher = Publisher(broker.connect, "samples", limit, in_flight_most, backoff_s=(0.001, 0.01))
    publisher.start()
    try:
        yield publisher
    finally:
        broker.connect_error = None
        publisher.close(0.0)


@pytest.mark.parametrize("error", [KafkaTimeoutError("no bootstrap"), OSError("unreachable")])
def test_it_starts_before_its_broker_and_drops_the_oldest(error):
    """Seven records into a backlog of five: the five newest are delivered when the broker comes, two are counted."""
    broker = Broker()
    broker.connect_error = error
    with publishing(broker, limit=5) as publisher:
        publisher.publish(records(*range(4)))
        publisher.publish(records(*range(4, 7)))
        assert publisher.counts.dropped == 2
        broker.connect_error = None
        assert publisher.wait_until_empty(DEADLINE_S)
    assert broker.delivered == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("how", ["fate", "raises"])
@pytest.mark.parametrize("error", [KafkaTimeoutError("expired"), NotLeaderForPartitionError(), KafkaError("fatal")])
def test_a_broker_that_went_away_gets_everything_when_it_is_back(how, error):
    """Failed futures and failed sends go back in order, the producer is built anew, nothing is lost."""
    broker = Broker()
    failures = iter([error] * 3)
    with publishing(broker, in_flight_most=4) as publisher:
        publisher.publish(records(0))
        assert publisher.wait_until_empty(DEADLINE_S)
        setattr(broker, how, lambda value: next(failures, None) if int(value) >= 2 else None)
        publisher.publish(records(*range(1, 12)))
        assert publisher.wait_until_empty(DEADLINE_S)
    assert sorted(set(broker.delivered)) == list(range(12))
    assert publisher.counts.send_failures >= 1
    assert publisher.counts.connections == 1 + publisher.counts.send_failures
    assert publisher.counts.dropped == 0
    assert broker.closed == broker.connections


def test_the_oldest_give_way_while_it_is_away_in_the_middle():
    """What failed goes back to the front of a backlog that has filled up, and is what gives way."""
    broker = Broker()
    with publishing(broker, limit=5, in_flight_most=3) as publisher:
        broker.silent = True
        publisher.publish(records(0, 1, 2))
        eventually(lambda: len(broker.unanswered) == 3)
        publisher.publish(records(3, 4, 5, 6))
        broker.silent = False
        held, broker.unanswered = broker.unanswered, []
        for _, result in held:
            result.resolve(KafkaTimeoutError("expired"))
        assert publisher.wait_until_empty(DEADLINE_S)
    assert broker.delivered == [2, 3, 4, 5, 6]
    assert publisher.counts.dropped == 2


def test_no_more_than_the_bound_is_ever_in_flight():
    """kafka-python's queue has no bound of its own: the rest stays in the backlog."""
    broker = Broker()
    broker.silent = True
    with publishing(broker, in_flight_most=4) as publisher:
        publisher.publish(records(*range(20)))
        eventually(lambda: len(broker.unanswered) == 4)
        eventually(lambda: publisher.counts.waiting == 16)
        assert not publisher.wait_until_empty(0.3)
        assert len(broker.unanswered) == 4
        broker.answer()
        assert publisher.wait_until_empty(DEADLINE_S)
    assert broker.delivered == list(range(20))


@pytest.mark.parametrize("how", ["fate", "raises"])
def test_a_record_at_fault_is_refused_and_its_neighbours_delivered(how):
    """Too large will be too large again: counted, not tried for ever."""
    broker = Broker()
    setattr(broker, how, lambda value: MessageSizeTooLargeError() if value == b"1" else None)
    with publishing(broker) as publisher:
        publisher.publish(records(0, 1, 2))
        assert publisher.wait_until_empty(DEADLINE_S)
    assert broker.delivered == [0, 2]
    assert (publisher.counts.refused, publisher.counts.delivered) == (1, 2)


@pytest.mark.parametrize(
    ("how", "deadline_s", "delivered"),
    [
        pytest.param({}, DEADLINE_S, 20, id="what waits goes out first"),
        pytest.param({"connect_error": KafkaTimeoutError("no bootstrap")}, 0.2, 0, id="the broker stays away"),
        pytest.param({"silent": True}, 0.2, 0, id="no answer comes"),
    ],
)
def test_close_delivers_until_its_deadline(how, deadline_s, delivered):
    """The thread ends all the same, and says how many are left."""
    broker = Broker()
    vars(broker).update(how)
    publisher = Publisher(broker.connect, "samples", 100, 3, backoff_s=(0.001, 0.01))
    publisher.publish(records(*range(20)))
    publisher.start()
    if broker.silent:
        eventually(lambda: len(broker.unanswered) == 3)
    started_s = time.monotonic()
    assert publisher.close(deadline_s) == 20 - delivered
    assert broker.delivered == list(range(delivered))
    assert delivered or time.monotonic() - started_s < 3


def test_a_producer_that_never_answers_is_replaced(monkeypatch):
    """No result for longer than kafka-python itself would wait: a new producer delivers."""
    monkeypatch.setattr("streams.agent.publisher.UNANSWERED_S", 0.2)
    broker = Broker()
    broker.silent = True
    with publishing(broker) as publisher:
        publisher.publish(records(1, 2))
        eventually(lambda: len(broker.unanswered) == 2)
        broker.silent = False
        assert publisher.wait_until_empty(DEADLINE_S)
    assert broker.delivered == [1, 2]
    assert publisher.counts.connections == 2


def test_an_answer_that_takes_a_moment_after_a_pause_is_no_silence(monkeypatch):
    """The time counts from the record that waits, not from the answer before it, nor from the host's start."""
    waits = list[float]()
    monkeypatch.setattr("streams.agent.publisher.wait", lambda future, timeout_s: waits.append(time.sleep(0.01) or 0.0))
    broker = Broker()
    with publishing(broker) as publisher:
        for number in range(2):
            publisher._answered_s = 0.0  # long ago
            broker.silent = True
            publisher.publish(records(number))
            before = len(waits)
            eventually(
                lambda before=before: len(waits) > before + 2 or broker.connections > 1
            )  # looked for, and not there
            broker.answer()
            assert publisher.wait_until_empty(DEADLINE_S)
    assert broker.delivered == [0, 1]
    assert (broker.connections, publisher.counts.send_failures) == (1, 0)


def test_a_caller_that_can_wait_finds_room():
    broker = Broker()
    broker.silent = True
    with publishing(broker, limit=6, in_flight_most=2) as publisher:
        publisher.publish(records(*range(6)))
        eventually(lambda: publisher.counts.waiting == 4)
        assert publisher.wait_for_room(2, DEADLINE_S)
        assert not publisher.wait_for_room(3, 0.05)
        broker.answer()
        assert publisher.wait_for_room(6, DEADLINE_S)
    assert publisher.counts.dropped == 0


class Cluster:
    """As much of kafka-python's cluster as a partitioner asks for."""

    def __init__(self, partitions):
        self.partitions = partitions

    def topics(self):
        return {"samples"}

    def partitions_for_topic(self, topic):
        return set(range(self.partitions))

    available_partitions_for_topic = partitions_for_topic


@pytest.mark.parametrize("partitions", [1, 3, 8, 9])
@pytest.mark.parametrize("key", [b"sim-00001", b"a", b"db1.example.com"])
def test_the_cached_partition_is_kafkas(key, partitions):
    """Asked once or often, before and after the topic grew: what kafka-python itself would choose."""
    cached, cluster = CachingPartitioner(), Cluster(8)
    cached.partition("samples", key, key, b"", b"", cluster)
    cluster.partitions = partitions
    expected = DefaultPartitioner().partition("samples", key, key, b"", b"", cluster)
    assert [cached.partition("samples", key, key, b"", b"", cluster) for _ in range(2)] == [expected, expected]


@pytest.mark.parametrize(("ahead_s", "words"), [(60.0, ["off", "right"]), (-60.0, ["off", "right"]), (0.3, [])])
def test_a_clock_that_is_off_is_said_once_and_again_when_it_is_right(ahead_s, words, caplog):
    """By the times that the broker gives records; they are published all the same."""
    caplog.set_level("INFO", "windward.publisher")
    broker = Broker()
    broker.ahead_s = ahead_s
    with publishing(broker) as publisher:
        for number in range(4):
            publisher.publish(records(number))
            assert publisher.wait_until_empty(DEADLINE_S)
        eventually(lambda: publisher.counts.clock_ahead_s is not None)
        assert publisher.counts.clock_ahead_s == pytest.approx(ahead_s, abs=0.5)
        broker.ahead_s = 0.3
        publisher.publish(records(4))
        eventually(lambda: publisher.counts.clock_ahead_s == pytest.approx(0.3, abs=0.25))
    said = [one.getMessage() for one in caplog.records if "clock" in one.getMessage()]
    assert said == [f"publisher.clock.{word}" for word in words]
    assert publisher.counts.delivered == 5


def record(name, line):
    """Return a log record of one place in one library, with a traceback."""
    error = OSError("gone")
    return logging.LogRecord(name, logging.ERROR, "path", line, "away", (), (OSError, error, error.__traceback__))


def test_a_library_says_each_thing_once_in_a_while():
    """The same line of the library is heard once, another line too, and everybody else always.

    A period of nothing lets everything through, without tracebacks.
    """
    shown = OncePerMinute("kafka")
    assert [shown.filter(record("kafka.net", line)) for line in (1, 1, 2)] == [True, False, True]
    others = ("kafka.cluster", "kafkaesque", "windward.agent", "windward.agent")
    assert [shown.filter(record(name, 1)) for name in others] == [True] * 4
    always, again = OncePerMinute("kafka", period_s=0.0), record("kafka.net", 1)
    assert [always.filter(record("kafka.net", 1)), always.filter(again)] == [True, True]
    assert again.exc_info is None


@pytest.mark.parametrize(
    ("what", "notes", "ahead_s", "is_off"),
    [
        ("nothing was acknowledged", [], None, False),
        ("the topic keeps the sender's times", [(100.0, 100.0, 100.1)], None, False),
        ("right", [(100.0, 100.01, 100.02)], 0.0, False),
        ("ahead", [(100.0, 40.0, 100.2)], 60.1, True),
        ("behind", [(100.0, 160.0, 100.2)], -59.9, True),
        ("a slow answer proves nothing", [(100.0, 100.5, 103.0)], 1.0, False),
        ("the narrowest of several", [(100.0, 100.5, 103.0), (110.0, 110.1, 110.2), (120.0, 120.5, 123.0)], 0.0, False),
        ("the clock was set: what it was does not count", [(100.0, 40.0, 100.1), (50.0, 50.1, 50.2)], 0.0, False),
        ("set while a record was on its way", [(100.0, 40.0, 41.0)], None, False),
    ],
)  # fmt: skip
def test_what_is_known(what, notes, ahead_s, is_off):
    """Each row: the records' times of sending, taking and acknowledgement."""
    clock = BrokerClock()
    for note in notes:
        clock.note(*note)
    assert (clock.ahead_s, clock.is_off) == (ahead_s if ahead_s is None else pytest.approx(ahead_s), is_off), what


def test_a_change_is_told_once():
    clock = BrokerClock()
    assert [clock.note(at, at - 60, at + 0.1) for at in range(100, 110)] == [True, *[False] * 9]
    assert clock.note(150.0, 150.1, 150.2)
    assert not clock.is_off


def test_a_clock_that_drifts_is_noticed():
    """Narrow old pairs do not hide it for longer than there are kept ones."""
    clock = BrokerClock()
    clock.note(0.0, 0.01, 0.02)
    for number in range(1, KEPT + 1):
        clock.note(10.0 * number, 10.0 * number - 0.25 * number, 10.0 * number + 1.5)
    assert clock.ahead_s != 0.0
