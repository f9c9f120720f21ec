"""Shell: single calls of the API server, over one open connection per thread."""

import http.client
import select
import threading
import time
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec

from schemas.values.read_json import read_or
from scorer.kubernetes.pods_api import LINE_MAX, ApiError, ApiServer
from scorer.kubernetes.pods_body import OnePod, Pod

ANSWER_S = 3.0
"""How long an answer of the API server may take."""
RETRY_S_MAX = 3600.0


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

    def call(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Return an answer. A connection may be closed at this moment, so a GET is tried twice. Raises ApiError."""
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
                    raise ApiError(f"{type(error).__name__}: {error}") from None
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
