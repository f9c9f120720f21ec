"""Shell: reads the windows, keeps the encoded answer, and serves it beside the usual pages.

    GET /watcher             all nodes
    GET /watcher?host=NODE   one of them; 404 where it is not listed
    GET /watcher/health      200 where /watcher answers, else 503

The windows are read by one thread, so a request never waits for Redis. An answer is made when it is first asked for,
once a snapshot: again only for a newer snapshot, or when one of its nodes has become stale. While Redis is away it is
made of the last windows read. 503 is answered only where nothing is known, since the plugins then keep the last answer
for ever.

Chosen: the process is ready where it can answer, also by the last known load; a Service would else take all its
replicas away at once. Measured: to make and encode an answer of 5,000 nodes (1.8 MB) takes 9 ms of a core.

The answer is the load of all nodes over one window, in percent of their capacity. A node's name is its machine's id,
and its capacity is the one in its samples: the plugins multiply by the capacity of the Node, which the kubelet reads on
the same host. A mean and its deviation are listed together or not at all: Trimaran takes a deviation without a mean for
that of an idle node. A resource without a capacity is left out, and a node without any.

A node whose data are stale is left out, which scores 0. While the pipeline is silent (`scorer.ranking.staleness`) all
nodes are listed with their last known load. The end of the window is the oldest of those listed, never now:
TargetLoadPacking adds the pods placed after it. A node's end is the time of its newest sample; the window's end is up
to one slot later, and may be in the future.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

import msgspec
import numpy as np

from schemas.process.metrics import Table, counter, gauge
from schemas.process.page_server import StartResponse, WsgiApplication
from schemas.resources import RESOURCES
from scorer.live.loader import Loader
from scorer.ranking.staleness import fresh_until_s, is_silent
from scorer.snapshot.arrays import Floats
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import AWAY

TYPES = {"cpu": "CPU", "memory": "Memory"}
"""Trimaran's name of each resource that it reads."""
_DECIMALS = 4


class Metric(msgspec.Struct, frozen=True):
    name: str
    type: str
    operator: str
    rollup: str
    value: float


class NodeMetrics(msgspec.Struct, frozen=True):
    """The figures of a node; tags and metadata are Trimaran's, and empty."""

    metrics: list[Metric]
    tags: dict[str, str] = {}
    metadata: dict[str, str] = {}


class Data(msgspec.Struct, frozen=True):
    nodes: Mapping[str, NodeMetrics] = msgspec.field(name="NodeMetricsMap")


class Window(msgspec.Struct, frozen=True):
    """The window of all figures, in whole seconds."""

    duration: str
    start: int
    end: int


class WatcherMetrics(msgspec.Struct, frozen=True):
    """The body of the answer to ``GET /watcher``."""

    timestamp: int
    window: Window
    source: str
    data: Data


@dataclass(frozen=True)
class Answer:
    """An answer, with the time at which the first of its nodes becomes stale."""

    body: WatcherMetrics
    until_s: float
    left_out: int
    """Machines that had data once and are not listed."""
    silent: bool


def make_answer(snapshot: Snapshot, window_s: int, stale_s: float, now_s: float) -> Answer | None:
    """Return the answer at a time; None without known load of any node.

    ``window_s`` must be one of the tables' windows, else no load is known.
    """
    if window_s not in snapshot.windows_s:
        return None
    until_s = fresh_until_s(snapshot, stale_s)
    silent = is_silent(snapshot, stale_s, now_s)
    figures = _figures(snapshot, window_s)
    known = snapshot.has_data & np.logical_or.reduce([np.isfinite(mean) for mean, _ in figures.values()])
    listed = np.flatnonzero(known if silent else known & (now_s <= until_s))
    if not listed.size:
        return None
    end = math.floor(snapshot.seen_at[listed].min())
    rollup = f"{window_s // 60}m" if window_s % 60 == 0 else f"{window_s}s"
    return Answer(
        WatcherMetrics(
            timestamp=math.floor(snapshot.seen_at[listed].max()),
            window=Window(rollup, end - window_s, end),
            source="Windward",
            data=Data(_nodes(snapshot.names, listed.tolist(), figures, rollup)),
        ),
        until_s=math.inf if silent else float(until_s[listed].min()),
        left_out=snapshot.machines_with_data - int(listed.size),
        silent=silent,
    )


def _figures(snapshot: Snapshot, window_s: int) -> dict[str, tuple[Floats, Floats]]:
    """Return mean and deviation of each type, in percent: both NaN where one of them or the capacity is unknown."""
    windows, capacity, found = snapshot.windows(window_s), snapshot.column("capacity"), {}
    for name, kind in TYPES.items():
        row = RESOURCES.index(name)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, std = 100.0 * windows.mean[row] / capacity[row], 100.0 * windows.std[row] / capacity[row]
        whole = np.isfinite(mean) & np.isfinite(std)
        found[kind] = (np.where(whole, mean, np.nan).round(_DECIMALS), np.where(whole, std, np.nan).round(_DECIMALS))
    return found


def _nodes(
    names: tuple[str, ...], listed: list[int], figures: Mapping[str, tuple[Floats, Floats]], rollup: str
) -> dict[str, NodeMetrics]:
    found: dict[str, list[Metric]] = {names[row]: [] for row in listed}
    for kind, (means, stds) in figures.items():
        for row, mean, std in zip(listed, means[listed].tolist(), stds[listed].tolist(), strict=True):
            if not math.isnan(mean):
                found[names[row]] += (
                    Metric("windward", kind, "AVG", rollup, mean),
                    Metric("windward", kind, "STD", rollup, std),
                )
    return {name: NodeMetrics(metrics) for name, metrics in found.items()}


STATUSES = ("200", "404", "503")


class Metrics(Table):
    """The load watcher's metrics, in a registry of their own; every known label begins at 0."""

    PROCESS = "load_watcher"

    answers = counter("windward_load_watcher_answers", "Answers, by HTTP status", status=STATUSES)
    nodes = gauge(
        "windward_load_watcher_nodes", "Nodes of the last answer made, by state", state=("listed", "left_out")
    )
    end = gauge("windward_load_watcher_window_end_timestamp_seconds", "Oldest window end of the last answer made")
    up = gauge("windward_load_watcher_up", "1 while the windows can be read")


log = logging.getLogger("windward.load_watcher")

_STATUS = {"200": "200 OK", "404": "404 Not Found", "503": "503 Service Unavailable"}


class LoadWatcher:
    """The newest snapshot, and the answer made from it."""

    def __init__(
        self,
        loader: Loader,
        metrics: Metrics,
        window_s: int,
        stale_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._loader = loader
        self._metrics = metrics
        self._window_s, self._stale_s = window_s, stale_s
        self._clock = clock
        self._snapshot: Snapshot | None = None
        self._one_at_a_time = threading.Lock()
        self._made_of: Snapshot | None = None
        self._answer: Answer | None = None
        self._encoded = b""
        self.trouble = ""
        """Why the windows cannot be read; "" while they can."""

    def refresh(self) -> None:
        """Read the windows that changed; while the server is away, keep the last ones."""
        try:
            self._snapshot = self._loader.refresh() or self._snapshot
        except AWAY as error:
            if not self.trouble:
                log.warning("watcher.redis.away", extra={"values": {"error": str(error)}})
            self.trouble = str(error) or type(error).__name__
            self._loader.close()
        else:
            if self.trouble:
                log.info("watcher.redis.back")
            self.trouble = ""
        self._metrics.up.set(not self.trouble)

    def answer(self) -> tuple[Answer | None, bytes]:
        """Return the present answer and its encoded body; None without known load."""
        with self._one_at_a_time:
            snapshot, now_s = self._snapshot, self._clock()
            if snapshot is None:
                return None, b""
            if snapshot is not self._made_of or self._answer is None or now_s > self._answer.until_s:
                self._made_of, self._answer = snapshot, make_answer(snapshot, self._window_s, self._stale_s, now_s)
                self._encoded = msgspec.json.encode(self._answer.body) if self._answer else b""
                self._count(self._answer)
            return self._answer, self._encoded

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether it can answer, and why not, or the numbers of nodes that it lists and leaves out."""
        answer, _ = self.answer()
        details: dict[str, Any] = {"error": self.trouble} if self.trouble else {}
        if answer is None:
            snapshot = self._snapshot
            if snapshot is not None and snapshot.windows_s and self._window_s not in snapshot.windows_s:
                kept = ", ".join(f"{each}s" for each in snapshot.windows_s)
                return False, details | {"window": f"{self._window_s}s is not kept; kept are {kept}"}
            return False, details
        shown = {"nodes": len(answer.body.data.nodes), "left_out": answer.left_out, "silent": answer.silent}
        return True, details | shown

    def _count(self, answer: Answer | None) -> None:
        self._metrics.nodes.labels("listed").set(len(answer.body.data.nodes) if answer else 0)
        self._metrics.nodes.labels("left_out").set(answer.left_out if answer else 0)
        self._metrics.end.set(answer.body.window.end if answer else 0)


class WatcherPages:
    """``/watcher`` and the paths below it as a WSGI application; all others are for ``pages``."""

    def __init__(self, watcher: LoadWatcher, pages: WsgiApplication, metrics: Metrics) -> None:
        self._watcher = watcher
        self._pages = pages
        self._metrics = metrics

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        path, method = environ.get("PATH_INFO", ""), environ["REQUEST_METHOD"]
        if path not in ("/watcher", "/watcher/health") or method not in ("GET", "HEAD"):
            return self._pages(environ, start)
        status, body = self._answer(path, parse_qs(environ.get("QUERY_STRING", "")).get("host", []))
        self._metrics.answers.labels(status).inc()
        start(_STATUS[status], [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [] if method == "HEAD" else [body]

    def _answer(self, path: str, hosts: list[str]) -> tuple[str, bytes]:
        answer, encoded = self._watcher.answer()
        if answer is None:
            return "503", b'{"error":"no load is known"}'
        if path == "/watcher/health":
            return "200", b"{}"
        if not hosts:
            return "200", encoded
        nodes = answer.body.data.nodes
        if hosts[0] not in nodes:
            return "404", b'{"error":"this node is not listed: unknown, or without fresh data"}'
        one = msgspec.structs.replace(answer.body, data=Data({hosts[0]: nodes[hosts[0]]}))
        return "200", msgspec.json.encode(one)
