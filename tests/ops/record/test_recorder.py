"""One round after another, with sources that go away and a disk that is full."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from kafka.errors import KafkaError

from ops.record.entry import Decision, Gap, Position
from ops.record.folder import Folder
from ops.record.gathering import Gathering
from ops.record.ledger_log import News
from ops.record.metrics import Metrics
from ops.record.reading import Step, steps
from ops.record.recorder import Recorder
from streams.fold.admission import Admission
from tests.ops.record.entries import sample

NOW_S = 1_700_000_040.0


class Sources:
    """A ledger, a state and a topic; ``away``: what does not answer."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.away: set[str] = set()
        self.topic_id = "topic"
        self.offsets: dict[int, int] = {0: 0}
        self.epoch, self.change = "epoch", 0
        self.live: dict[str, bytes] = {}
        self.decision = "0-0"
        self.labels: dict[str, dict[str, str]] = {"m": {}}
        self.operator: dict[str, bytes] = {}
        self.queued: list[bytes] = []

    def connect(self) -> Any:
        """The topic."""
        if "kafka" in self.away:
            raise KafkaError("no broker")
        return self

    def poll(self, timeout_s: float, now_s: float) -> list[Any]:
        """What is queued."""
        if "kafka" in self.away:
            raise KafkaError("no broker")
        taken, self.queued = self.queued, []
        self.offsets[0] += len(taken)
        return [SimpleNamespace(value=raw, key=b"m", timestamp=int(now_s * 1000)) for raw in taken]

    def take_gaps(self, now_s: float) -> list[Gap]:
        """None."""
        return []

    def close(self) -> None:
        """Nothing."""

    def read(self, now_s: float) -> News:
        """A change a round."""
        if "redis" in self.away:
            raise redis.ConnectionError("no server")
        self.change += 1
        self.live["a"] = b'{"id":"a"}'
        return News([b'{"id":"a"}'])

    def read_machines(self) -> None:
        """As they are."""

    def read_decisions(self) -> tuple[list[Decision], Gap | None]:
        """None."""
        return [], None


@pytest.fixture
def sources() -> Sources:
    """Everything is there."""
    return Sources()


def make(path: Path, sources: Any) -> Recorder:
    """A recorder with these sources."""
    folder = Folder(path, 2**24)
    last = folder.take()
    return Recorder(
        folder, sources.connect, sources, sources, Gathering(Admission()), Metrics(),
        position=last.position if last else Position(), version="1", write_s=60.0, clock=lambda: sources.now_s,
    )  # fmt: skip


def read(path: Path) -> list[Step]:
    """What is recorded."""
    return list(steps(path, 0, 1e11))


def finish(recorder: Recorder) -> None:
    """Let a recorder end at once."""
    stop = threading.Event()
    stop.set()
    recorder.run(stop)


def test_an_entry_has_what_came_and_how_far_it_goes(tmp_path: Path, sources: Sources) -> None:
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


def test_a_source_that_is_away_keeps_nothing_else_up(tmp_path: Path, sources: Sources) -> None:
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


def test_an_entry_that_the_disk_refused_is_written_when_there_is_room(
    tmp_path: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_next_recorder_goes_on_where_this_one_stopped(tmp_path: Path, sources: Sources) -> None:
    """By the position of the last entry."""
    recorder = make(tmp_path, sources)
    sources.queued = [sample("m", NOW_S)]
    recorder.take()
    finish(recorder)
    following = make(tmp_path, sources)
    assert following.position.offsets == {"0": 1}
    finish(following)
