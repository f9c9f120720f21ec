"""The pages a process serves when asked to: ``/metrics``, ``/live`` (it runs), ``/ready`` (it does its work)."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from schemas.settings import SettingsError


def serve_pages(
    registry: CollectorRegistry, host: str, port: int, ready: Callable[[], tuple[bool, dict[str, Any]]]
) -> ThreadingHTTPServer:
    """Serve the pages from a daemon thread; return the server, whose ``server_address`` tells the port.

    ``ready`` returns yes or no and details for a person; no makes the page answer 503. Raises SettingsError when the
    address cannot be had.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._send(200, generate_latest(registry), CONTENT_TYPE_LATEST)
            elif self.path == "/live":
                self._send(200, b'{"live":true}', "application/json")
            elif self.path == "/ready":
                yes, details = ready()
                self._send(200 if yes else 503, json.dumps({"ready": yes, **details}).encode(), "application/json")
            else:
                self._send(404, b"/metrics /live /ready\n", "text/plain")

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing: a scrape is no event."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise SettingsError(f"metrics_port: cannot listen on {host}:{port}: {error.strerror}") from None
    server.daemon_threads = True
    Thread(target=server.serve_forever, name="pages", daemon=True).start()
    return server
