"""``windward exporter``: export the windowed load to Prometheus until SIGTERM. SIGHUP reads the profiles again."""

import logging
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from ops.exporter.exporter import Exporter
from ops.exporter.exposition import OPEN_METRICS, TEXT
from ops.exporter.settings import ExporterSettings
from ops.exporter.state import Reader
from schemas.process.page_server import PageServer, StartResponse, WsgiApplication, server_context
from schemas.process.pages import Pages, while_accepting
from schemas.process.presence import always_ready, page_of
from schemas.process.run import Process, command
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.live.live_fleet import profiles_of, refuse_modes
from scorer.ranking.profiles.catalogue import load_profiles

log = logging.getLogger("windward.exporter")


SETTINGS = ExporterSettings


def build(settings: ExporterSettings, _environ: Mapping[str, str]) -> Process:
    """Return the process of an exporter; its metrics page is its only page."""
    profiles = profiles_of(settings)
    refuse_modes(settings)
    reader = Reader(settings)
    exporter = Exporter(reader, settings, profiles, product_version())
    server = serve(exporter, settings)
    if settings.exposed and not (settings.metrics_tls_cert_file and settings.metrics_username):
        wanted = "metrics_tls_cert_file, metrics_username"
        log.warning("exporter.page.open", extra={"values": {"host": settings.metrics_host, "settings": wanted}})

    def read_again() -> None:
        exporter.profiles = load_profiles(settings.profiles, settings.profile)

    page = page_of(settings.metrics_host, settings.metrics_port, tls=bool(settings.metrics_tls_cert_file))
    first = {"page": f"{page}/metrics", "prefix": settings.names.prefix}
    ready = while_accepting(server, always_ready)  # whether Redis can be read: its page says that
    close = (reader.close, server.stop)
    return Process(work=Stop.wait, page=page, ready=ready, read_again=read_again, first=first, close=close)


GZIP_LEVEL = 1
"""Higher levels cost more time than they save: the page is very repetitive."""


def metrics_of(exporter: Exporter) -> WsgiApplication:
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
    """Return whether a client accepts gzip.

    >>> accepts_gzip("deflate, gzip;q=0.5"), accepts_gzip("gzip;q=0"), accepts_gzip("")
    (True, False, False)
    """
    for part in accept_encoding.split(","):
        name, _, parameters = part.strip().partition(";")
        if name.strip() in ("gzip", "*"):
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def serve(exporter: Exporter, settings: ExporterSettings) -> PageServer:
    """Return the server, which answers requests until `stop`; raises SettingsError naming the setting."""
    context, cert, credentials = None, settings.metrics_tls_cert_file, None
    if cert:
        context = server_context(f"metrics_tls_cert_file: {cert}", cert, settings.metrics_tls_key_file)
    if settings.metrics_username and settings.metrics_password:
        credentials = settings.metrics_username, settings.metrics_password
    return PageServer(
        Pages(metrics_of(exporter), exporter.ready, credentials), settings.metrics_host, settings.metrics_port,
        context=context, connections_max=settings.connections_max, timeout_s=settings.timeout_s,
    )  # fmt: skip


main = command("exporter", SETTINGS, build)
