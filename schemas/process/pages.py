"""The HTTP pages of a process: ``/metrics``, ``/live`` (it runs), ``/ready`` (it does its work).

``/metrics`` is prometheus_client's: text or OpenMetrics, gzip on request, ``?name[]=`` for some families only. The
process's own ``process_*`` and ``python_*`` are included. ``_created`` is left out: it doubles the series.

Every series has the label ``fleet``, the prefix, so that one Prometheus can have several fleets. It is added here to
all that a process counts, not in each metric; a metric that has a label of that name keeps its own.
"""

import base64
import contextlib
import hmac
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    make_wsgi_app,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from schemas.process.page_server import SERVER, PageServer, StartResponse, WsgiApplication

Ready = Callable[[], tuple[bool, dict[str, Any]]]
"""Returns whether the process is ready, and details; when not, the page answers 503."""

_JSON = "application/json"


class _OfFleet(Collector):
    """All families of a registry, each sample with the label ``fleet``."""

    def __init__(self, registry: CollectorRegistry, fleet: str) -> None:
        self._registry = registry
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            samples = [one._replace(labels={"fleet": self._fleet, **one.labels}) for one in family.samples]
            labelled = Metric(family.name, family.documentation, family.type, family.unit)
            labelled.samples = samples
            yield labelled


def serve_pages(registry: CollectorRegistry, host: str, port: int, ready: Ready, *, fleet: str) -> PageServer:
    """Serve the pages from a daemon thread; return the server, which has the ``port``.

    Raises SettingsError when it cannot listen on the address.
    """
    return PageServer(Pages(metrics_of(registry, fleet), ready), host, port)


def while_accepting(server: PageServer, ready: Ready) -> Ready:
    """Return the state of a process: not ready also where its server does not accept connections."""

    def state() -> tuple[bool, dict[str, Any]]:
        yes, details = ready()
        if server.accepting:
            return yes, details
        return False, details | {"error": f"port {server.port} accepts no connections: restart the process"}

    return state


def metrics_of(registry: CollectorRegistry, fleet: str) -> WsgiApplication:
    """Return the application of ``/metrics``, the process's own metrics added to the registry."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    add_process(registry)
    shown = CollectorRegistry(auto_describe=True)
    shown.register(_OfFleet(registry, fleet))
    application: WsgiApplication = make_wsgi_app(shown)
    return application


def add_process(registry: CollectorRegistry) -> None:
    """Add the process's own ``process_*`` and ``python_*`` to a registry."""
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        with contextlib.suppress(ValueError):  # the registry has it already
            collector(registry=registry)


class Pages:
    """The pages as a WSGI application; ``metrics`` is the application of ``/metrics``.

    With ``credentials``, a user and a password, all but ``/live`` require them (HTTP basic authentication).
    """

    def __init__(self, metrics: WsgiApplication, ready: Ready, credentials: tuple[str, str] | None = None) -> None:
        self._metrics = metrics
        self._ready = ready
        self._credentials = ":".join(credentials).encode() if credentials else None

    def __call__(self, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        """Answer one request with a body of known length; HEAD as GET, without the body."""
        status, headers, body = self._answer(environ)
        headers = [header for header in headers if header[0].lower() != "content-length"]
        start(status, [*headers, ("Content-Length", str(len(body)))])
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        path = environ.get("PATH_INFO", "")
        plain = [("Content-Type", "text/plain; charset=utf-8")]
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return "405 Method Not Allowed", [*plain, ("Allow", "GET, HEAD")], b"GET or HEAD\n"
        if path == "/live":
            return "200 OK", [("Content-Type", _JSON)], b'{"live":true}'
        if not self._allowed(environ.get("HTTP_AUTHORIZATION", "")):
            realm = ("WWW-Authenticate", 'Basic realm="windward", charset="UTF-8"')
            return "401 Unauthorized", [*plain, realm], b"user and password are required\n"
        if path == "/ready":
            server = environ.get(SERVER)
            yes, details = (self._ready if server is None else while_accepting(server, self._ready))()
            body = json.dumps({"ready": yes, **details}).encode()
            return "200 OK" if yes else "503 Service Unavailable", [("Content-Type", _JSON)], body
        if path == "/metrics":
            started = list[tuple[str, list[tuple[str, str]]]]()
            asked = environ | {"REQUEST_METHOD": "GET"}
            body = b"".join(self._metrics(asked, lambda status, headers: started.append((status, headers))))
            return started[0][0], [*started[0][1], ("Vary", "Accept, Accept-Encoding")], body
        return "404 Not Found", plain, b"/metrics /live /ready\n"

    def _allowed(self, authorization: str) -> bool:
        if self._credentials is None:
            return True
        scheme, _, given = authorization.partition(" ")
        try:
            said = base64.b64decode(given, validate=True)
        except ValueError:
            return False
        return scheme.lower() == "basic" and hmac.compare_digest(said, self._credentials)
