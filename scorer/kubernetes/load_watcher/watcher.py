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
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

import msgspec

from schemas.process.metrics import Table, counter, gauge
from schemas.process.page_server import StartResponse, WsgiApplication
from scorer.kubernetes.load_watcher.answer import Answer, Data, make_answer
from scorer.live.loader import Loader
from scorer.snapshot.snapshot import Snapshot
from scorer.wire import AWAY

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
