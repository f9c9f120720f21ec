"""Shell: lists and watches the pods and nodes of a cluster, by plain HTTP.

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
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar
from urllib.parse import urlencode

import msgspec

from schemas.process.connections import http_connection
from schemas.values.read_json import reader
from scorer.kubernetes.nodes_body import Node, read_node, read_nodes
from scorer.kubernetes.pods_body import Bookmark, Page, Pod, read_list, read_pod

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


@dataclass(frozen=True, kw_only=True)
class ApiServer:
    """The address of the API server; ``tls`` None: not encrypted, for a proxy on loopback."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    token_file: Path | None = None
    silent_s: float = SILENT_S

    def connection(self, timeout_s: float, until_s: Callable[[], float]) -> http.client.HTTPConnection:
        """Return a connection that opens with the first request; ``until_s``: when the whole answer must be there."""
        return http_connection(self.host, self.port, timeout_s, until_s, tls=self.tls is not None, context=self.tls)

    def headers(self) -> dict[str, str]:
        """Return the headers of a request, with the token as its file has it now."""
        given = {} if self.token_file is None else {"Authorization": f"Bearer {self.token_file.read_text().strip()}"}
        return {"Accept": "application/json", **given}

    def pages(self, of: Objects[Listed]) -> Iterator[Page[Listed]]:
        """Yield the objects in pages of one version. Raises ApiError."""
        query = {"limit": str(PAGE)} | ({"fieldSelector": of.selected} if of.selected else {})
        version, seen = "", set[str]()
        while True:
            (body,) = self._lines(of.path, query, self.silent_s, whole=True)
            try:
                page = of.read_list(body)
            except msgspec.DecodeError as error:
                raise ApiError(f"what it answers is no list: {error}: {body[:200]!r}") from None
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
        for line in self._lines(of.path, query, WATCH_S + self.silent_s, opened=opened):
            try:
                event = _read_event(line)
                if event.type == "ERROR":
                    raise ApiError(f"the watch ended: {bytes(event.object)[:200]!r}")
                yield event.type, (_read_bookmark if event.type == "BOOKMARK" else of.read_one)(event.object)
            except msgspec.DecodeError as error:
                raise ApiError(f"an event that cannot be read: {error}") from None

    def _lines(
        self,
        path: str,
        query: dict[str, str],
        timeout_s: float,
        *,
        whole: bool = False,
        opened: Callable[[socket.socket], None] = lambda _: None,
    ) -> Iterator[bytes]:
        """Yield the lines of an answer as they arrive, or the whole answer at once."""
        until_s = time.monotonic() + timeout_s
        connection = self.connection(timeout_s, lambda: until_s)
        try:
            headers = self.headers()
            connection.connect()
            for option, value in _KEEPALIVE.items():
                connection.sock.setsockopt(*option, value)
            opened(connection.sock)
            connection.request("GET", f"{path}?{urlencode(query)}", headers=headers)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise ApiError(f"{answer.status}: {answer.read(200)!r}")
            if whole:
                body = answer.read(PAGE_BYTES_MAX + 1)
                if len(body) > PAGE_BYTES_MAX:
                    raise ApiError(f"a page of more than {PAGE_BYTES_MAX:,} bytes")
                yield body
                return
            while line := answer.readline(LINE_MAX):
                yield line
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(f"{type(error).__name__}: {error}") from None
        finally:
            connection.close()
