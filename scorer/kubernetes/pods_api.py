"""Shell: lists and watches the pods of a cluster, by plain HTTP.

    for page in api.pages(): ...              # the last page's version is where the watch begins
    for kind, pod in api.watch(version): ...  # until the server ends it, after two minutes at most

Only bound pods that have not ended are asked for: the server tells of one that is bound as ADDED, of one that has ended
as DELETED. Every error is an `ApiError`, after which one lists again. A watch that is silent for longer than its end is
an error, too: the connection is dead. The token is read for every call, since the kubelet renews its file.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from scorer.kubernetes.pods_body import Pod, PodList, read_list, read_pod

PAGE = 500
"""Pods a page of a list."""
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
    """The API server cannot be asked, or answers no."""


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_read_event = msgspec.json.Decoder(_Event).decode


@dataclass(frozen=True, kw_only=True)
class ApiServer:
    """Where the API server is; ``tls`` None: not encrypted, for a proxy on loopback."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    token_file: Path | None = None
    silent_s: float = SILENT_S

    def pages(self) -> Iterator[PodList]:
        """Yield the pods in pages of one version. Raises ApiError."""
        query = {"limit": str(PAGE), "fieldSelector": SELECTED}
        while True:
            (body,) = self._lines(query, self.silent_s, whole=True)
            try:
                page = read_list(body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ApiError(f"a list that cannot be read: {error}") from None
            yield page
            if not page.metadata.continue_:
                return
            query["continue"] = page.metadata.continue_

    def watch(
        self, version: str, opened: Callable[[socket.socket], None] = lambda _: None
    ) -> Iterator[tuple[str, Pod]]:
        """Yield what changes after a version, ``BOOKMARK`` for a version alone. Raises ApiError.

        ``opened`` is given the connection: another thread ends the watch by shutting it down.
        """
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", "fieldSelector": SELECTED}
        query["timeoutSeconds"] = str(WATCH_S)
        for line in self._lines(query, WATCH_S + self.silent_s, opened=opened):
            try:
                event = _read_event(line)
                pod = read_pod(event.object) if event.type != "ERROR" else None
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ApiError(f"an event that cannot be read: {error}") from None
            if pod is None:
                raise ApiError(f"the watch ended: {bytes(event.object)[:200]!r}")
            yield event.type, pod

    def _lines(
        self,
        query: dict[str, str],
        timeout_s: float,
        *,
        whole: bool = False,
        opened: Callable[[socket.socket], None] = lambda _: None,
    ) -> Iterator[bytes]:
        """Yield the lines of an answer as they come, or all of it at once."""
        if self.tls is None:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=self.tls)
        try:
            headers = {"Accept": "application/json"}
            if self.token_file is not None:
                headers["Authorization"] = f"Bearer {self.token_file.read_text().strip()}"
            connection.connect()
            for option, value in _KEEPALIVE.items():
                connection.sock.setsockopt(*option, value)
            opened(connection.sock)
            connection.request("GET", f"/api/v1/pods?{urlencode(query)}", headers=headers)
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise ApiError(f"{answer.status}: {answer.read(200)!r}")
            if whole:
                yield answer.read()
                return
            while line := answer.readline(LINE_MAX):
                yield line
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(f"{type(error).__name__}: {error}") from None
        finally:
            connection.close()
