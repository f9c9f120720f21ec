"""``windward load-watcher``: serve the load of all nodes to Trimaran's plugins until SIGTERM."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from schemas.process.connections import WindowsSettings
from schemas.process.page_server import PageServer
from schemas.process.pages import Pages, metrics_of, while_accepting
from schemas.process.presence import page_of
from schemas.process.run import Process, command
from schemas.process.settings import setting
from schemas.process.signals import Stop
from schemas.process.version import product_version
from scorer.cluster_wire import windows_wire
from scorer.kubernetes.load_watcher.watcher import LoadWatcher, Metrics, WatcherPages
from scorer.live.live_fleet import refuse_mode
from scorer.live.loader import Loader
from scorer.wire import Wire

DEFAULT_PORT = 2020
"""The port in Trimaran's documentation."""
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


@dataclass(frozen=True, kw_only=True)
class LoadWatcherSettings(WindowsSettings):
    """Serve the windowed load of every node to Trimaran's plugins, as a load watcher: their ``watcherAddress``.

    It reads the windows and writes nothing. A node's name is its machine's id (``WINDWARD_MACHINE`` of its agent).
    """

    EXAMPLES: ClassVar[tuple[str, ...]] = (
        "windward load-watcher --redis-url redis://server:6379/0",
        "windward load-watcher --window 5m --metrics-host 0.0.0.0",
    )

    metrics_host: str = setting("127.0.0.1", "address of the answers, and of the metrics and health pages")
    metrics_port: Annotated[int, Meta(ge=0, le=65_535)] = setting(DEFAULT_PORT, "their port")
    window: Annotated[int, Meta(ge=1, le=86_400)] = setting(
        900, "the window that is served; one of those that the stream app keeps", duration=True
    )
    stale: Seconds = setting(
        60.0, "a node whose data are older is left out, which scores 0; at least three of its intervals", duration=True
    )
    refresh: Annotated[float, Meta(ge=0.05, le=60)] = setting(
        5.0, "time between two reads of the windows", duration=True
    )


SETTINGS = LoadWatcherSettings


def build(settings: LoadWatcherSettings, _environ: Mapping[str, str]) -> Process:
    """Return the process of a load watcher; it is ready once it listens, on one port, and has read the windows."""
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
    ready, close = while_accepting(server, watcher.ready), (loader.close, server.stop)
    return Process(work=work, page=page, ready=ready, first=first, close=close)


main = command("load-watcher", SETTINGS, build, event="watcher")
