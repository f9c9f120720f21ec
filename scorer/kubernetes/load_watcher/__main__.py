"""``windward load-watcher``: serve the load of all nodes to Trimaran's plugins until SIGTERM."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from schemas.process.logs import configure_logs
from schemas.process.page_server import PageServer
from schemas.process.pages import Pages, metrics_of
from schemas.process.presence import Presence, page_of
from schemas.process.settings import load_settings
from schemas.process.signals import Stop, handle_signals
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.kubernetes.load_watcher.metrics import Metrics
from scorer.kubernetes.load_watcher.settings import LoadWatcherSettings
from scorer.kubernetes.load_watcher.watcher import LoadWatcher, WatcherPages
from scorer.live.live_fleet import refuse_mode
from scorer.live.loader import Loader
from scorer.wire import Wire

log = logging.getLogger("windward.load_watcher")

SETTINGS = LoadWatcherSettings


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run a load watcher."""
    settings = load_settings(LoadWatcherSettings, "load-watcher", argv, environ)
    configure_logs(settings.log_level, settings.log_format)
    return run(settings)


def run(settings: LoadWatcherSettings) -> int:
    """Build the parts, read and serve until a signal, close everything."""
    refuse_mode("redis_url", settings.redis_arguments())
    refuse_mode("windows_url", settings.windows_arguments())
    metrics, loader = (
        Metrics(product_version()),
        Loader(Wire(settings.redis_arguments()), settings.names, windows_wire(settings)),
    )
    watcher = LoadWatcher(loader, metrics, settings.window, settings.stale)
    stop = Stop()
    handle_signals(stop, lambda: None, lambda _: None)
    pages = Pages(metrics_of(metrics.registry, settings.prefix), watcher.ready)
    server = PageServer(WatcherPages(watcher, pages, metrics), settings.metrics_host, settings.metrics_port)
    page = page_of(settings.metrics_host, server.port)
    presence = Presence("load-watcher", settings.names, settings.redis_arguments(), page=page, ready=watcher.ready)
    log.info("watcher.start", extra={"values": {"page": f"{page}/watcher", "window_s": settings.window}})
    try:
        watcher.refresh()
        with presence:
            while not stop.wait(settings.refresh):
                watcher.refresh()
    finally:
        server.stop()
        loader.close()
    log.info("watcher.stop")
    return 0


if __name__ == "__main__":
    import os

    sys.exit(main(sys.argv[1:], os.environ))
