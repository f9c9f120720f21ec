"""Shell: lists and watches the pods and nodes of a cluster, by plain HTTP; makes single calls.

    for page in api.pages(PODS): ...                # the last page's version is where the watch begins
    for kind, pod in api.watch(PODS, version): ...  # until the server ends it, after two minutes at most

Only pods that are bound and have not ended are requested: the server reports a pod as ADDED when it is bound, and as
DELETED when it has ended. Every error is an `ApiError`, after which one lists again. An answer whose type is neither
list nor event is an error, too, as is a page of another version than the first. A watch that is silent for longer than
its end is an error, too: the connection is dead. The token is read for every call, since the kubelet renews its file.
"""

import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from schemas.process.http_calls import FAILED, Answer, HttpCalls
from schemas.values.read_json import read_or, reader
from scorer.kubernetes.nodes_body import Node, read_node, read_nodes
from scorer.kubernetes.pods_body import Bookmark, OnePod, Page, Pod, read_list, read_pod

PAGE = 500
"""Objects a page of a list."""
PAGES_MAX = 10_000
PAGE_BYTES_MAX = 256 * 2**20
WATCH_S = 120
SILENT_S = 30.0
"""How long an answer may take, beyond the end of a watch."""
LINE_MAX = 8 * 2**20
"""The most bytes of an event; an object of the API server is at most 1.5 MiB in its store."""
_KEEPALIVE = {
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): 30,
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): 5,
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT): 3,
}
"""A connection whose other end is gone is dead after 45 s, though a watch may be silent for longer."""
SELECTED = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"


class ApiError(Exception):
    """The API server cannot be reached, or refuses."""


Listed = TypeVar("Listed", Pod, Node)


@dataclass(frozen=True)
class Objects(Generic[Listed]):
    """Objects of one kind: their path, which of them are requested, how they are decoded."""

    path: str
    selected: str
    read_list: Callable[[bytes], Page[Listed]]
    read_one: Callable[[msgspec.Raw], Listed]


PODS: Objects[Pod] = Objects("/api/v1/pods", SELECTED, read_list, read_pod)
NODES: Objects[Node] = Objects("/api/v1/nodes", "", read_nodes, read_node)


class _Event(msgspec.Struct, frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_read_event = reader(_Event)
_read_bookmark = reader(Bookmark)


ANSWER_S = 3.0
"""How long an answer of the API server may take."""
RETRY_S_MAX = 3600.0


class _Done(msgspec.Struct, rename="camel"):
    kind: Literal["Status"]
    api_version: Literal["v1"]
    status: Literal["Success"]


def pod_path(namespace: str, name: str, part: str = "") -> str:
    """Return the path of a pod, or of a part of it.

    >>> pod_path("shop", "db-0", "/binding")
    '/api/v1/namespaces/shop/pods/db-0/binding'
    """
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}{part}"


@dataclass(kw_only=True)
class ApiServer:
    """The address of the API server, and an open connection per thread for single calls.

    ``tls`` None: not encrypted, for a proxy on loopback.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    token_file: Path | None = None
    silent_s: float = SILENT_S

    def __post_init__(self) -> None:
        self._own = threading.local()

    def calls(self, answer_s: float, body_bytes_max: int) -> HttpCalls:
        """Return a connection that opens with the first call."""
        return HttpCalls(self.host, self.port, answer_s, body_bytes_max, self.tls is not None, self.tls)

    def call(self, method: str, path: str, body: bytes | None = None, calls: HttpCalls | None = None) -> Answer:
        """Return an answer, over this thread's connection or another one of `calls`. Raises ApiError."""
        if calls is None and not hasattr(self._own, "calls"):
            self._own.calls = self.calls(ANSWER_S, LINE_MAX)
        try:
            return (calls or self._own.calls).call(method, path, self.headers(), body)
        except FAILED as error:
            raise ApiError(f"{type(error).__name__}: {error}") from None

    def headers(self) -> dict[str, str]:
        """Return the headers of a request, with the token as its file has it now."""
        given = {} if self.token_file is None else {"Authorization": f"Bearer {self.token_file.read_text().strip()}"}
        return {"Accept": "application/json", "Content-Type": "application/json", **given}

    def post(self, path: str, body: bytes) -> Answer:
        """Return the answer to a POST; a success that does not come from the API server counts as no answer.

        Raises ApiError.
        """
        answer = self.call("POST", path, body)
        if answer.status < http.client.BAD_REQUEST and read_or(answer.body, _Done, None) is None:
            raise ApiError(f"not of the API server: {answer.said}")
        return answer

    def evict(self, pod: Pod, *, dry_run: bool) -> Answer:
        """Request the eviction of this pod, and of no other with its name, within its disruption budgets.

        Reference: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/. Raises ApiError.
        """
        about = pod.metadata
        options = {"preconditions": {"uid": about.uid}} | ({"dryRun": ["All"]} if dry_run else {})
        body = {
            "apiVersion": "policy/v1", "kind": "Eviction", "deleteOptions": options,
            "metadata": {"name": about.name, "namespace": about.namespace},
        }  # fmt: skip
        return self.post(pod_path(about.namespace, about.name, "/eviction"), msgspec.json.encode(body))

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, None where there is none. Raises ApiError."""
        answer = self.call("GET", pod_path(namespace, name))
        pod = read_or(answer.body, OnePod, None) if answer.status == http.client.OK else None
        if pod is None and answer.status != http.client.NOT_FOUND:
            raise ApiError(f"not a pod: {answer.said}")
        return pod

    def pages(self, of: Objects[Listed]) -> Iterator[Page[Listed]]:
        """Yield the objects in pages of one version. Raises ApiError."""
        query = {"limit": str(PAGE)} | ({"fieldSelector": of.selected} if of.selected else {})
        version, seen = "", set[str]()
        with closing(self.calls(self.silent_s, PAGE_BYTES_MAX)) as calls:
            while True:
                answer = self.call("GET", f"{of.path}?{urlencode(query)}", calls=calls)
                if answer.status != http.client.OK or len(answer.body) > PAGE_BYTES_MAX:
                    raise ApiError(f"refused, or a page of more than {PAGE_BYTES_MAX:,} bytes: {answer.said}")
                try:
                    page = of.read_list(answer.body)
                except msgspec.DecodeError as error:
                    raise ApiError(f"what it answers is no list: {error}: {answer.said}") from None
                if version not in ("", page.metadata.resource_version):
                    raise ApiError(f"a page of version {page.metadata.resource_version!r} in a list of {version!r}")
                version = page.metadata.resource_version
                yield page
                if not (token := page.metadata.continue_):
                    return
                if token in seen or len(seen) == PAGES_MAX:
                    raise ApiError(f"its list has no end: {token[:80]!r} comes again, or is of page {len(seen) + 2}")
                seen.add(token)
                query["continue"] = token

    def watch(
        self, of: Objects[Listed], version: str, opened: Callable[[socket.socket], None] = lambda _: None
    ) -> Iterator[tuple[str, Listed | Bookmark]]:
        """Yield the changes after a version, ``BOOKMARK`` for a new version alone. Raises ApiError.

        ``opened`` is given the connection: another thread ends the watch by shutting it down.
        """
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        query |= {"timeoutSeconds": str(WATCH_S)} | ({"fieldSelector": of.selected} if of.selected else {})
        calls = self.calls(WATCH_S + self.silent_s, LINE_MAX)
        try:
            calls.connection.connect()
            for option, value in _KEEPALIVE.items():
                calls.connection.sock.setsockopt(*option, value)
            opened(calls.connection.sock)
            answer = calls.begin("GET", f"{of.path}?{urlencode(query)}", self.headers())
            if answer.status != http.client.OK:
                raise ApiError(f"{answer.status}: {answer.read(200)!r}")
            while line := answer.readline(LINE_MAX):
                event = _read_event(line)
                if event.type == "ERROR":
                    raise ApiError(f"the watch ended: {bytes(event.object)[:200]!r}")
                yield event.type, (_read_bookmark if event.type == "BOOKMARK" else of.read_one)(event.object)
        except msgspec.DecodeError as error:
            raise ApiError(f"an event that cannot be read: {error}") from None
        except FAILED as error:
            raise ApiError(f"{type(error).__name__}: {error}") from None
        finally:
            calls.close()


def retry_after_s(answer: Answer) -> float:
    """Return when the server wants the call repeated; 0: not stated."""
    after = answer.headers.get("Retry-After", "")
    return min(float(after), RETRY_S_MAX) if after.isdecimal() else 0.0
