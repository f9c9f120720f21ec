"""``windward extender``: answer kube-scheduler's questions until SIGTERM."""

import ssl
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from schemas.process.page_server import PEER, PageServer, StartResponse, server_context
from schemas.process.pages import while_accepting
from schemas.process.run import Process, command
from schemas.process.settings import SettingsError, setting
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.kubernetes.extender.binding import Binder
from scorer.kubernetes.extender.fleet import FollowedFleet, Metrics
from scorer.kubernetes.extender.protocol import encode
from scorer.kubernetes.extender.verbs import Mode, Verbs, profile_for
from scorer.kubernetes.kubernetes_settings import LOOPBACK, KubernetesSettings
from scorer.ledger.store.scripts import Ledger
from scorer.live.live_fleet import profiles_of, refuse_modes
from scorer.live.loader import Loader
from scorer.ranking.profiles.profile import ProfileError
from scorer.wire import Wire

DEFAULT_PORT = 2021
_FILES = ("listen_tls_cert_file", "listen_tls_key_file", "listen_client_ca_file")


@dataclass(frozen=True, kw_only=True)
class ExtenderSettings(KubernetesSettings):
    """Score nodes for kube-scheduler, as one of its extenders.

    Mode ``score`` answers ``prioritize`` alone and never blocks a pod. ``filter`` also refuses nodes that
    are hot, stale or cordoned. ``bind`` also reserves each pod in the ledger, within limits, and binds it. Beyond
    loopback the scheduler must have a certificate.
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward extender --kubernetes east --redis-url redis://server:6379/0 --metrics-port 9469",
        "windward extender --kubernetes east --mode filter --profile koordinator",
    )

    mode: Mode = setting("score", "what the scheduler may ask: prioritize; filter too; bind too")
    listen_host: str = setting("127.0.0.1", "address of the verbs; beyond loopback TLS is required, of both ends")
    listen_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(DEFAULT_PORT, "their port")
    listen_tls_cert_file: Path | None = setting(None, "PEM file with the certificate of the verbs")
    listen_tls_key_file: Path | None = setting(None, "PEM file with its key")
    listen_client_ca_file: Path | None = setting(None, "PEM file with the authorities of the schedulers' certificates")
    client_names: tuple[str, ...] = setting(
        (),
        "names that a scheduler's certificate may have, as subject or DNS; none: any of these authorities",
        metavar="NAME",
    )
    scheduler_names: tuple[str, ...] = setting(
        (), "schedulerName of the pods that are scored and filtered; none: all that are asked about", metavar="NAME"
    )
    profiles: tuple[Path, ...] = setting((), "TOML files with profiles", metavar="FILE")
    profile: str = setting(
        "windward", "profile by which nodes are scored, without the filters that are left to Kubernetes"
    )
    scored_max: Annotated[int, Meta(ge=1, le=100_000)] = setting(
        500, "nodes that get a score above 0; the more the slower"
    )
    refresh: Annotated[float, Meta(ge=0.05, le=60)] = setting(
        0.5, "time between two reads of the windows", duration=True
    )
    metrics_host: str = setting("127.0.0.1", "address of the metrics and health pages")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(0, "their port; 0: none")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in _FILES if getattr(self, name)]
        if given and len(given) < len(_FILES):
            missing = ", ".join(name for name in _FILES if name not in given)
            raise ValueError(f"{missing}: required beside {', '.join(given)}")
        if not given and self.listen_host not in LOOPBACK:
            raise ValueError(f"{', '.join(_FILES)}: required where listen_host is not loopback: {self.listen_host}")
        if self.client_names and not given:
            raise ValueError("client_names: there are no certificates without listen_tls_cert_file")

    def server_tls(self) -> ssl.SSLContext | None:
        """Return the TLS context of the verbs, None on loopback without certificates. Raises SettingsError."""
        if self.listen_tls_cert_file is None:
            return None
        return server_context(f"{', '.join(_FILES)}:", *(getattr(self, name) for name in _FILES))


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


SETTINGS = ExtenderSettings
_SWITCH_INTERVAL_S = 0.0005
"""The longest time for which the fleet's thread may hold the interpreter while a verb waits."""
_FACTS_S = 1.0


def build(settings: ExtenderSettings, environ: Mapping[str, str]) -> Process:
    """Return the process of an extender; it is ready once it listens and has read the fleet."""
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
    fleet = FollowedFleet(ledger(), loader, profile, metrics, settings.refresh, settings.names)
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
        server = PageServer(
            VerbPages(verbs, settings.client_names), settings.listen_host, settings.listen_port, context=context,
            connections_max=CONNECTIONS_MAX, timeout_s=IDLE_S, body_bytes_max=BODY_BYTES_MAX, threads=THREADS,
            setting="listen_port",
        )  # fmt: skip
        closing.callback(server.stop)
        first = {"mode": settings.mode, "host": settings.listen_host, "port": server.port, "tls": context is not None}
        ready, close = while_accepting(server, state), [closing.pop_all().close]
        return Process(work=Stop.wait, registry=metrics.registry, ready=ready, first=first, close=close)


main = command("extender", SETTINGS, build)
