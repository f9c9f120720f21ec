"""Samples and reports as figures; rounds with sources that go away and a disk that is full."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
import redis
from kafka.errors import KafkaError

from ops.record.entry import Position
from ops.record.folder import Folder, steps
from ops.record.gathering import Gathering, Names
from ops.record.ledger_log import News
from ops.record.recorder import Metrics, Recorder
from schemas.messages.sample import InstanceMeans, InstanceReport
from streams.fold.admission import Admission
from tests.ops.record.entries import sample

NOW_S = 1_700_000_040.0


class Sources:
    """A ledger, a state and a topic; ``away``: what does not answer."""

    def __init__(self):
        self.now_s = NOW_S
        self.away = set()
        self.topic_id = "topic"
        self.offsets = {0: 0}
        self.epoch, self.change = "epoch", 0
        self.live = {}
        self.decision = "0-0"
        self.labels = {"m": {}}
        self.operator = {}
        self.queued = []

    def connect(self):
        if "kafka" in self.away:
            raise KafkaError("no broker")
        return self

    def poll(self, timeout_s, now_s):
        if "kafka" in self.away:
            raise KafkaError("no broker")
        taken, self.queued = self.queued, []
        self.offsets[0] += len(taken)
        return [SimpleNamespace(value=raw, key=b"m", timestamp=int(now_s * 1000)) for raw in taken]

    def take_gaps(self, now_s):
        return []

    def close(self):
        """Nothing."""

    def read(self, now_s):
        if "redis" in self.away:
            raise redis.ConnectionError("no server")
        self.change += 1
        self.live["a"] = b'{"id":"a"}'
        return News([b'{"id":"a"}'])

    def read_machines(self):
        """As they are."""

    def read_decisions(self):
        return [], None


@pytest.fixture
def sources():
    return Sources()


def make(path, sources):
    folder = Folder(path, 2**24)
    last = folder.take()
    return Recorder(
        folder, sources.connect, sources, sources, Gathering(Admission()), Metrics(),
        position=last.position if last else Position(), version="1", write_s=60.0, clock=lambda: sources.now_s,
    )  # fmt: skip


def read(path):
    return list(steps(path, 0, 1e11))


def finish(recorder):
    stop = threading.Event()
    stop.set()
    recorder.run(stop)


def test_an_entry_has_what_came_and_how_far_it_goes(tmp_path, sources):
    """The first has the whole state, the next what changed."""
    recorder = make(tmp_path, sources)
    sources.queued = [sample("m", NOW_S)]
    assert recorder.take()
    recorder.write()
    sources.now_s += 60
    recorder.write()
    assert recorder.ready() == (True, {"trouble": ""})
    first, second = read(tmp_path)
    assert first.first
    assert first.entry.instances == [b'{"id":"a"}'] * 2
    assert len(first.load) == 1
    assert first.entry.position == Position("topic", {"0": 1}, "epoch", 1, "0-0")
    assert first.entry.facts["m"].capacity == {"cpu": 8.0}
    assert second.entry.facts == {}
    assert second.entry.operator is None
    assert (second.entry.full, second.entry.instances) == (False, [b'{"id":"a"}'])
    finish(recorder)


def test_a_source_that_is_away_keeps_nothing_else_up(tmp_path, sources):
    """Its place does not move; it is told, and goes on when it is back."""
    recorder = make(tmp_path, sources)
    sources.away = {"redis"}
    sources.queued = [sample("m", NOW_S)]
    recorder.take()
    recorder.write()
    assert not recorder.ready()[0]
    sources.away = {"kafka"}
    assert not recorder.take()
    recorder.write()
    sources.away = set()
    assert recorder.take()
    recorder.write()
    assert recorder.ready()[0]
    places = [(step.entry.position.offsets, step.entry.position.change) for step in read(tmp_path)]
    assert places == [({"0": 1}, 0), ({"0": 1}, 1), ({"0": 1}, 2)]
    finish(recorder)


def test_an_entry_that_the_disk_refused_is_written_when_there_is_room(tmp_path, sources, monkeypatch):
    """The same one, once; until then no message is taken."""
    recorder = make(tmp_path, sources)
    recorder.write()
    sources.queued = [sample("m", NOW_S)]
    recorder.take()
    with monkeypatch.context() as full:
        full.setattr("ops.record.folder.os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left")))
        recorder.write()
        recorder.write()
    assert not recorder.ready()[0]
    recorder.write()
    assert recorder.ready()[0]
    assert [len(step.load) for step in read(tmp_path)] == [0, 1]
    finish(recorder)


def test_the_next_recorder_goes_on_where_this_one_stopped(tmp_path, sources):
    recorder = make(tmp_path, sources)
    sources.queued = [sample("m", NOW_S)]
    recorder.take()
    finish(recorder)
    following = make(tmp_path, sources)
    assert following.position.offsets == {"0": 1}
    finish(following)


MINUTE = NOW_S - NOW_S % 60


def gathered(*raw, keys=None):
    """Messages taken, each under its machine's key unless told otherwise."""
    gathering = Gathering(Admission())
    gathering.take(raw, [NOW_S + 60] * len(raw), keys or [b"m"] * len(raw))
    return gathering


def test_samples_of_a_minute_are_one_figure():
    """Weighted by their length; one whose middle lies in the next minute counts there."""
    raw = [sample("m", MINUTE + at, cpu) for at, cpu in ((10, 1.0), (20, 3.0), (64, 5.0), (66, 9.0))]
    load, usage = gathered(*raw).figures(Names(), Names(), NOW_S)
    assert load.until_s.tolist() == [MINUTE + 60, MINUTE + 120]
    assert load.seconds.tolist() == [30.0, 10.0]
    assert load.values[0].tolist() == [3.0, 9.0]
    assert np.isnan(load.values[1:]).all()
    assert not len(usage)


def test_a_report_is_a_figure_for_each_instance_and_for_what_belongs_to_none():
    entries = {"a": InstanceMeans(cpu=1.5, memory=1e9), "b": InstanceMeans(memory=2e9)}
    report = InstanceReport(at=MINUTE + 9, interval_s=60.0, entries=entries, system=InstanceMeans(cpu=0.5))
    pairs = Names()
    _, usage = gathered(sample("m", MINUTE + 10, instance_report=report)).figures(Names(), pairs, NOW_S)
    assert pairs.take() == ["m\ta", "m\tb", "m\t"]
    assert pairs.take() == []
    assert usage.until_s.tolist() == [MINUTE + 9] * 3
    np.testing.assert_array_equal(usage.values[0], np.array([1.5, np.nan, 0.5], np.float32))
    np.testing.assert_array_equal(usage.values[1], np.array([1e9, 2e9, np.nan], np.float32))


def test_what_cannot_be_used_is_counted():
    """A foreign key, no message, a clock that is days off; the rest is recorded."""
    good = sample("m", MINUTE)
    far = sample("m", MINUTE - 10 * 86_400)
    gathering = gathered(good, good, b"{", far, keys=[b"m", b"other", b"m", b"m"])
    load, _ = gathering.figures(Names(), Names(), NOW_S)
    assert len(load) == 1
    assert gathering.take_refused() == {"key": 1, "malformed": 1, "far": 1}
    assert gathering.take_refused() == {}


def test_names_are_bounded(monkeypatch):
    monkeypatch.setattr("ops.record.gathering.NAMES_MAX", 1)
    raw = [sample(name, MINUTE + at) for name, at in (("m", 10), ("n", 10), ("m", 20))]
    gathering = gathered(*raw, keys=[b"m", b"n", b"m"])
    load, _ = gathering.figures(Names(), Names(), NOW_S)
    assert load.row.tolist() == [0]
    assert gathering.take_refused() == {"names": 1}


def test_the_capacity_is_that_of_the_last_sample():
    gathering = gathered(sample("m", MINUTE))
    gathering.figures(Names(), Names(), NOW_S)
    assert gathering.capacity == {"m": {"cpu": 8.0}}
