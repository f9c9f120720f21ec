"""``windward scorer``: answer placement queries until SIGTERM. SIGHUP reads the profiles again."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from types import FrameType
from typing import Any

import redis

from schemas.logs import configure_logs
from schemas.pages import serve_pages
from schemas.settings import SettingsError, load_settings
from scorer.follow import Follower
from scorer.ledger import Ledger
from scorer.loader import Loader, Refresher
from scorer.metrics import Metrics
from scorer.profile import ProfileError, Profiles, load_profiles
from scorer.rank import warm
from scorer.rpc import Heartbeat, Rpc
from scorer.service import ScorerService
from scorer.settings import ScorerSettings
from scorer.wire import AWAY, Wire

log = logging.getLogger("windward.scorer")

_SWITCH_INTERVAL_S = 0.0005
"""How long the refresher may keep the interpreter while a query waits."""
_SWEEP_S = 1.0


class Sweeper(threading.Thread):
    """Expires reservations when no transition does it in passing."""

    def __init__(self, ledger: Ledger, metrics: Metrics) -> None:
        super().__init__(name="sweeper", daemon=True)
        self._ledger = ledger
        self._metrics = metrics
        self._stop_event = threading.Event()

    def run(self) -> None:
        """Sweep every second until `stop`."""
        while not self._stop_event.wait(_SWEEP_S):
            try:
                while (count := self._ledger.expire().count) >= 1000:
                    self._metrics.expiries.inc(count)
                self._metrics.expiries.inc(count)
            except AWAY:
                continue
            except redis.ResponseError as error:
                log.warning("scorer.sweep.refused", extra={"values": {"error": str(error)}})

    def stop(self) -> None:
        """End the thread."""
        self._stop_event.set()
        self.join(timeout=10)
        self._ledger.wire.close()


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run a scorer."""
    settings = load_settings(ScorerSettings, "scorer", argv, environ)
    configure_logs(settings.log_level, settings.log_format)
    try:
        profiles = load_profiles(settings.profiles, settings.profile)
    except ProfileError as error:
        raise SettingsError(f"profiles: {error}") from None
    return run(settings, profiles)


def run(settings: ScorerSettings, profiles: Profiles) -> int:
    """Build the parts, run the loop, take everything down again."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    names, scorer, metrics = settings.names, settings.scorer, Metrics(own_version())
    arguments, ledger_arguments = settings.redis_arguments(), settings.ledger_arguments()
    wire = Wire(arguments)
    same_server = arguments == ledger_arguments
    for name, given in (("redis_url", arguments), ("ledger_url", ledger_arguments)):
        refuse_mode(name, given)

    def ledger(on: Wire) -> Ledger:
        return Ledger(on, names, log_length=settings.ledger_log_length, remember_s=settings.remember_s)

    own_ledger = ledger(wire if same_server else Wire(ledger_arguments))
    follower = Follower(own_ledger)
    refresh_wire = Wire(arguments)
    refresher = Refresher(Loader(refresh_wire, names), refresh_wire, metrics, settings.refresh_s)
    service = ScorerService(
        names=names, scorer=scorer, version=own_version(), follower=follower, ledger=own_ledger,
        source=refresher, profiles=profiles, metrics=metrics, same_server=same_server,
        attempts_max=settings.attempts_max, decisions_length=settings.decisions_length,
    )  # fmt: skip
    refresher.warm = lambda snapshot: warm(snapshot, service.profiles.choose(), time.time())
    rpc = Rpc(
        wire, names, scorer, service, metrics,
        queue_length_max=settings.queue_length_max, drain_max=settings.drain_max,
    )  # fmt: skip
    heartbeat = Heartbeat(
        Wire(arguments), names, scorer, metrics, heartbeat_s=settings.heartbeat_s, silent_s=settings.silent_s
    )
    sweeper = Sweeper(ledger(Wire(ledger_arguments)), metrics)
    stop = threading.Event()
    _handle_signals(stop, service, settings)
    pages = None
    if settings.metrics_port:
        pages = serve_pages(
            metrics.registry, settings.metrics_host, settings.metrics_port, lambda: (service.ready, {"scorer": scorer})
        )
    log.info("scorer.start", extra={"values": {"scorer": scorer, "profile": settings.profile, "prefix": names.prefix}})
    try:
        refresher.look()
        for thread in (heartbeat, refresher, sweeper):
            thread.start()
        rpc.run(stop)
    finally:
        for part in (refresher, sweeper, heartbeat):
            part.stop()
        wire.close()
        if pages is not None:
            pages.shutdown()
            pages.server_close()
    log.info("scorer.stop", extra={"values": {"scorer": scorer}})
    return 0


def refuse_mode(name: str, arguments: Mapping[str, Any]) -> None:
    """Refuse a Sentinel and a node of a Cluster; a server that is away or does not say is believed.

    Raises SettingsError naming the setting.
    """
    wire = Wire(dict(arguments))
    try:
        lines = wire.one("INFO", "server").decode().splitlines()
    except (*AWAY, redis.ResponseError):
        return
    finally:
        wire.close()
    mode = next((line.partition(":")[2] for line in lines if line.startswith(("redis_mode:", "server_mode:"))), "")
    if mode in ("cluster", "sentinel"):
        raise SettingsError(
            f"{name}: {arguments['url']} runs as a {mode}, which is not supported: "
            "name one server, or a proxy that follows the master"
        )


def own_version() -> str:
    """Return this package's version."""
    try:
        return version("windward")
    except PackageNotFoundError:
        return "unknown"


def _handle_signals(stop: threading.Event, service: ScorerService, settings: ScorerSettings) -> None:
    def end(_: int, __: FrameType | None) -> None:
        stop.set()

    def reload(_: int, __: FrameType | None) -> None:
        try:
            service.profiles = load_profiles(settings.profiles, settings.profile)
            log.info("scorer.profiles.reloaded")
        except Exception as error:  # whatever it is, the profiles that run are good
            log.warning("scorer.profiles.refused", extra={"values": {"error": str(error)}})

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        signal.signal(signal.SIGHUP, reload)


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
