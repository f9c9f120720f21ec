"""``windward load-watcher``: serve the load of all nodes to Trimaran's plugins until SIGTERM."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.process.page_server import PageServer
from schemas.process.pages import Pages, metrics_of, while_accepting
from schemas.process.presence import page_of
from schemas.process.run import Process, command
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.kubernetes.load_watcher.metrics import Metrics
from scorer.kubernetes.load_watcher.settings import LoadWatcherSettings
from scorer.kubernetes.load_watcher.watcher import LoadWatcher, WatcherPages
from scorer.live.live_fleet import refuse_mode
from scorer.live.loader import Loader
from scorer.wire import Wire

SETTINGS = LoadWatcherSettings


def build(settings: LoadWatcherSettings, _environ: Mapping[str, str]) -> Process:
    """Return the process of a load watcher; it listens, on one port, and has read the windows."""
    refuse_mode("redis_url", settings.redis_arguments())
    refuse_mode("windows_url", settings.windows_arguments())
    metrics = Metrics(product_version())
    loader = Loader(Wire(settings.redis_arguments()), settings.names, windows_wire(settings))
    watcher = LoadWatcher(loader, metrics, settings.window, settings.stale)
    pages = Pages(metrics_of(metrics.registry, settings.prefix), watcher.ready)
    server = PageServer(WatcherPages(watcher, pages, metrics), settings.metrics_host, settings.metrics_port)

    def work(stop: Stop) -> None:
        while not stop.wait(settings.refresh):
            watcher.refresh()

    watcher.refresh()
    page = page_of(settings.metrics_host, server.port)
    first = {"page": f"{page}/watcher", "window_s": settings.window}
    found = Process(work=work, page=page, ready=while_accepting(server, watcher.ready), first=first)
    for close in (loader.close, server.stop):
        found.closing.callback(close)
    return found


main = command("load-watcher", SETTINGS, build, event="watcher")
