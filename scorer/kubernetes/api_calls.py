"""Shell: single calls of the API server, over one open connection per thread."""

import http.client
import select
import threading
import time
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec

from schemas.values.read_json import read_as
from scorer.kubernetes.pods_api import LINE_MAX, ApiServer
from scorer.kubernetes.pods_body import UNREADABLE

ANSWER_S = 3.0
"""How long an answer of the API server may take."""
RETRY_S_MAX = 3600.0


class NoAnswer(Exception):
    """The API server has not answered a request."""


class _Done(msgspec.Struct, rename="camel"):
    kind: Literal["Status"]
    api_version: Literal["v1"]
    status: Literal["Success"]


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after_s: float = 0.0
    """When the server wants the call repeated; 0: not stated."""

    @property
    def said(self) -> str:
        """Status and the start of the body, for people."""
        return f"{self.status}: {self.body[:200].decode(errors='replace')}"


def pod_path(namespace: str, name: str, part: str = "") -> str:
    """Return the path of a pod, or of a part of it.

    >>> pod_path("shop", "db-0", "/binding")
    '/api/v1/namespaces/shop/pods/db-0/binding'
    """
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}{part}"


class Calls:
    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._own = threading.local()

    def post(self, path: str, body: bytes) -> Answer:
        """Return the answer to a POST; a success that does not come from the API server counts as no answer.

        Raises NoAnswer.
        """
        answer = self.call("POST", path, body)
        try:
            if answer.status < http.client.BAD_REQUEST:
                read_as(answer.body, _Done)
        except UNREADABLE:
            raise NoAnswer(f"not of the API server: {answer.said}") from None
        return answer

    def call(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Return an answer. A connection may be closed at this moment, so a GET is tried twice. Raises NoAnswer."""
        for again in (method == "GET", False):
            connection = self._connection()
            try:
                headers = self._api.headers() | {"Content-Type": "application/json"}
                self._own.until_s = time.monotonic() + ANSWER_S
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                after = answer.headers.get("Retry-After", "")
                body = answer.read(LINE_MAX)
                return Answer(answer.status, body, min(float(after), RETRY_S_MAX) if after.isdecimal() else 0.0)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                del self._own.connection
                if not again:
                    raise NoAnswer(f"{type(error).__name__}: {error}") from None
        raise AssertionError

    def _connection(self) -> http.client.HTTPConnection:
        if not hasattr(self._own, "connection"):
            self._own.connection = self._api.connection(ANSWER_S, lambda: self._own.until_s)
        connection: http.client.HTTPConnection = self._own.connection
        if connection.sock is not None:
            look = select.poll()
            look.register(connection.sock, select.POLLIN)
            if look.poll(0):
                connection.close()  # the next request opens it again
        return connection
