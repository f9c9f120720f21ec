"""Lists and watches of a made-up API server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scorer.kubernetes import api_calls, pods_api
from scorer.kubernetes.pods_api import PODS, SELECTED, ApiError, ApiServer
from scorer.kubernetes.pods_body import Bookmark, OnePod
from tests.dripping import dripping


class Server(ThreadingHTTPServer):
    """Gives its answers one after the other: status and lines; None holds an answer open."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, list[Any]]] = []
        self.asked: list[dict[str, str]] = []
        self.tokens: list[str | None] = []
        self.done = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """One call."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append({name: one for name, (one,) in parse_qs(urlsplit(self.path).query).items()})
        self.server.tokens.append(self.headers["Authorization"])
        status, lines = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            if line is None:
                self.server.done.wait(30)
                return
            data = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    """Return a running server."""
    made = Server()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.done.set()
    made.shutdown()
    thread.join()
    made.server_close()


def api(server: Server, **other: Any) -> ApiServer:
    """Return the server as it is asked."""
    return ApiServer(host="127.0.0.1", port=server.server_port, **other)


def pod(uid: str, version: str = "6") -> dict[str, Any]:
    """Return a pod."""
    about = {"name": "p", "namespace": "shop", "uid": uid, "resourceVersion": version}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": about, "spec": {"containers": []}, "status": {}}


def page(uid: str, **metadata: str) -> dict[str, Any]:
    """Return a page with one pod."""
    about = {"resourceVersion": "7"} | metadata
    return {"kind": "PodList", "apiVersion": "v1", "metadata": about, "items": [pod(uid)]}


def test_a_list_is_read_page_by_page(server: Server, tmp_path: Path) -> None:
    """Each with the mark of the one before; the token is read for each."""
    token = tmp_path / "token"
    token.write_text("one\n")
    server.answers = [(200, [page("a", **{"continue": "abc"})]), (200, [page("b")])]
    uids = []
    for one in api(server, token_file=token).pages(PODS):
        uids += [pod.metadata.uid for pod in one.items]
        token.write_text("two\n")
    assert uids == ["a", "b"]
    assert [asked.get("continue") for asked in server.asked] == [None, "abc"]
    assert {asked["fieldSelector"] for asked in server.asked} == {SELECTED}
    assert server.tokens == ["Bearer one", "Bearer two"]


def test_a_watch_yields_events_until_its_end(server: Server) -> None:
    """From a version on; a bookmark has a version alone."""
    one = pod("a", "8")
    mark = {"metadata": {"resourceVersion": "9"}}
    server.answers = [(200, [{"type": "ADDED", "object": one}, {"type": "BOOKMARK", "object": mark}])]
    found = [(kind, type(one), one.metadata.resource_version) for kind, one in api(server).watch(PODS, "7")]
    assert found == [("ADDED", OnePod, "8"), ("BOOKMARK", Bookmark, "9")]
    assert (server.asked[0]["resourceVersion"], server.asked[0]["watch"]) == ("7", "1")


def test_an_event_comes_before_the_answer_ends(server: Server) -> None:
    """Nothing waits for a full buffer."""
    server.answers = [(200, [{"type": "ADDED", "object": pod("a")}, None])]
    events = api(server).watch(PODS, "7")
    assert next(events)[1].metadata.resource_version == "6"
    events.close()  # type: ignore[attr-defined]


GONE = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((410, [b"gone"]), id="the version is too old"),
        pytest.param((403, [b"forbidden"]), id="no right"),
        pytest.param((200, [GONE]), id="too old, as an event"),
        pytest.param((200, [b'{"type": "ADDED", "obj\n']), id="cut off"),
        pytest.param((200, [b"\xff\n"]), id="no text"),
        pytest.param((200, [None]), id="silent"),
        pytest.param((200, [{"type": "DELETED", "object": {}}]), id="no pod"),
        pytest.param((200, [{"type": "GONE", "object": pod("a")}]), id="no known event"),
        pytest.param((200, [{"status": "ok"}]), id="of another service"),
    ],
)
def test_every_error_is_one(server: Server, monkeypatch: pytest.MonkeyPatch, answer: tuple[int, list[Any]]) -> None:
    """After which one lists again."""
    monkeypatch.setattr("scorer.kubernetes.pods_api.WATCH_S", 0)
    server.answers = [answer]
    with pytest.raises(ApiError):
        list(api(server, silent_s=0.2).watch(PODS, "7"))


def test_a_list_that_fails_is_an_error(server: Server) -> None:
    """Whether refused, of something else, or of no server at all."""
    first = page("a", **{"continue": "abc"})
    server.answers = [(500, [b"no"]), (200, [b"<html>"]), (200, [{}]), (200, [page("a") | {"items": None}])]
    server.answers += [(200, [first]), (200, [{}]), (200, [first]), (200, [page("b", resourceVersion="8")])]
    for _ in range(6):
        with pytest.raises(ApiError):
            list(api(server).pages(PODS))
    with pytest.raises(ApiError, match="refused"):
        list(ApiServer(host="127.0.0.1", port=1).pages(PODS))


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"], ids=["head", "body"])
def test_an_answer_that_drips_is_none(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list, an end of a watch and a single call have a deadline for the whole of their answer."""
    monkeypatch.setattr(pods_api, "WATCH_S", 0.1)
    monkeypatch.setattr(api_calls, "ANSWER_S", 0.3)
    with dripping(first) as where:
        host, port = where.split(":")
        api = ApiServer(host=host, port=int(port), silent_s=0.3)
        for ask in (
            lambda: list(api.pages(PODS)),
            lambda: list(api.watch(PODS, "1")),
            lambda: api_calls.Calls(api).call("POST", "/x", b"{}"),
        ):
            begun_s = time.monotonic()
            with pytest.raises((ApiError, api_calls.NoAnswer), match="TimeoutError"):
                ask()
            assert time.monotonic() - begun_s < 2.0
