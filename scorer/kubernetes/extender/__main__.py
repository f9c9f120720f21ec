"""``windward extender``: answer kube-scheduler's questions until SIGTERM."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from schemas.process.page_server import PEER, PageServer, StartResponse
from schemas.process.pages import while_accepting
from schemas.process.run import Process, command
from schemas.process.settings import SettingsError
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.kubernetes.extender.binding import Binder
from scorer.kubernetes.extender.extender import profile_for
from scorer.kubernetes.extender.fleet import FollowedFleet, Holds
from scorer.kubernetes.extender.metrics import Metrics
from scorer.kubernetes.extender.protocol import encode
from scorer.kubernetes.extender.settings import ExtenderSettings
from scorer.kubernetes.extender.verbs import Verbs
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import profiles_of, refuse_modes
from scorer.live.loader import Loader
from scorer.ranking.profiles.profile import ProfileError
from scorer.wire import Wire

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


SETTINGS = ExtenderSettings
_SWITCH_INTERVAL_S = 0.0005
"""The longest time for which the fleet's thread may hold the interpreter while a verb waits."""
_FACTS_S = 1.0


def build(settings: ExtenderSettings, environ: Mapping[str, str]) -> Process:
    """Return the process of an extender; it listens, and has read the fleet."""
    try:
        profile = profile_for(profiles_of(settings).choose(), settings.mode)
    except ProfileError as error:
        raise SettingsError(f"profiles: {error}") from None
    how, context = settings.reading, settings.server_tls()

    def ledger() -> Ledger:
        return Ledger(Wire(settings.ledger_arguments()), settings.names, **settings.ledger_bounds())

    binder = Binder(settings.api(environ), ledger) if settings.mode == "bind" else None
    refuse_modes(settings)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    metrics = Metrics(product_version())
    loader = Loader(Wire(settings.redis_arguments()), settings.names, windows_wire(settings), facts_s=_FACTS_S)
    holds = Holds(Wire(settings.redis_arguments()), settings.names)
    fleet = FollowedFleet(ledger(), loader, profile, metrics, settings.refresh, holds)
    verbs = Verbs(fleet, settings.mode, how, metrics, settings.scored_max, settings.scheduler_names, binder)

    def state() -> tuple[bool, dict[str, Any]]:
        with fleet.lock:
            why = fleet.why_not() or ("stale" if fleet.is_stale() else "")
        details: dict[str, Any] = {"mode": settings.mode, "machines": fleet.machines()}
        return not why, details | ({"neutral": why} if why else {}) | (
            {"error": fleet.trouble} if fleet.trouble else {}
        )

    with ExitStack() as closing:
        closing.callback(fleet.stop)
        fleet.turn()
        fleet.start()
        server = serve(verbs, settings.listen_host, settings.listen_port, context, settings.client_names)
        closing.callback(server.stop)
        first = {"mode": settings.mode, "host": settings.listen_host, "port": server.port, "tls": context is not None}
        ready = while_accepting(server, state)
        return Process(work=Stop.wait, closing=closing.pop_all(), registry=metrics.registry, ready=ready, first=first)


main = command("extender", SETTINGS, build)
