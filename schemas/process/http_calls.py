"""Calls over HTTP whose whole answer has a deadline: of an API server, of scraped pages, of the pages of processes."""

import io
import math
import select
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from typing import Any, NamedTuple

FAILED = (OSError, HTTPException)
"""The errors of a server that cannot be reached, or does not speak HTTP."""


class Answer(NamedTuple):
    status: int
    headers: HTTPMessage
    body: bytes

    @property
    def said(self) -> str:
        """Status and the start of the body, for people."""
        return f"{self.status}: {self.body[:200].decode(errors='replace')}"


@dataclass(eq=False)
class HttpCalls:
    """Calls of one server over one connection, which opens with the first one, and again where it was closed.

    A timeout of a connection applies to each read, so a server that sends a byte a second would hold its thread for
    ever. Here it applies to each whole answer, header and body: then TimeoutError is raised.
    """

    host: str
    port: int | None
    answer_s: float
    """How long a whole answer may take."""
    body_bytes_max: int
    tls: bool = False
    context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        made = partial(HTTPSConnection, context=self.context) if self.tls else HTTPConnection
        self.connection = made(self.host, self.port, timeout=self.answer_s)
        self.connection.response_class = self._answer  # type: ignore[assignment]
        self._until_s = math.inf

    def _answer(self, sock: Any, **options: Any) -> HTTPResponse:
        found = HTTPResponse(sock, **options)
        found.fp = io.BufferedReader(_Timed(found.fp.detach(), sock, self._until_s))
        return found

    def begin(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: str | bytes | None = None
    ) -> HTTPResponse:
        """Return an answer whose body is not read yet. Raises `FAILED`."""
        self._until_s = time.monotonic() + self.answer_s
        self.connection.request(method, path, body, dict(headers or {}))
        return self.connection.getresponse()

    def call(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: str | bytes | None = None
    ) -> Answer:
        """Return an answer; the body of a larger one is cut behind ``body_bytes_max`` and one more byte.

        A server may have closed an idle connection, or close it at this moment: a GET over an open one is tried twice.
        Raises `FAILED`.
        """
        is_open = self.connection.sock is not None
        if is_open:
            look = select.poll()
            look.register(self.connection.sock, select.POLLIN)
            if look.poll(0):
                self.close()
        try:
            answer = self.begin(method, path, headers, body)
            found = Answer(answer.status, answer.headers, answer.read(self.body_bytes_max + 1))
        except FAILED as error:
            self.close()
            if is_open and method == "GET" and not isinstance(error, TimeoutError):
                return self.call(method, path, headers)
            raise
        if not answer.isclosed():  # there is more
            self.close()
        return found

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        self.connection.close()


class _Timed(io.RawIOBase):
    """The body of an answer, which must be complete in time."""

    def __init__(self, raw: Any, connection: Any, until_s: float) -> None:
        self._raw, self._connection, self._until_s = raw, connection, until_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the available bytes; raises TimeoutError after the deadline."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer is not whole in time")
        self._connection.settimeout(left_s)
        found: int = self._raw.readinto(buffer)
        return found

    def close(self) -> None:
        self._raw.close()
        super().close()
