"""The load watcher's pages: what is answered when, and that an answer is made once a snapshot."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import pytest
import redis

from schemas.process.pages import Pages, metrics_of
from scorer.kubernetes.load_watcher import watcher as module
from scorer.kubernetes.load_watcher.metrics import Metrics
from scorer.kubernetes.load_watcher.watcher import LoadWatcher, WatcherPages
from scorer.live.loader import Loader
from scorer.snapshot.snapshot import Snapshot
from tests.scorer.kubernetes.load_watcher.test_answer import NOW_S, nodes_of


class Scene:
    """A load watcher whose snapshots and clock are given by the test."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.next: Snapshot | Exception | None = None
        self.closed = 0
        self.wire = self
        self.metrics = Metrics("1")
        self.watcher = LoadWatcher(cast(Loader, self), self.metrics, 900, 60.0, lambda: self.now_s)
        pages = Pages(metrics_of(self.metrics.registry, "north"), self.watcher.ready)
        self.pages = WatcherPages(self.watcher, pages, self.metrics)

    def refresh(self) -> Snapshot | None:
        """Be the loader: return what is new."""
        found, self.next = self.next, None
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Be the loader's connection."""
        self.closed += 1

    def read(self, found: Snapshot | Exception | None) -> None:
        """Have the load watcher read this."""
        self.next = found
        self.watcher.refresh()

    def get(self, path: str, method: str = "GET", query: str = "") -> tuple[int, bytes]:
        """Return status and body of a request."""
        started: list[tuple[str, dict[str, str]]] = []
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
        body = b"".join(self.pages(environ, lambda status, headers: started.append((status, dict(headers)))))
        ((status, headers),) = started
        assert method == "HEAD" or int(headers["Content-Length"]) == len(body)
        return int(status[:3]), body

    def nodes(self, query: str = "") -> set[str]:
        """Return the nodes that are listed."""
        status, body = self.get("/watcher", query=query)
        assert status == 200
        return set(json.loads(body)["data"]["NodeMetricsMap"])

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def scene() -> Scene:
    """A load watcher that has read nothing."""
    return Scene()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The snapshots of which answers were made, in order."""
    found: list[Any] = []
    make: Callable[..., Any] = module.make_answer

    def noted(snapshot: Snapshot, *more: Any) -> Any:
        found.append(snapshot)
        return make(snapshot, *more)

    monkeypatch.setattr(module, "make_answer", noted)
    return found


def test_nothing_known_is_503(scene: Scene) -> None:
    """Then alone: the plugins would keep an older answer for ever."""
    for path in ("/watcher", "/watcher/health", "/ready"):
        assert scene.get(path)[0] == 503
    assert scene.get("/live")[0] == 200
    scene.read(nodes_of(3))
    for path in ("/watcher", "/watcher/health", "/ready"):
        assert scene.get(path)[0] == 200
    assert scene.value("windward_load_watcher_answers_total", status="503") == 2
    assert scene.value("windward_load_watcher_answers_total", status="200") == 2


def test_one_node_is_asked_about(scene: Scene) -> None:
    """Unknown, or without fresh data: 404; an empty name asks about all, as with other load watchers."""
    scene.read(nodes_of(3, 5, 100))
    assert scene.nodes() == scene.nodes("host=") == {"n0", "n1"}
    assert scene.nodes("host=n1") == {"n1"}
    for host in ("n2", "n%201", "%FF"):
        assert scene.get("/watcher", query=f"host={host}")[0] == 404
    assert scene.value("windward_load_watcher_answers_total", status="404") == 3


def test_other_pages_and_methods(scene: Scene) -> None:
    """HEAD has no body; the usual pages are served beside it, and nothing else is."""
    scene.read(nodes_of(3))
    assert scene.get("/watcher", "HEAD") == (200, b"")
    assert scene.get("/watcher", "POST")[0] == 405
    assert scene.get("/watcher/")[0] == 404
    status, body = scene.get("/metrics")
    assert status == 200
    assert b'windward_load_watcher_nodes{fleet="north",state="listed"} 1.0' in body


def test_an_answer_is_made_once_a_snapshot(scene: Scene, made: list[Any]) -> None:
    """However many ask; a new snapshot or a node that becomes stale makes another."""
    first, second = nodes_of(3, 20), nodes_of(1, 2)
    scene.read(first)
    assert [scene.get("/watcher") for _ in range(5)][1:] == [scene.get("/watcher")] * 4
    scene.nodes("host=n1")
    scene.get("/ready")
    assert made == [first]
    scene.read(None)
    scene.get("/watcher")
    assert made == [first]
    scene.now_s += 41
    assert scene.nodes() == {"n0"}
    assert made == [first, first]
    assert scene.value("windward_load_watcher_nodes", state="left_out") == 1
    scene.read(second)
    assert scene.nodes() == {"n0", "n1"}
    assert made == [first, first, second]


def test_while_redis_is_away_the_last_load_is_known(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """Said once, and why on /ready; when all nodes are stale the end stays the true one."""
    scene.read(nodes_of(3, 5))
    end = json.loads(scene.get("/watcher")[1])["window"]["end"]
    with caplog.at_level("INFO"):
        for _ in range(2):
            scene.read(redis.ConnectionError("no route"))
        scene.now_s += 7200
        assert scene.nodes() == {"n0", "n1"}
        assert json.loads(scene.get("/watcher")[1])["window"]["end"] == end
        status, body = scene.get("/ready")
        assert (status, json.loads(body)) == (
            200, {"ready": True, "error": "no route", "nodes": 2, "left_out": 0, "silent": True},
        )  # fmt: skip
        assert scene.value("windward_load_watcher_up") == 0
        scene.read(None)
    assert scene.value("windward_load_watcher_up") == 1
    assert "error" not in json.loads(scene.get("/ready")[1])
    said = [record.message for record in caplog.records if record.message.startswith("watcher.")]
    assert said == ["watcher.redis.away", "watcher.redis.back"]
    assert scene.closed == 2


def test_a_window_that_is_not_kept_is_named(scene: Scene) -> None:
    """With those that are."""
    scene.watcher = LoadWatcher(cast(Loader, scene), scene.metrics, 600, 60.0, lambda: NOW_S)
    scene.read(nodes_of(3))
    assert scene.watcher.ready() == (False, {"window": "600s is not kept; kept are 300s, 900s, 3600s"})
