"""Shell: the verbs over HTTP: ``POST /prioritize``, ``/filter``, ``/bind``. What fails is answered by 200, too.

A connection may be idle for longer than the 90 s after which Go closes it: POSTs would be lost otherwise. A body is at
most `BODY_BYTES_MAX`, which names of 30,000 nodes do not reach, and whole nodes do soon.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from schemas.process.page_server import PEER, PageServer, StartResponse
from scorer.kubernetes.extender.protocol import encode
from scorer.kubernetes.extender.verbs import Verbs

BODY_BYTES_MAX = 2 * 2**20
CONNECTIONS_MAX = 256
IDLE_S = 120
THREADS = 8
_JSON, _PLAIN = "application/json", "text/plain; charset=utf-8"


class VerbPages:
    """The verbs as a WSGI application."""

    def __init__(self, verbs: Verbs, client_names: Sequence[str] = ()) -> None:
        self._verbs: dict[str, Callable[[bytes], object]] = {
            "/prioritize": verbs.prioritize,
            "/filter": verbs.filter,
            "/bind": verbs.bind,
        }
        self._client_names = frozenset(client_names)

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        status, kind, body = self._answer(environ)
        start(status, [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    def _answer(self, environ: dict[str, Any]) -> tuple[str, str, bytes]:
        if self._client_names and not self._client_names & names_of(environ.get(PEER) or {}):
            return "403 Forbidden", _PLAIN, b"the certificate has none of the names in client_names\n"
        verb = self._verbs.get(environ.get("PATH_INFO", ""))
        if verb is None:
            return "404 Not Found", _PLAIN, b"/prioritize /filter /bind\n"
        if environ["REQUEST_METHOD"] != "POST":
            return "405 Method Not Allowed", _PLAIN, b"POST\n"
        return "200 OK", _JSON, encode(verb(environ["wsgi.input"].read()))


def names_of(certificate: dict[str, Any]) -> set[str]:
    """Return the names in a client's certificate: of its subject, and of DNS.

    >>> sorted(names_of({"subject": ((("commonName", "a"),),), "subjectAltName": (("DNS", "b"), ("URI", "c"))}))
    ['a', 'b']
    """
    subject = {value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"}
    return subject | {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}


def serve(
    verbs: Verbs, host: str, port: int, context: ssl.SSLContext | None = None, client_names: Sequence[str] = ()
) -> PageServer:
    """Return the server, which answers until it is stopped. Raises SettingsError."""
    return PageServer(
        VerbPages(verbs, client_names), host, port, context=context, connections_max=CONNECTIONS_MAX,
        timeout_s=IDLE_S, body_bytes_max=BODY_BYTES_MAX, threads=THREADS, setting="listen_port",
    )  # fmt: skip
