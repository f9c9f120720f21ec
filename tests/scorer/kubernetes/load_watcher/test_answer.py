"""What a load watcher answers, by rows of windows; no deviation without its mean, whatever is unknown."""

import json
import math

import msgspec
import numpy as np
import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from schemas.process.pages import Pages, metrics_of
from schemas.resources import RESOURCES
from schemas.tables.window_table import decode_table, encode_table
from scorer.kubernetes.load_watcher import watcher as module
from scorer.kubernetes.load_watcher.watcher import LoadWatcher, Metrics, WatcherPages, make_answer
from scorer.snapshot.builder import build_snapshot
from tests.window_tables import GIB, WINDOWS_S, window_table

NOW_S = 1_795_301_775.5
QUARTER = WINDOWS_S.index(900)


def nodes_of(*ages_s, **columns):
    """Return nodes n0, n1, ... whose newest samples have these ages; ``columns``: values by row of the 15 minutes."""
    names = [f"n{row}" for row in range(len(ages_s))]
    table = decode_table(window_table(names, utilization=0.25, capacity=(16.0, 64 * GIB), at=NOW_S))
    changed = {name: column.copy() for name, column in table.columns.items()}
    changed["at"][:] = NOW_S - np.array(ages_s)
    changed["end"][:] = changed["at"] + 7
    for column, values in columns.items():
        name, _, resource = column.partition("_of_")
        whole = changed[name]
        part = whole[QUARTER] if name in ("mean", "std") else whole
        for row, value in values.items():
            part[(RESOURCES.index(resource), row) if resource else row] = value
    return build_snapshot([decode_table(encode_table(table.header, changed, table.names))], {}, {})


def answer_of(snapshot, now_s=NOW_S):
    return make_answer(snapshot, 900, 60.0, now_s)


def test_the_body_is_that_of_a_load_watcher():
    end = math.floor(NOW_S - 3)
    figures = [
        {"name": "windward", "type": kind, "operator": operator, "rollup": "15m", "value": value}
        for kind in ("CPU", "Memory")
        for operator, value in (("AVG", 25.0), ("STD", 2.5))
    ]
    body = msgspec.to_builtins(answer_of(nodes_of(3)).body)
    for one in body["data"]["NodeMetricsMap"]["n0"]["metrics"]:
        one["value"] = round(one["value"], 3)
    assert body == {
        "timestamp": end,
        "window": {"duration": "15m", "start": end - 900, "end": end},
        "source": "Windward",
        "data": {"NodeMetricsMap": {"n0": {"metrics": figures, "tags": {}, "metadata": {}}}},
    }


def test_a_node_without_any_figure_is_left_out():
    nothing = {"mean_of_cpu": {0: math.nan}, "std_of_memory": {0: math.nan}}
    found = answer_of(nodes_of(3, 3, **nothing))
    assert (set(found.body.data.nodes), found.left_out) == ({"n1"}, 1)
    assert make_answer(nodes_of(3, **nothing), 900, 60.0, NOW_S) is None


@pytest.mark.parametrize(
    ("ages_s", "listed", "silent", "end_age_s"),
    [
        ([3, 5, 59], {"n0", "n1", "n2"}, False, 59),
        ([3, 61, 5], {"n0", "n2"}, False, 5),
        ([3, *[900] * 99], {"n0"}, False, 3),
        ([900, 7200], {"n0", "n1"}, True, 7200),
    ],
    ids=["fresh", "one stale", "99 of 100 stale", "all"],
)
def test_a_stale_node_is_left_out_unless_all_are(ages_s, listed, silent, end_age_s):
    """Then the pipeline is silent: the last known load of all, with its true end."""
    found = answer_of(nodes_of(*ages_s))
    assert set(found.body.data.nodes) == listed
    assert (found.silent, found.left_out) == (silent, len(ages_s) - len(listed))
    assert found.body.window.end == math.floor(NOW_S - end_age_s)


def test_an_interval_longer_than_the_limit_is_no_fault():
    snapshot = nodes_of(3, 150, interval_s={1: 60.0})
    assert set(answer_of(snapshot).body.data.nodes) == {"n0", "n1"}
    assert set(answer_of(snapshot, NOW_S + 31).body.data.nodes) == {"n0"}


def test_the_clock_of_a_node_is_corrected():
    assert answer_of(nodes_of(-1, skew={0: 4.0})).body.window.end == math.floor(NOW_S - 3)


@pytest.mark.parametrize("ages_s", [(3.0, 30.0, 20.0), (1.0, 2.0), (900.0, 800.0)])
def test_an_answer_holds_until_a_node_becomes_stale(ages_s):
    snapshot = nodes_of(*ages_s)
    found = answer_of(snapshot)
    if found.silent:
        assert found.until_s == math.inf
    else:
        assert found.until_s == NOW_S - max(ages_s) + 60
        assert answer_of(snapshot, found.until_s) == found
        assert answer_of(snapshot, found.until_s + 0.01) != found


def test_a_window_that_is_not_kept_is_not_replaced_by_another():
    assert make_answer(nodes_of(3), 600, 60.0, NOW_S) is None
    assert make_answer(build_snapshot([], {}, {}), 900, 60.0, NOW_S) is None


@given(
    st.lists(
        st.tuples(*[st.sampled_from([0.0, 2.5, math.nan, math.inf])] * 6, st.sampled_from([-5.0, 3.0, 61.0, 1e5])),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_is_unknown_the_body_is_whole(rows):
    """Each listed node has a mean and a deviation of each type it has, all finite; the window has its length."""
    columns = [f"{name}_of_{resource}" for name in ("mean", "std", "capacity") for resource in ("cpu", "memory")]
    given_columns = {column: {row: one[place] for row, one in enumerate(rows)} for place, column in enumerate(columns)}
    found = make_answer(nodes_of(*[one[-1] for one in rows], **given_columns), 900, 60.0, NOW_S)
    if found is None:
        return
    body = msgspec.json.decode(msgspec.json.encode(found.body))
    assert body["window"]["end"] - body["window"]["start"] == 900
    assert body["window"]["end"] <= body["timestamp"]
    for one in body["data"]["NodeMetricsMap"].values():
        assert [each["operator"] for each in one["metrics"]] == ["AVG", "STD"] * (len(one["metrics"]) // 2)
        assert one["metrics"]
        assert all(math.isfinite(each["value"]) for each in one["metrics"])


class Scene:
    def __init__(self):
        self.now_s = NOW_S
        self.next = None
        self.closed = 0
        self.wire = self
        self.metrics = Metrics("1")
        self.watcher = LoadWatcher(self, self.metrics, 900, 60.0, lambda: self.now_s)
        pages = Pages(metrics_of(self.metrics.registry, "north"), self.watcher.ready)
        self.pages = WatcherPages(self.watcher, pages, self.metrics)

    def refresh(self):
        found, self.next = self.next, None
        if isinstance(found, Exception):
            raise found
        return found

    def close(self):
        self.closed += 1

    def read(self, found):
        self.next = found
        self.watcher.refresh()

    def get(self, path, method="GET", query=""):
        started = []
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": query}
        body = b"".join(self.pages(environ, lambda status, headers: started.append((status, dict(headers)))))
        ((status, headers),) = started
        assert method == "HEAD" or int(headers["Content-Length"]) == len(body)
        return int(status[:3]), body

    def nodes(self, query=""):
        status, body = self.get("/watcher", query=query)
        assert status == 200
        return set(json.loads(body)["data"]["NodeMetricsMap"])

    def value(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def scene():
    return Scene()


@pytest.fixture
def made(monkeypatch):
    found = []
    make = module.make_answer

    def noted(snapshot, *more):
        found.append(snapshot)
        return make(snapshot, *more)

    monkeypatch.setattr(module, "make_answer", noted)
    return found


def test_nothing_known_is_503(scene):
    for path in ("/watcher", "/watcher/health", "/ready"):
        assert scene.get(path)[0] == 503
    assert scene.get("/live")[0] == 200
    scene.read(nodes_of(3))
    for path in ("/watcher", "/watcher/health", "/ready"):
        assert scene.get(path)[0] == 200
    assert scene.value("windward_load_watcher_answers_total", status="503") == 2
    assert scene.value("windward_load_watcher_answers_total", status="200") == 2


def test_one_node_is_asked_about(scene):
    """Unknown, or without fresh data: 404; an empty name asks about all, as with other load watchers."""
    scene.read(nodes_of(3, 5, 100))
    assert scene.nodes() == scene.nodes("host=") == {"n0", "n1"}
    assert scene.nodes("host=n1") == {"n1"}
    for host in ("n2", "n%201", "%FF"):
        assert scene.get("/watcher", query=f"host={host}")[0] == 404
    assert scene.value("windward_load_watcher_answers_total", status="404") == 3


def test_other_pages_and_methods(scene):
    scene.read(nodes_of(3))
    assert scene.get("/watcher", "HEAD") == (200, b"")
    assert scene.get("/watcher", "POST")[0] == 405
    assert scene.get("/watcher/")[0] == 404
    status, body = scene.get("/metrics")
    assert status == 200
    assert b'windward_load_watcher_nodes{fleet="north",state="listed"} 1.0' in body


def test_an_answer_is_made_once_a_snapshot(scene, made):
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


def test_while_redis_is_away_the_last_load_is_known(scene, caplog):
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


def test_a_window_that_is_not_kept_is_named(scene):
    scene.watcher = LoadWatcher(scene, scene.metrics, 600, 60.0, lambda: NOW_S)
    scene.read(nodes_of(3))
    assert scene.watcher.ready() == (False, {"window": "600s is not kept; kept are 300s, 900s, 3600s"})
