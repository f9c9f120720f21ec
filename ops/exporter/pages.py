"""The exporter's pages: its own ``/metrics`` on the server that all processes share (`schemas.process.pages`).

``/metrics`` is text or OpenMetrics, gzip on request. With a user and password set all pages but ``/live`` require them;
with a certificate all are served by TLS 1.2 or newer.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import Iterable
from typing import Any

from ops.exporter.exporter import Exporter
from ops.exporter.exposition import OPEN_METRICS, TEXT
from ops.exporter.settings import ExporterSettings
from schemas.process.page_server import PageServer, StartResponse, WsgiApplication
from schemas.process.pages import Pages
from schemas.process.settings import SettingsError

GZIP_LEVEL = 1
"""Higher levels cost more time than they save: the page is very repetitive."""


def metrics_of(exporter: Exporter) -> WsgiApplication:
    """Return the application of ``/metrics``."""

    def answer(environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        open_metrics = "application/openmetrics-text" in environ.get("HTTP_ACCEPT", "")
        body = exporter.render(open_metrics=open_metrics)
        headers = [("Content-Type", OPEN_METRICS if open_metrics else TEXT)]
        if accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
            body = zlib.compress(body, GZIP_LEVEL, wbits=31)
            headers.append(("Content-Encoding", "gzip"))
        start("200 OK", headers)
        return [body]

    return answer


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether a client takes gzip.

    >>> accepts_gzip("deflate, gzip;q=0.5"), accepts_gzip("gzip;q=0"), accepts_gzip("")
    (True, False, False)
    """
    for part in accept_encoding.split(","):
        name, _, parameters = part.strip().partition(";")
        if name.strip() in ("gzip", "*"):
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def serve(exporter: Exporter, settings: ExporterSettings) -> PageServer:
    """Return the server, which answers until `stop`; raises SettingsError naming the setting."""
    context = None
    if settings.metrics_tls_cert_file:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(settings.metrics_tls_cert_file, settings.metrics_tls_key_file)
        except OSError as error:
            given = settings.metrics_tls_cert_file
            raise SettingsError(f"metrics_tls_cert_file: {given} cannot be used: {error}") from None

    credentials = None
    if settings.metrics_username and settings.metrics_password:
        credentials = settings.metrics_username, settings.metrics_password
    return PageServer(
        Pages(metrics_of(exporter), exporter.ready, credentials), settings.metrics_host, settings.metrics_port,
        context=context, connections_max=settings.connections_max, timeout_s=settings.timeout_s,
    )  # fmt: skip
